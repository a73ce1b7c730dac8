//! The compound commands that are passed over, because only a run could tell what they do.

use txweir_tc::lex::Word;

/// Most open commands among which that of a closing word is looked for.
const MOST: usize = 256;

/// A compound command that is passed over, with those that are open within it.
pub(super) struct Passed {
    /// The words that close it and the commands within it, innermost last.
    closers: Vec<&'static str>,
    /// Number of loops among them.
    loops: usize,
    /// Number of functions and groups in braces among them.
    groups: usize,
    /// The word that opened it.
    pub(super) opener: Word,
    /// Number of tc lines within it.
    pub(super) lines: usize,
}

impl Passed {
    /// Returns the command that a word opens, before its closing word is known.
    pub(super) const fn new(opener: Word) -> Self {
        Self { closers: Vec::new(), loops: 0, groups: 0, opener, lines: 0 }
    }

    /// Opens a command that this word closes.
    pub(super) fn open(&mut self, closer: &'static str) {
        self.loops += usize::from(closer == "done");
        self.groups += usize::from(closer == "}");
        self.closers.push(closer);
    }

    /// Closes the innermost command that this word closes, with those within it; returns true if
    /// none is open any more.
    pub(super) fn close(&mut self, closer: &str) -> bool {
        let from = self.closers.len().saturating_sub(MOST);
        if let Some(at) = self.closers[from..].iter().rposition(|c| *c == closer) {
            for gone in self.closers.drain(from + at..) {
                self.loops -= usize::from(gone == "done");
                self.groups -= usize::from(gone == "}");
            }
        }
        self.closers.is_empty()
    }

    /// True within a loop that is not part of a function.
    pub(super) const fn in_loop(&self) -> bool {
        self.loops > 0 && self.groups == 0
    }
}
