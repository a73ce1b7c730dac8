//! Mutants into sources: each becomes a branch on the number that is on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::list::{Change, Mutant};
use crate::files::read;

/// The switch of a crate, appended to its root. The variable is read once.
pub const SWITCH: &str = "
pub mod mutant_switch {
    extern crate std;
    #[inline]
    pub fn on(number: u32) -> bool {
        static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let read = || std::env::var(\"TXWEIR_MUTANT\").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        *ON.get_or_init(read) == number
    }
}
";

/// A change at its place in a text.
#[derive(Clone, Debug)]
struct Place<'a> {
    number: usize,
    range: Range<usize>,
    new: &'a str,
}

/// Returns the sources that differ in the copy, by their paths.
pub fn planted(root: &Path, all: &[Mutant]) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in (1..).zip(all) {
        files.entry(&mutant.file).or_default().push((number, mutant));
    }
    let (mut out, mut wrong) = (BTreeMap::new(), Vec::new());
    for (file, mutants) in files {
        let path = root.join("crates").join(file);
        match with_mutants(&read(&path)?, &mutants) {
            Ok(text) => _ = out.insert(path, text),
            Err(e) => wrong.push(e),
        }
        let lib = root.join("crates").join(mutants[0].1.krate()).join("src/lib.rs");
        if !out.contains_key(&lib) {
            out.insert(lib.clone(), read(&lib)? + SWITCH);
        }
    }
    if wrong.is_empty() { Ok(out) } else { Err(wrong.join("\n")) }
}

