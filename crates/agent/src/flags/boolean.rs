//! Booleans as Go's flag packages read them.

/// A boolean as it was given, read when all flags are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boolean(String);

impl Boolean {
    /// The text as given.
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// The value, if the text is one of Go's spellings.
    pub fn read(&self) -> Option<bool> {
        read(&self.0)
    }
}

impl From<String> for Boolean {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Reads Go's spellings of true and false; no others, so `tRuE` is a mistake in both programs.
pub(super) fn read(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
