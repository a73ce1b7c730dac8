//! Rules of plain English that a program can check, in Markdown and in the comments of Rust
//! sources.
//!
//! A line of prose has at most 100 columns. No sentence begins with a word that hides the actor,
//! unless it is a question. Some phrases are refused anywhere. Code, tables, link definitions and
//! HTML are no prose.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest line of prose, in columns.
const COLUMNS: usize = 100;
/// Words that no sentence begins with: each stands in the place of a named actor or thing.
const OPENERS: [&str; 7] = ["What", "Who", "Whoever", "Nobody", "Somebody", "So many", "So much"];
/// Phrases that no prose has.
const PHRASES: [&str; 1] = ["hardly meant"];

/// A line of a text: its number, the columns in front of the text, and the text.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Checks every Markdown file and the comments of all Rust sources.
pub fn check(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    for path in files(root, "md") {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        check_lines(&name, &plain(&text), found);
    }
    for path in files(root, "rs") {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        for block in comment_blocks(&text) {
            check_lines(&name, &block, found);
        }
    }
    Ok(())
}

/// Returns the files with this extension in a folder and below, or the file itself; hidden and
/// built ones are left out.
pub fn files(place: &Path, extension: &str) -> Vec<PathBuf> {
    let (mut places, mut files) = (vec![place.to_path_buf()], Vec::new());
    while let Some(path) = places.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            places
                .extend(entries.filter(|e| !is_left_out(&e.file_name().to_string_lossy())).map(|e| e.path()));
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || ["target", "out", "shared"].contains(&name)
}

/// Returns the lines of a text that is all Markdown.
fn plain(text: &str) -> Vec<Line<'_>> {
    text.lines().enumerate().map(|(i, text)| Line { number: i + 1, indent: 0, text }).collect()
}

/// Returns the comments of a Rust source that have a line of their own. Each block of adjacent
/// lines is a text of its own.
fn comment_blocks(source: &str) -> Vec<Vec<Line<'_>>> {
    let mut blocks: Vec<Vec<Line<'_>>> = Vec::new();
    let (mut last, mut last_mark) = (0, "");
    for (i, line) in source.lines().enumerate() {
        let code = line.trim_start();
        let Some(mark) = ["///", "//!", "//"].into_iter().find(|mark| code.starts_with(mark)) else {
            continue;
        };
        let comment = &code[mark.len()..];
        let text = comment.strip_prefix(' ').unwrap_or(comment);
        let indent = line.chars().count() - text.chars().count();
        let line = Line { number: i + 1, indent, text };
        match blocks.last_mut() {
            Some(block) if last == i && last_mark == mark => block.push(line),
            _ => blocks.push(vec![line]),
        }
        (last, last_mark) = (i + 1, mark);
    }
    blocks
}

/// Checks one text in Markdown.
fn check_lines(name: &str, lines: &[Line<'_>], found: &mut Vec<String>) {
    for paragraph in paragraphs(lines) {
        for line in &paragraph {
            let columns = line.indent + line.text.chars().count();
            if columns > COLUMNS && has_a_break(line.text) {
                found
                    .push(format!("{name}:{}: {columns} columns of prose, more than {COLUMNS}", line.number));
            }
        }
        check_sentences(name, &paragraph, found);
    }
}

/// Returns the prose of a text, by paragraphs; a heading and an item of a list are paragraphs of
/// their own.
fn paragraphs<'a>(lines: &[Line<'a>]) -> Vec<Vec<Line<'a>>> {
    let mut all: Vec<Vec<Line<'a>>> = vec![Vec::new()];
    let (mut fenced, mut generated, mut html, mut indented, mut blank) = (false, false, false, false, true);
    for line in lines {
        let text = line.text.trim();
        let after_blank = std::mem::replace(&mut blank, text.is_empty());
        if text.starts_with("```") {
            fenced = !fenced;
        }
        if text.starts_with("<!-- generated") || text == "<!-- end -->" {
            generated = text != "<!-- end -->";
        }
        html = !text.is_empty() && (html || text.starts_with('<') && !text.starts_with("<http"));
        let deep = line.text.starts_with("    ");
        indented = text.is_empty() && indented || deep && (after_blank || indented);
        let is_prose = !(fenced || generated || html || indented)
            && !(text.is_empty() || text.starts_with("```") || text.starts_with('|') || is_definition(text));
        let begins = after_blank || text.starts_with('#') || is_item(text) || !is_prose;
        if begins || all.last().and_then(|p| p.last()).is_some_and(|l| l.text.starts_with('#')) {
            all.push(Vec::new());
        }
        if let Some(paragraph) = all.last_mut().filter(|_| is_prose) {
            paragraph.push(*line);
        }
    }
    all.retain(|p| !p.is_empty());
    all
}

