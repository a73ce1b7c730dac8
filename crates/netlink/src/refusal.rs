//! The reason for which a message is refused: an error number for programs, a text for people.

use std::fmt;

/// Error numbers of Linux (errno(3)), as messages carry them, without their sign.
pub mod errno {
    /// No such object.
    pub const NOENT: i32 = 2;
    /// The object is in use.
    pub const BUSY: i32 = 16;
    /// There is one already.
    pub const EXIST: i32 = 17;
    /// No such device.
    pub const NODEV: i32 = 19;
    /// The message or a value in it cannot be used.
    pub const INVAL: i32 = 22;
    /// Out of the range of a number.
    pub const RANGE: i32 = 34;
    /// There is no such operation here.
    pub const OPNOTSUPP: i32 = 95;
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of [`errno`].
    pub errno: i32,
    /// The reason in one line; empty for one that the number says.
    pub text: String,
}

impl Refusal {
    /// Returns a refusal of a malformed message or a wrong value.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self { errno: errno::INVAL, text: text.into() }
    }
    /// Returns a refusal of something that does not exist here.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self { errno: errno::OPNOTSUPP, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}
