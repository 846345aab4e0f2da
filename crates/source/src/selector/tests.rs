//! Selectors against labels, and mistakes with their places.

use proptest::prelude::*;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn selectors_mean_what_kubectls_mean() {
    let web = labels(&[("app", "web"), ("tier", "front"), ("empty", ""), ("weight", "7"), ("a.b/in", "in")]);
    for (text, canonical, is_met) in [
        ("", "", true),
        ("  ", "", true),
        ("app=web", "app=web", true),
        ("app == web", "app=web", true),
        ("app=db", "app=db", false),
        ("app!=db", "app!=db", true),
        ("app != web", "app!=web", false),
        ("missing!=x", "missing!=x", true),
        ("missing=x", "missing=x", false),
        ("tier in (front, back)", "tier in (back,front)", true),
        ("tier in(back)", "tier=back", false),
        ("tier notin (back,other)", "tier notin (back,other)", true),
        ("tier notin (front)", "tier!=front", false),
        ("missing notin (x)", "missing!=x", true),
        ("missing in (x,y)", "missing in (x,y)", false),
        ("app", "app", true),
        ("!app", "!app", false),
        ("! missing", "!missing", true),
        ("missing", "missing", false),
        ("empty=", "empty=", true),
        ("empty in (x,)", "empty in (,x)", true),
        ("app=", "app=", false),
        ("weight>6,weight<8", "weight>6,weight<8", true),
        ("weight>7", "weight>7", false),
        ("app>1", "app>1", false),
        ("a.b/in in (in)", "a.b/in=in", true),
        (" app = web , tier , !legacy ", "app=web,tier,!legacy", true),
        ("app=web,tier=back", "app=web,tier=back", false),
    ] {
        let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((selector.to_string().as_str(), selector.matches(&web)), (canonical, is_met), "{text}");
        assert_eq!(canonical.parse::<Selector>(), Ok(selector), "{text}");
    }
}

#[test]
fn a_mistake_is_one_line_that_names_its_place() {
    let long = "x".repeat(5000);
    for (text, at, problem) in [
        ("app=web,", 9, "the name of a label should be there, not the end"),
        (",app", 1, "the name of a label should be there, not ','"),
        ("app web", 5, "=, !=, in, notin or a comma should be there, not \"web\""),
        ("app in web", 8, "( is missing after in"),
        ("app in ()", 9, "in needs a value"),
        ("app in (web", 12, ", or ) should be there, not the end"),
        ("app in (web db)", 13, ", or ) should be there, not \"db\""),
        ("app=web db", 9, "a comma is missing before \"db\""),
        ("app=a/b", 5, "no label has the value \"a/b\""),
        ("app===web", 6, "a comma is missing before '='"),
        ("ä,!!b", 1, "the name of a label should be there, not \"ä\""),
        ("a,!!b", 4, "the name of a label should be there, not '!'"),
        ("/b", 1, "the name of a label should be there, not \"/b\""),
        ("A.b/c/d", 1, "the name of a label should be there, not \"A.b/c/d\""),
        ("weight>heavy", 8, "a whole number should be there, not \"heavy\""),
        ("a=b\n\u{1b}[31m", 5, "a comma is missing before \"\\u{1b}[31m\""),
        ("a=b&limit=1", 3, "no label has the value \"b&limit\""),
        (long.as_str(), 4097, "it is longer than 4096 bytes"),
    ] {
        let error = text.parse::<Selector>().unwrap_err();
        assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
        let line = error.to_string();
        assert!(line.lines().count() == 1 && !line.contains('\u{1b}'), "{line}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_understood_is_understood_again(text in "[ab=!(),<> in0-9/.ä\\n-]{0,40}") {
        if let Ok(selector) = text.parse::<Selector>() {
            prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector));
        }
    }
}
