//! Text of files, sockets and users in messages for a terminal: without characters that command
//! it, and in bounded length.

use std::borrow::Cow;

/// Longest quoted word of a message, in characters: longer than any name or value that means
/// something, and short enough to read.
pub const WORD_MAX: usize = 300;
/// The character in place of one that commands a terminal: the replacement character of Unicode.
const REPLACEMENT: char = '\u{fffd}';
/// The sign between the two ends of a shortened text.
const GAP: &str = "[..]";

/// True for a character that changes what a terminal does or the order in which it shows the
/// others: the control characters of ASCII and of ISO 6429 (C0, DEL, C1), and the marks of
/// direction of Unicode (UAX 9 section 2). The end of a line and the tab are harmless.
pub const fn commands_terminal(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => false,
    }
}

/// Returns the text with each character that commands a terminal replaced by U+FFFD.
pub fn clean(text: &str) -> Cow<'_, str> {
    match text.contains(commands_terminal) {
        true => Cow::Owned(text.replace(commands_terminal, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// Returns the text with each character that commands a terminal replaced by a harmless one of as
/// many bytes, so that places in it stay what they are.
pub fn clean_in_place(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| match c.len_utf8() {
        _ if !commands_terminal(c) => c,
        1 => '?',
        2 => '\u{bf}',
        _ => REPLACEMENT,
    };
    match text.contains(commands_terminal) {
        true => Cow::Owned(text.chars().map(harmless).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Returns a character that takes one column and has no effect on a terminal.
pub(crate) const fn one_column(c: char) -> char {
    match c {
        '\t' | '\n' => ' ',
        c if commands_terminal(c) => REPLACEMENT,
        c => c,
    }
}

/// Returns the text in at most `max` characters: of a longer text both ends, with `[..]` between
/// them.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    // A text has no more characters than bytes.
    if text.len() <= max || text.chars().count() <= max {
        return Cow::Borrowed(text);
    }
    let kept = max.saturating_sub(GAP.len());
    let (head, tail) = (kept - kept / 2, kept / 2);
    let head = text.char_indices().nth(head).map_or("", |(at, _)| &text[..at]);
    let tail = text.char_indices().rev().take(tail).last().map_or("", |(at, _)| &text[at..]);
    Cow::Owned(format!("{head}{GAP}{tail}"))
}

/// Returns the text with each word of more than [`WORD_MAX`] characters shortened.
pub fn with_short_words(text: &str) -> Cow<'_, str> {
    let long = |word: &str| word.len() > WORD_MAX;
    if text.len() <= WORD_MAX || !text.split(char::is_whitespace).any(long) {
        return Cow::Borrowed(text);
    }
    let word = |word: &str| -> String {
        let end = word.trim_end_matches(char::is_whitespace).len();
        let (word, blank) = word.split_at(end);
        format!("{}{blank}", shortened(word, WORD_MAX))
    };
    Cow::Owned(text.split_inclusive(char::is_whitespace).map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(clean("a\tb\nc ç"), "a\tb\nc ç");
        assert!(matches!(clean("plain"), Cow::Borrowed(_)));
        assert_eq!(
            clean("\u{1b}]0;x\u{7}\u{9b}2J\r\u{7f}\u{202e}"),
            "\u{fffd}]0;x\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!("\t\u{1b}é".chars().map(one_column).collect::<String>(), " \u{fffd}é");
    }

    #[test]
    fn long_words_keep_their_ends() {
        assert_eq!(shortened("abcdefghijkl", 10), "abc[..]jkl");
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("çççççççççççç", 11), "çççç[..]ççç");
        let long = "x".repeat(WORD_MAX + 1);
        let said = format!("there is no \"{long}\"\there");
        let short = with_short_words(&said);
        assert!(short.starts_with("there is no \"xxx") && short.ends_with("xxx\"\there"), "{short}");
        assert_eq!(short.chars().count(), "there is no ".len() + WORD_MAX + "\there".len());
        assert_eq!(with_short_words(&long[1..]), &long[1..]);
    }

    proptest! {
        #[test]
        fn any_text_is_harmless_and_short(s in any::<String>(), max in 0usize..40) {
            prop_assert!(!clean(&s).contains(commands_terminal));
            let in_place = clean_in_place(&s);
            prop_assert!(!in_place.contains(commands_terminal) && in_place.len() == s.len());
            prop_assert!(shortened(&s, max).chars().count() <= max.max(GAP.len()));
        }
    }
}