/// True for `[name]: address`.
fn is_definition(text: &str) -> bool {
    text.starts_with('[') && text.split_once(' ').is_some_and(|(name, _)| name.ends_with("]:"))
}

/// True for the first line of an item of a list.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|m| text.starts_with(m))
        || number.len() < text.len() && number.starts_with(". ")
}

/// True if a line can be broken: it has a space outside of code, behind the mark of an item.
fn has_a_break(text: &str) -> bool {
    let text = text.trim();
    let text = if is_item(text) { text.split_once(' ').map_or(text, |(_, rest)| rest) } else { text };
    text.split('`').step_by(2).any(|outside| outside.contains(' '))
}

/// Checks the first words of the sentences of a paragraph, and its phrases.
fn check_sentences(name: &str, paragraph: &[Line<'_>], found: &mut Vec<String>) {
    let (mut joined, mut starts) = (String::new(), Vec::new());
    for line in paragraph {
        starts.push((joined.len(), line.number));
        joined.push_str(&outside_of_code(line.text));
        joined.push(' ');
    }
    let number =
        |at: usize| starts.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, number)| *number);
    for phrase in PHRASES {
        for (at, _) in joined.match_indices(phrase) {
            found.push(format!(
                "{name}:{}: \"{phrase}\": name the mistake, or say that it is likely",
                number(at)
            ));
        }
    }
    let mut at = 0;
    for sentence in joined.split_inclusive(". ").flat_map(|s| s.split_inclusive("! ")) {
        for sentence in sentence.split_inclusive("? ") {
            let first = at + sentence.len() - sentence.trim_start_matches(is_mark).len();
            at += sentence.len();
            let words = sentence.trim_start_matches(is_mark);
            if sentence.trim_end_matches(is_mark).ends_with('?') {
                continue;
            }
            for opener in OPENERS {
                let rest = words.strip_prefix(opener);
                if rest.is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric() || c == '-')) {
                    let what = "begins a sentence: name the actor or the thing";
                    found.push(format!("{name}:{}: \"{opener}\" {what}", number(first)));
                }
            }
        }
    }
}

/// Characters that may stand before and after the words of a sentence: marks of Markdown, quotes,
/// brackets.
fn is_mark(c: char) -> bool {
    c.is_whitespace() || "#*_-+>[](){}\"'".contains(c)
}

