//! `Source`: a text with a name, and the line and column of its bytes.

use txweir_core::qdisc::Registry;

/// A text that commands were read from. Spans are byte offsets into `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages: a file's path, `--policy`, `<stdin>`.
    pub name: String,
    /// The whole text, also if only a part was read as commands.
    pub text: String,
    /// Lines of a longer text of this name that came before it.
    pub lines_before: usize,
    /// The kinds of qdiscs that its commands may name.
    pub kinds: Registry,
}

impl Source {
    /// Returns a text with a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), lines_before: 0, kinds: Registry::BUILT_IN }
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
    /// the end, or within a character, is moved to the nearest place before.
    pub fn locate(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..self.boundary(offset)];
        let line = self.lines_before + before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }

    /// Returns the line that a byte is in, without its end.
    pub(crate) fn line_at(&self, offset: usize) -> &str {
        let offset = self.boundary(offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |at| offset + at);
        self.text[start..end].trim_end_matches('\r')
    }

    fn boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset.min(self.text.len()))
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
