//! Which form of `/flagz` or `/statusz` a client wants, from its `Accept` header.
//!
//! In: the header. Out: [`Wanted`]. The first media range in the client's order of preference that can be served
//! wins; a range for JSON or YAML can be served only if it names a group, a version and the kind.

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flagz,
    Statusz,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Flagz => "Flagz",
            Self::Statusz => "Statusz",
        }
    }
}

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

/// Versions of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1Alpha1,
    V1Beta1,
}

const GROUP: &str = "config.k8s.io";

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }

    pub(super) fn group_version(self) -> String {
        format!("{GROUP}/{}", self.name())
    }

    pub(super) fn content_type(self, format: Format, kind: Kind) -> String {
        let format = match format {
            Format::Json => "json",
            Format::Yaml => "yaml",
        };
        format!("application/{format};g={GROUP};v={};as={}", self.name(), kind.name())
    }

    /// What a client of an old version is told.
    pub(super) fn warning(self, kind: Kind) -> Option<String> {
        let page = match kind {
            Kind::Flagz => "flagz",
            Kind::Statusz => "statusz",
        };
        (self == Self::V1Alpha1).then(|| {
            format!(
                "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
            )
        })
    }
}

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The page for people.
    Text,
    /// The object.
    Object(Format, Version),
    /// 406.
    Unknown,
}

/// See the module.
pub(super) fn negotiate(kind: Kind, accept: &str) -> Wanted {
    if accept.trim().is_empty() {
        return Wanted::Text;
    }
    let mut ranges: Vec<Range<'_>> = accept.split(',').map(Range::new).collect();
    // Stable: equal preferences stay in the client's order.
    ranges.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    ranges.iter().find_map(|range| range.served(kind)).unwrap_or(Wanted::Unknown)
}

struct Range<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f64,
}

impl<'a> Range<'a> {
    fn new(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let quality = parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, q)| q.parse().ok());
        Self { media, parameters, quality: quality.unwrap_or(1.0) }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    fn served(&self, kind: Kind) -> Option<Wanted> {
        let format = match self.media {
            "application/json" => Format::Json,
            "application/yaml" => Format::Yaml,
            "text/plain" | "text/*" | "*/*" if self.parameter("as").is_none() => return Some(Wanted::Text),
            _ => return None,
        };
        let version = match self.parameter("v")? {
            "v1alpha1" => Version::V1Alpha1,
            "v1beta1" => Version::V1Beta1,
            _ => return None,
        };
        let is_known = self.parameter("g") == Some(GROUP) && self.parameter("as") == Some(kind.name());
        is_known.then_some(Wanted::Object(format, version))
    }
}