/// Returns a line with its code between backticks replaced by as many marks, so that no word in it
/// counts.
pub fn outside_of_code(line: &str) -> String {
    let part = |(i, part): (usize, &str)| if i % 2 == 0 { part.to_owned() } else { "x".repeat(part.len()) };
    line.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_lines("a.md", &plain(text), &mut found);
        found
    }

    #[test]
    fn sentences_begin_with_their_subject() {
        let opener = |line: usize, word: &str| {
            vec![format!("a.md:{line}: \"{word}\" begins a sentence: name the actor or the thing")]
        };
        assert_eq!(report("What waits, waits."), opener(1, "What"));
        assert_eq!(report("A packet waits.\nIt is late. So many\npackets are."), opener(2, "So many"));
        assert_eq!(report("1. **Who has it.** A thread."), opener(1, "Who"));
        assert_eq!(report("## What follows\nText."), opener(1, "What"));
        assert_eq!(report("Text.\n- One.\n- Nobody waits."), opener(3, "Nobody"));
        assert_eq!(report("It ends! Whoever waits is told."), opener(1, "Whoever"));
        for good in
            ["Whose turn it is", "What-if runs.", "It is what waits.", "Whole packets.", "`What` is a name."]
        {
            assert_eq!(report(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn questions_may_begin_so() {
        for good in ["## What is a qdisc?", "Who waits? A packet does.", "It is. **What is late?**"] {
            assert_eq!(report(good), [""; 0], "{good}");
        }
        assert_eq!(report("Is it late? What waits is.").len(), 1);
    }

    #[test]
    fn phrases_are_refused_in_the_midst_of_a_sentence() {
        let said = "a.md:2: \"hardly meant\": name the mistake, or say that it is likely";
        assert_eq!(report("A line\nis hardly meant."), [said]);
        assert_eq!(report("It warns: `hardly meant`."), [""; 0]);
    }

    #[test]
    fn lines_of_prose_have_at_most_100_columns() {
        let line = "a word ".repeat(20);
        let said = "a.md:3: 139 columns of prose, more than 100";
        assert_eq!(report(&format!("one\n\n{}", line.trim_end())), [said]);
        let (short, long) = ("ä ".repeat(49) + "ää", "ä ".repeat(50) + "ä");
        assert_eq!((report(&short).len(), report(&long).len()), (0, 1), "columns are characters");
        let address = format!("- [page](https://example.org/{})", "long".repeat(30));
        let code = format!("`{}`.", "cargo test ".repeat(12));
        for good in [&address, &code] {
            assert_eq!(report(good), [""; 0], "there is no place to break it: {good}");
        }
    }

    #[test]
    fn code_tables_definitions_and_html_are_no_prose() {
        let long = "What waits ".repeat(12);
        for good in [
            format!("Text.\n\n    {long}\n\n    {long}\n"),
            format!("```console\n{long}\n\n{long}\n```\n"),
            format!("- item\n\n  ```\n  {long}\n  ```\n"),
            format!("| {long} |\n|---|\n| {long} |\n"),
            format!("[name]: {long}\n"),
            format!("<!-- generated: parameters -->\n\n{long}\n\n<!-- end -->\n"),
            format!("<p>\n{long}\n</p>\n"),
        ] {
            assert_eq!(report(&good), [""; 0], "{good}");
            assert_eq!(report(&format!("{good}\nText.\n\nNobody waits.\n")).len(), 1, "prose behind: {good}");
        }
        assert_eq!(report(&format!("a line\n    {long}")).len(), 1, "a deep line of a paragraph is prose");
    }

    #[test]
    fn comments_of_rust_are_checked() {
        let source = "//! What it is.\n\n/// Who waits.\nfn f() {\n    // Nobody.\n    g(); // What\n}\n\n/// Somebody.\nstruct Cli {\n    /// So many packets,\n    n: u32,\n}\n";
        let mut found = Vec::new();
        for block in comment_blocks(source) {
            check_lines("a.rs", &block, &mut found);
        }
        let lines: Vec<usize> = found.iter().map(|f| f.split(':').nth(1).unwrap().parse().unwrap()).collect();
        assert_eq!(lines, [1, 3, 5, 9, 11]);
    }

    #[test]
    fn the_indent_of_a_comment_counts() {
        let mut found = Vec::new();
        let source = format!("    /// {}\n", "word ".repeat(19).trim_end());
        for block in comment_blocks(&source) {
            check_lines("a.rs", &block, &mut found);
        }
        assert_eq!(found, ["a.rs:1: 102 columns of prose, more than 100"]);
    }
}
