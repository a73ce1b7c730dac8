//! `Source`: a text with a name, and the line and column of its bytes.

use std::sync::OnceLock;

use txweir_core::qdisc::Registry;

/// A text that commands were read from. Spans are byte offsets into `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages: a file's path, `--policy`, `<stdin>`.
    pub name: String,
    /// The whole text, also if only a part was read as commands. It does not change once a place
    /// in it was asked for.
    pub text: String,
    /// Lines of a longer text of this name that came before it.
    pub lines_before: usize,
    /// The kinds of qdiscs that its commands may name.
    pub kinds: Registry,
    starts: Starts,
}

/// The places at which the lines of a text begin, found when they are first asked for. They are a
/// function of the text, and so no part of a comparison.
#[derive(Clone, Debug, Default)]
struct Starts(OnceLock<Vec<usize>>);

impl PartialEq for Starts {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Starts {}

impl Source {
    /// Returns a text with a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            lines_before: 0,
            kinds: Registry::BUILT_IN,
            starts: Starts::default(),
        }
    }

    /// Returns the same text, whose commands may name the kinds of a registry.
    #[must_use]
    pub const fn with_kinds(mut self, kinds: Registry) -> Self {
        self.kinds = kinds;
        self
    }

    /// Returns the same text, as one that follows `lines` lines.
    #[must_use]
    pub const fn behind(mut self, lines: usize) -> Self {
        self.lines_before = lines;
        self
    }

    /// Returns line and column of a byte, both from 1; the column counts characters. An offset past
    /// the end, or within a character, is moved to the nearest place before. The first call takes
    /// time in proportion to the text, a further one in proportion to the line.
    pub fn locate(&self, offset: usize) -> (usize, usize) {
        let offset = self.boundary(offset);
        let starts = self.starts();
        let line = starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|at| starts.get(at)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).unwrap_or("").chars().count() + 1;
        (self.lines_before + line, column)
    }

    /// Returns the first byte of each line.
    fn starts(&self) -> &[usize] {
        self.starts.0.get_or_init(|| {
            std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect()
        })
    }

    /// Returns the line that a byte is in, without its end.
    pub(crate) fn line_at(&self, offset: usize) -> &str {
        let offset = self.boundary(offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |at| offset + at);
        self.text[start..end].trim_end_matches('\r')
    }

    fn boundary(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        // A character has at most four bytes.
        (offset.saturating_sub(3)..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let s = Source::new("s", "ab\r\nçd e\n");
        assert_eq!((s.locate(0), s.locate(4), s.locate(6), s.locate(7)), ((1, 1), (2, 1), (2, 2), (2, 3)));
        // Within the two bytes of the cedilla, and past the end.
        assert_eq!((s.locate(5), s.locate(99)), ((2, 1), (3, 1)));
        assert_eq!(s.clone().behind(1_000_000).locate(4), (1_000_002, 1));
        assert_eq!((s.line_at(1), s.line_at(5), s.line_at(99)), ("ab", "çd e", ""));
    }
}
