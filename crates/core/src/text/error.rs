//! The one control-plane error: what kind, which object, which key, what was expected, what was given.
//! Mishaps on the data path are counted reasons, not errors.

use alloc::string::{String, ToString};
use core::fmt;

/// The kind of a configuration error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No qdisc kind of that name.
    UnknownKind,
    /// The kind has no such parameter.
    UnknownKey,
    /// The words after the key are not such a value.
    BadValue,
    /// A well-formed value outside its range.
    OutOfRange,
    /// A share of a link whose rate is not known.
    NoLinkRate,
    /// A parameter that must be given was not.
    Missing,
    /// Two parameters contradict each other, or a change is not possible while running.
    Conflict,
    /// No qdisc or class of that name.
    NotFound,
    /// The place or the name is taken.
    Exists,
    /// The object cannot do this.
    Unsupported,
}

/// A configuration was refused; nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The kind.
    pub kind: ErrorKind,
    /// The object: `fq_codel`, `qdisc 1:`, `class 1:4`.
    pub object: String,
    /// The parameter, if the error is about one.
    pub key: Option<String>,
    /// What was expected.
    pub expected: String,
    /// What was given; empty if nothing was.
    pub given: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Index of the offending word among those passed in, for a caret.
    pub word: Option<usize>,
}

impl ConfigError {
    /// An error about `object`.
    pub fn new(
        kind: ErrorKind,
        object: impl ToString,
        expected: impl ToString,
        given: impl ToString,
    ) -> Self {
        Self {
            kind,
            object: object.to_string(),
            key: None,
            expected: expected.to_string(),
            given: given.to_string(),
            hint: None,
            word: None,
        }
    }
    /// With the parameter it is about.
    #[must_use]
    pub fn key(mut self, key: impl ToString) -> Self {
        self.key = Some(key.to_string());
        self
    }
    /// With advice.
    #[must_use]
    pub fn hint(mut self, hint: impl ToString) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
    /// With the index of the offending word.
    #[must_use]
    pub const fn word(mut self, word: usize) -> Self {
        self.word = Some(word);
        self
    }
}

impl fmt::Display for ConfigError {
    /// `fq_codel limit: expected at least 1 packet, given "0" (hint)`; of a share of an unknown rate,
    /// `tbf rate: 50% of a link whose rate is not known (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.object)?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        match (self.kind, self.given.as_str()) {
            (ErrorKind::NoLinkRate, given) => write!(f, ": {given} of a link whose rate is not known")?,
            (_, "") => write!(f, ": expected {}, given nothing", self.expected)?,
            (_, given) => write!(f, ": expected {}, given \"{given}\"", self.expected)?,
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ConfigError {}
