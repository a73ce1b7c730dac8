//! The findings of a check, and the places that they are about.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::Handle;
use txweir_tc::diagnostic::Diagnostic;
use txweir_tc::source::Source;
use txweir_tc::suggest;

/// The findings on a file.
pub(super) struct Findings<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) said: Vec<Diagnostic>,
}

impl Findings<'_> {
    /// Returns an error about a span, which is not yet a finding.
    pub(super) fn error(&self, code: &'static str, span: &Range<usize>, message: String) -> Diagnostic {
        Diagnostic::error(code, self.source, span.clone(), message)
    }
    pub(super) fn say(&mut self, d: Diagnostic) {
        self.said.push(d);
    }
    /// Returns the place of a span for messages: `line 3`.
    pub(super) fn line(&self, span: &Range<usize>) -> String {
        format!("line {}", self.source.locate(span.start).0)
    }

    /// Returns a handle in the form of the span: `parent 1:9` is replaced as a whole if the span is
    /// both words.
    pub(super) fn like_written(&self, span: &Range<usize>, handle: &str) -> String {
        match self.source.text.get(span.clone()).and_then(|t| t.split_once(char::is_whitespace)) {
            Some((key, _)) => format!("{key} {handle}"),
            None => handle.to_string(),
        }
    }
}

/// Returns the existing name most similar to a missing one.
pub(super) fn nearest(given: Handle, there: impl Iterator<Item = Handle>) -> Option<Handle> {
    let there: Vec<(String, Handle)> = there.map(|h| (h.to_string(), h)).collect();
    // Of equally similar names, one of the same length comes first.
    let mut there = there;
    there.sort_by_key(|(name, _)| name.len().abs_diff(given.to_string().len()));
    let near = suggest::closest(&given.to_string(), there.iter().map(|(name, _)| name.as_str()))?;
    there.iter().find(|(name, _)| name == near).map(|(_, h)| *h)
}
