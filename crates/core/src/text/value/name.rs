//! Names that commands give to objects of txweir.

use alloc::string::String;
use core::fmt;

use super::{Json, Refusal, Show, Value, Words};

/// A name: 1 to 32 letters, digits, `_`, `.` or `-`, the first neither of the last two.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Longest name, bytes.
    pub(crate) const LEN_MAX: usize = 32;

    /// Returns the name, or `None` if the text is not one.
    pub fn new(text: &str) -> Option<Self> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let named = text.len() <= Self::LEN_MAX
            && text.bytes().all(good)
            && !text.is_empty()
            && !text.starts_with(['.', '-']);
        named.then(|| Self(text.into()))
    }
    /// Returns its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Show for Name {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(&self.0)
    }
    fn json(&self) -> Json {
        Json::Text(self.0.clone())
    }
}

impl Value for Name {
    const EXPECTED: &'static str = "a name (1 to 32 letters, digits, _ . -, first no . or -)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        Self::new(words.value()?).ok_or(Refusal::NotSuch)
    }
}