/// Returns a source with its mutants.
fn with_mutants(text: &str, mutants: &[(usize, &Mutant)]) -> Result<String, String> {
    let (mut places, mut wrong) = (Vec::new(), Vec::new());
    for (number, mutant) in mutants {
        for change in &mutant.changes {
            match find(text, change) {
                Ok(range) => places.push(Place { number: *number, range, new: &change.new }),
                Err(e) => wrong.push(format!("{}: {e}", mutant.full_name())),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    // A wider place comes before those within it.
    places.sort_by_key(|p| (p.range.start, std::cmp::Reverse(p.range.end)));
    let clash =
        places.windows(2).find(|w| w[1].range.start < w[0].range.end && w[1].range.end > w[0].range.end);
    if let Some(clash) = clash {
        return Err(format!("mutants {} and {} overlap", clash[0].number, clash[1].number));
    }
    let mut stripped: Vec<String> = mutants.iter().flat_map(|(_, m)| m.strip.iter().cloned()).collect();
    stripped.extend(places.iter().filter_map(|p| function_around(text, p.range.start)));
    let text = branches(text, 0..text.len(), &places);
    Ok(without_const(&text, stripped))
}

/// Returns the place of a change: after its anchor the first, without an anchor the only one.
fn find(text: &str, change: &Change) -> Result<Range<usize>, String> {
    let from = match &change.at {
        None => 0,
        Some(at) => text.find(at.as_str()).ok_or_else(|| format!("no text: {at}"))?,
    };
    let first = match_from(text, from, &change.old).ok_or_else(|| format!("no text: {}", change.old))?;
    if change.at.is_none() && match_from(text, first.end, &change.old).is_some() {
        return Err(format!("more than one text: {}", change.old));
    }
    Ok(first)
}

/// Returns the first place from `from` on whose words are those of `old`, with any white space
/// where `old` has some.
fn match_from(text: &str, from: usize, old: &str) -> Option<Range<usize>> {
    let words: Vec<&str> = old.split_whitespace().collect();
    let first = words.first()?;
    text[from..].match_indices(first).find_map(|(at, _)| {
        let start = from + at;
        let mut end = start;
        for (i, word) in words.iter().enumerate() {
            let rest = &text[end..];
            let space = rest.len() - rest.trim_start().len();
            if (i > 0 && space == 0) || !rest[space..].starts_with(word) {
                return None;
            }
            end += space + word.len();
        }
        Some(start..end)
    })
}

/// Renders a part of the text with the places in it.
fn branches(text: &str, part: Range<usize>, places: &[Place<'_>]) -> String {
    let (mut out, mut at) = (String::new(), part.start);
    let mut rest = places;
    while let Some(first) = rest.first() {
        out += &text[at..first.range.start];
        // All mutants of this place, then those within it.
        let same = rest.iter().take_while(|p| p.range == first.range).count();
        let inner = rest[same..].iter().take_while(|p| p.range.end <= first.range.end).count();
        let old = branches(text, first.range.clone(), &rest[same..same + inner]);
        let statement = old.ends_with([';', '}']);
        let mut branch = String::new();
        for place in &rest[..same] {
            let new = place.new;
            branch += &format!("if crate::mutant_switch::on({}) {{ {new} }} else ", place.number);
        }
        branch += &format!("{{ {old} }}");
        out += &if statement { branch } else { format!("({branch})") };
        at = first.range.end;
        rest = &rest[same + inner..];
    }
    out + &text[at..part.end]
}

/// True for a line that declares a function.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.strip_prefix('(').and_then(|r| r.split_once(')')).map_or(after, |r| r.1).trim_start();
    }
    for word in ["const ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Returns the name of the function around a place.
fn function_around(text: &str, at: usize) -> Option<String> {
    let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
    text[..end].lines().rev().find_map(declared).map(String::from)
}

/// Makes functions not `const`, and with them those of the same text that call them.
fn without_const(text: &str, mut names: Vec<String>) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    loop {
        let before = names.len();
        let mut current: Option<(usize, String)> = None;
        let mut more = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            if let Some(name) = declared(line) {
                current = Some((i, name.to_owned()));
            } else if let Some((_, function)) = &current
                && names.iter().any(|n| line.contains(&format!("{n}(")))
            {
                more.push(function.clone());
            }
        }
        names.extend(more);
        names.sort();
        names.dedup();
        if names.len() == before {
            break;
        }
    }
    for line in &mut lines {
        if declared(line).is_some_and(|name| names.iter().any(|n| n == name)) {
            *line = line.replacen("const fn ", "fn ", 1);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;

    fn with(text: &str, list: &str) -> Result<String, String> {
        let all = parse("l", &format!("file a\n{list}")).unwrap();
        let numbered: Vec<(usize, &Mutant)> = (1..).zip(&all).collect();
        with_mutants(text, &numbered)
    }

    #[test]
    fn a_place_has_a_branch_for_each_of_its_mutants() {
        let text = "fn f() {\n    if a < b && c {\n        d();\n    }\n}\n";
        let list = "- one\nold a < b\nnew a > b\n- two\nold a < b && c\nnew c\n- three\nold a < b\nnew true\n- four\nold d();\nnew\n";
        let on = "crate::mutant_switch::on";
        assert_eq!(
            with(text, list).unwrap(),
            format!(
                "fn f() {{\n    if (if {on}(2) {{ c }} else {{ (if {on}(1) {{ a > b }} else if {on}(3) \
                 {{ true }} else {{ a < b }}) && c }}) {{\n        if {on}(4) {{  }} else {{ d(); }}\n    }}\n}}\n"
            )
        );
    }

    #[test]
    fn white_space_is_any_and_the_place_is_the_only_one_or_behind_the_anchor() {
        let text = "fn f() { g(\n    x,\n    y) }\nfn h() { x }\n";
        assert!(with(text, "- a\nold g( x, y)\nnew z\n").unwrap().contains("on(1) { z } else { g("));
        assert_eq!(with(text, "- a\nold x\nnew z\n"), Err("l/a: more than one text: x".into()));
        assert_eq!(with(text, "- a\nold q\nnew z\n"), Err("l/a: no text: q".into()));
        assert!(with(text, "- a\nat fn h\nold x\nnew z\n").unwrap().contains("fn h() { (if "));
        assert_eq!(
            with(text, "- a\nold x, y\nnew z\n- b\nold y) }\nnew z\n"),
            Err("mutants 1 and 2 overlap".into())
        );
    }

    #[test]
    fn a_function_with_a_mutant_and_its_callers_are_not_const() {
        let text = "const fn a() -> u8 {\n    1\n}\npub(super) const fn b() -> u8 {\n    a()\n}\npub const fn c() -> u8 {\n    2\n}\n";
        let out = with(text, "- one\nold 1\nnew 3\n").unwrap();
        assert!(
            out.starts_with("fn a()")
                && out.contains("pub(super) fn b()")
                && out.contains("pub const fn c()")
        );
        let out = with(text, "strip c\n- one\nold 1\nnew 3\n").unwrap();
        assert!(out.contains("pub fn c()"));
    }
}
