//! A line that cannot be read or run: its diagnostic, and the exit status of tc for it.

use std::borrow::Cow;
use std::fmt;

use crate::diagnostic::Diagnostic;

/// The exit status of tc for words after the kind, or a device, that it cannot interpret.
pub(crate) const UNPARSABLE: u8 = 1;
/// The exit status of tc for lines that the kernel refuses.
pub(crate) const REFUSED: u8 = 2;
/// The exit status of tc for words before the kind that it cannot interpret, and for a key without
/// a value.
pub(crate) const USAGE: u8 = 255;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit status of tc: 1 for words after the kind or a device that it cannot interpret, 2
    /// for a refusal of the kernel, 255 for words before the kind that it cannot interpret and for
    /// a key without a value.
    pub status: u8,
    /// The mistake, and its place.
    pub diagnostic: Diagnostic,
}

impl Failure {
    pub(crate) const fn usage(diagnostic: Diagnostic) -> Self {
        Self { status: USAGE, diagnostic }
    }
    pub(crate) const fn unparsable(diagnostic: Diagnostic) -> Self {
        Self { status: UNPARSABLE, diagnostic }
    }
    pub(crate) const fn refused(diagnostic: Diagnostic) -> Self {
        Self { status: REFUSED, diagnostic }
    }
    /// Sets Linux's own lines for the same refusal.
    #[must_use]
    pub(crate) fn linux(mut self, lines: impl Into<Cow<'static, str>>) -> Self {
        self.diagnostic = self.diagnostic.linux(lines);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for Failure {}
