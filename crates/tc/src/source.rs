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
    places: Places,
}

/// Bytes between two places up to which the characters are counted. A column is found from those
/// behind the last such place, and the counts take a byte for 32 of the text.
const STEP: usize = 256;

/// The places of a text, found when one is first asked for. They are a function of the text, and so
/// no part of a comparison.
#[derive(Clone, Debug, Default)]
struct Places(OnceLock<Index>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}

/// The lines and the characters of a text, by their bytes.
#[derive(Clone, Debug)]
struct Index {
    /// The first byte of each line.
    starts: Vec<usize>,
    /// The number of characters that begin before each step.
    characters: Vec<usize>,
}

impl Index {
    fn of(text: &str) -> Self {
        let mut before = 0;
        let steps = text.as_bytes().chunks(STEP).map(|bytes| {
            before += characters(bytes);
            before
        });
        Self {
            starts: std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect(),
            characters: std::iter::once(0).chain(steps).collect(),
        }
    }
}

/// Returns the number of characters that begin in a part of a text.
fn characters(bytes: &[u8]) -> usize {
    // All bytes of a character but the first are 10xxxxxx.
    bytes.iter().filter(|byte| (**byte & 0b1100_0000) != 0b1000_0000).count()
}

impl Source {
    /// Returns a text with a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            lines_before: 0,
            kinds: Registry::BUILT_IN,
            places: Places::default(),
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
    /// time in proportion to the text, a further one in proportion to the logarithm of its lines,
    /// however long the line is.
    pub fn locate(&self, offset: usize) -> (usize, usize) {
        let offset = self.boundary(offset);
        let (line, start) = self.line_of(offset);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(start)) + 1;
        (self.lines_before + line, column)
    }

    fn index(&self) -> &Index {
        self.places.0.get_or_init(|| Index::of(&self.text))
    }

    /// Returns the number of the line that a byte is in, from 1, and the line's first byte.
    fn line_of(&self, offset: usize) -> (usize, usize) {
        let starts = &self.index().starts;
        let line = starts.partition_point(|start| *start <= offset);
        (line, line.checked_sub(1).and_then(|at| starts.get(at)).copied().unwrap_or(0))
    }

    fn characters_before(&self, offset: usize) -> usize {
        let (step, rest) = self.behind_step(offset);
        self.index().characters.get(step).copied().unwrap_or(0) + characters(rest)
    }

    /// Returns the number of the last step before a byte, and the bytes between the two.
    fn behind_step(&self, offset: usize) -> (usize, &[u8]) {
        let step = offset / STEP;
        (step, self.text.as_bytes().get(step * STEP..offset).unwrap_or_default())
    }

    /// Returns the line that a byte is in, without its end.
    pub(crate) fn line_at(&self, offset: usize) -> &str {
        let (line, start) = self.line_of(self.boundary(offset));
        let end = self.index().starts.get(line).map_or(self.text.len(), |next| next - 1);
        self.text.get(start..end).unwrap_or("").trim_end_matches('\r')
    }

    /// Returns the line that a byte is in, without its end, from so many characters before the byte
    /// on, or from its first if it has fewer.
    pub(crate) fn line_around(&self, offset: usize, before: usize) -> &str {
        let offset = self.boundary(offset);
        let (_, start) = self.line_of(offset);
        let ahead = self.text.get(start..offset).unwrap_or("");
        let from = ahead.char_indices().rev().take(before).last().map_or(ahead.len(), |(at, _)| at);
        self.line_at(offset).get(from..).unwrap_or("")
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
        assert_eq!(
            (s.line_around(7, 2), s.line_around(7, 9), s.line_around(7, 0), s.line_around(3, 1)),
            ("çd e", "çd e", " e", "")
        );
    }

    /// A place is the one that a count of all lines and characters before it gives.
    #[test]
    fn places_in_long_lines_are_those_of_a_count() {
        let line = "aç€😀 \t".repeat(STEP / 3);
        let s = Source::new("s", format!("{line}\n\n{line}\r\n{}", "x".repeat(2 * STEP)));
        for offset in (0..=s.text.len()).filter(|at| s.text.is_char_boundary(*at)) {
            let before = &s.text[..offset];
            let (lines, last) = (before.split('\n').count(), before.rsplit('\n').next().unwrap_or(""));
            assert_eq!(s.locate(offset), (lines, last.chars().count() + 1), "{offset}");
        }
    }

    /// The bytes that are read for all places of a line are in proportion to its length.
    #[test]
    fn a_place_costs_the_same_in_a_long_line() {
        let read = |words: usize| -> usize {
            let s = Source::new("s", "word ".repeat(words));
            let places = (0..words).flat_map(|n| [0, 5 * n]);
            places.map(|offset| s.behind_step(offset).1.len()).sum()
        };
        let (few, many) = (read(4096), read(8192));
        assert!(few > 0 && many <= 2 * few, "{few} {many}");
    }
}
