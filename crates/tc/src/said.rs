//! The words of a filter or an action after its kind, read into settings.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::language::{Object, Settings};
use crate::lex::Word;
use crate::source::Source;

/// The words after the kind of a filter or an action.
pub(crate) struct Said<'a> {
    pub(crate) source: &'a Arc<Source>,
    /// The kind, as written.
    pub(crate) kind: &'a Word,
    /// The handle that stands before the kind, which some kinds read in their own way.
    pub(crate) handle: Option<&'a Word>,
    /// The measurement of averages, if the filter has an estimator.
    pub(crate) estimator: Option<(u8, u8)>,
    /// The settings of the words.
    pub(crate) settings: Settings,
}

impl<'a> Said<'a> {
    /// Reads the words of a filter.
    pub(crate) fn filter(
        source: &'a Arc<Source>,
        kind: &'a Word,
        handle: Option<&'a Word>,
        words: &[Word],
    ) -> Self {
        let settings = Settings::of(Object::Filter, &kind.text, source, words);
        Self { source, kind, handle, estimator: None, settings }
    }
    /// Returns a refusal of one of its words.
    pub(crate) fn error(&self, code: &'static str, at: &Word, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, self.source, at.span.clone(), message)
    }
    /// Returns the word of a key; the kind, if the key was not given.
    pub(crate) fn at(&self, key: &str) -> &Word {
        self.settings.words(key).and_then(<[Word]>::first).unwrap_or(self.kind)
    }
    /// Returns a number of 32 bits; the words were checked to be one.
    pub(crate) fn u32(&self, key: &str) -> Option<u32> {
        self.settings.number(key).and_then(|n| u32::try_from(n.value).ok())
    }
}
