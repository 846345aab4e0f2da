//! The pages against what kube-proxy 1.36.4 answered, and the corners of negotiation and YAML.

use expect_test::expect;
use serde_json::json;

use super::negotiate::{Format, Kind, Version, Wanted, negotiate};
use super::*;

#[test]
fn who_says_nothing_gets_text() {
    for accept in ["", " ", "*/*", "text/plain", "text/*", "text/html,*/*;q=0.1", "image/png, text/plain"] {
        assert_eq!(negotiate(Kind::Flagz, accept), Wanted::Text, "{accept}");
    }
}

#[test]
fn objects_need_group_version_and_kind() {
    let json = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    assert_eq!(negotiate(Kind::Flagz, json), Wanted::Object(Format::Json, Version::V1Beta1));
    let yaml = "text/plain;q=0.5, application/yaml ; as=Flagz; g=config.k8s.io ;v=v1alpha1";
    assert_eq!(negotiate(Kind::Flagz, yaml), Wanted::Object(Format::Yaml, Version::V1Alpha1));
    for accept in [
        "application/json",
        "application/*",
        "text/html",
        "application/json;v=v1;g=config.k8s.io;as=Flagz",
        "application/json;v=v1beta1;g=other;as=Flagz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
        "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz",
        ";;;,,=,q=x",
    ] {
        assert_eq!(negotiate(Kind::Flagz, accept), Wanted::Unknown, "{accept}");
    }
}

#[test]
fn status_as_text() {
    let status = Statusz { toolchain: "go1.26.8".into(), version: "1.36".into() };
    let text =
        status.text("=", "2026-11-05T23:39:46.5Z".parse().unwrap(), Duration::from_secs(3725), &["/a", "/b"]);
    expect![[r"

        kube-proxy statusz
        Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

        Started= Thu Nov  5 23:39:46 UTC 2026
        Up= 1 hr 02 min 05 sec
        Go version= go1.26.8
        Binary version= 1.36
        Emulation version= 1.36
        Paths= /a /b
    "]]
    .assert_eq(&text);
}

#[test]
fn yaml_quotes_what_is_not_text() {
    let value = json!({
        "z": ["/configz", "a: b"],
        "texts": {"plain": "10.1.0.0/16,fd00:10:1::/48", "address": "[::]:10256", "wild": "*", "empty": "",
                  "number": "1.36", "word": "false", "time": "2026-11-15T23:42:50Z", "duration": "15m0s",
                  "line": "a\nb", "quote": "it's", "comment": "a #b", "loopback": "::1", "clock": "1:30"},
        "empty": {}, "n": 36,
    });
    expect![[r#"
        empty: {}
        "n": 36
        texts:
          address: '[::]:10256'
          clock: "1:30"
          comment: 'a #b'
          duration: 15m0s
          empty: ""
          line: "a\nb"
          loopback: ::1
          number: "1.36"
          plain: 10.1.0.0/16,fd00:10:1::/48
          quote: it's
          time: "2026-11-15T23:42:50Z"
          wild: '*'
          word: "false"
        z:
        - /configz
        - 'a: b'
    "#]]
    .assert_eq(&yaml::write(&value));
}
