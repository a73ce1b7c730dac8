//! Links of Markdown files: each relative one leads to a file, and to a heading, that exists. Each
//! page of `docs` is a chapter of the book.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::prose;

/// The table of contents of the book, from the repository's root.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// A relative link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The line, from 1.
    pub line: usize,
    /// The path as it is written, without the heading; empty for the same file.
    pub path: String,
    /// The name of the heading behind `#`.
    pub heading: Option<String>,
}

/// Checks the links of every Markdown file of the repository, and the table of contents.
pub fn check(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let mut pages = HashMap::new();
    for path in prose::files(root, "md") {
        let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", name.display()))?;
        pages.insert(name, text);
    }
    let mut names: Vec<&PathBuf> = pages.keys().collect();
    names.sort();
    for name in &names {
        check_page(root, name, &pages, found);
    }
    let chapters: Vec<PathBuf> = chapters(pages.get(Path::new(SUMMARY)).map_or("", String::as_str));
    let docs = names.iter().filter(|name| name.starts_with("docs") && **name != Path::new(SUMMARY));
    check_chapters(docs.map(|name| name.as_path()), &chapters, found);
    for chapter in &chapters {
        check_targets(chapter, pages.get(chapter).map_or("", String::as_str), &chapters, found);
    }
    Ok(())
}

/// Checks the links of one page.
fn check_page(root: &Path, name: &Path, pages: &HashMap<PathBuf, String>, found: &mut Vec<String>) {
    for link in links(&pages[name]) {
        let at = format!("{}:{}", name.display(), link.line);
        let target = if link.path.is_empty() { name.to_path_buf() } else { resolved(name, &link.path) };
        if !pages.contains_key(&target) && !root.join(&target).exists() {
            found.push(format!("{at}: the link {} leads to no file", link.path));
            continue;
        }
        let Some(heading) = &link.heading else { continue };
        match pages.get(&target) {
            None => found.push(format!("{at}: {} has no headings: it is no Markdown", link.path)),
            Some(text) if !headings(text).contains(heading) => {
                found.push(format!("{at}: no heading #{heading} in {}", target.display()));
            }
            Some(_) => {}
        }
    }
}

/// Checks that each page is a chapter, and no file is one twice.
fn check_chapters<'a>(pages: impl Iterator<Item = &'a Path>, chapters: &[PathBuf], found: &mut Vec<String>) {
    for page in pages {
        match chapters.iter().filter(|chapter| *chapter == page).count() {
            0 => found.push(format!("{SUMMARY}: no chapter {}", page.display())),
            1 => {}
            n => found.push(format!("{SUMMARY}: {} is {n} chapters", page.display())),
        }
    }
}

/// Checks that the pages to which a chapter leads are chapters: the book has no other ones.
fn check_targets(chapter: &Path, text: &str, chapters: &[PathBuf], found: &mut Vec<String>) {
    for link in links(text).iter().filter(|link| link.path.ends_with(".md")) {
        let target = resolved(chapter, &link.path);
        if !chapters.contains(&target) {
            found.push(format!(
                "{}:{}: {} is no chapter of {SUMMARY}",
                chapter.display(),
                link.line,
                target.display()
            ));
        }
    }
}

/// Returns the files of the chapters, from the repository's root.
pub fn chapters(summary: &str) -> Vec<PathBuf> {
    links(summary).iter().map(|link| resolved(Path::new(SUMMARY), &link.path)).collect()
}

/// Returns the path of a link in a file, from the root of both.
pub fn resolved(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(from).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// Returns the relative links of a Markdown text: `[text](target)`, pictures, and definitions.
pub fn links(text: &str) -> Vec<Link> {
    let mut all = Vec::new();
    for (number, line) in prose_of(text) {
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to);
        for target in inline.chain(definition.map(|(_, to)| to.trim())) {
            // Addresses, and names of Rust items in a page that rustdoc shows.
            if target.contains("://") || target.starts_with("mailto:") || target.contains("::") {
                continue;
            }
            let (path, heading) = target.split_once('#').map_or((target, None), |(p, h)| (p, Some(h)));
            let (path, heading) = (path.to_owned(), heading.map(str::to_owned));
            all.push(Link { line: number, path, heading });
        }
    }
    all
}

/// Returns the names under which the headings of a Markdown text are reached: as GitHub and mdbook
/// make them.
fn headings(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if fenced || !(1..=6).contains(&depth) || !title.starts_with(' ') {
            continue;
        }
        let name: String = without_targets(title.trim())
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        let before = seen.entry(name.clone()).or_default();
        all.push(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    all
}

/// Returns a heading with the text of its links in their place.
fn without_targets(title: &str) -> String {
    let mut parts = title.split("](");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |title, part| title + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns the lines of a text with their numbers, without blocks of code, and without code between
/// backticks.
fn prose_of(text: &str) -> Vec<(usize, String)> {
    let (mut fenced, mut indented, mut blank) = (false, false, true);
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        let deep = line.starts_with("    ");
        indented = deep && (blank || indented) || line.trim().is_empty() && indented;
        blank = line.trim().is_empty();
        if !(fenced || fence || indented) {
            lines.push((i + 1, prose::outside_of_code(line)));
        }
        fenced ^= fence;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(line: usize, path: &str, heading: Option<&str>) -> Link {
        Link { line, path: path.into(), heading: heading.map(str::to_owned) }
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "See [a](a.md), [b\nc](../b.md#part) and ![d](d.svg).\n\n    [x](x.md)\n\n```\n[y](y.md)\n```\n\
                    `[z](z.md)` [e](https://e.org/) [h](a::H) | [f](#f) |\n\n[g]: g.md\n";
        let expected = [
            link(1, "a.md", None),
            link(2, "../b.md", Some("part")),
            link(2, "d.svg", None),
            link(9, "", Some("f")),
            link(11, "g.md", None),
        ];
        assert_eq!(links(text), expected);
    }

    #[test]
    fn headings_have_the_names_that_pages_give_them() {
        let text = "# The `tc` tool: text, JSON\n\n## Where (and [why](x.md))\n\n```\n# no heading\n```\n\
                    ## Linux's\n## Linux's\n#no\n";
        assert_eq!(headings(text), ["the-tc-tool-text-json", "where-and-why", "linuxs", "linuxs-1"]);
    }

    #[test]
    fn a_link_to_no_file_and_to_no_heading_is_found() {
        let root = crate::root();
        let page = "[a](qdisc/README.md) [b](nowhere.md) [c](#here) [d](#there) [e](path.svg#x)\n\n## Here\n";
        let name = PathBuf::from("docs/page.md");
        let pages = HashMap::from([(name.clone(), page.to_owned())]);
        let mut found = Vec::new();
        check_page(&root, &name, &pages, &mut found);
        let expected = [
            "docs/page.md:1: the link nowhere.md leads to no file",
            "docs/page.md:1: no heading #there in docs/page.md",
            "docs/page.md:1: path.svg has no headings: it is no Markdown",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_page_is_a_chapter_once() {
        let chapters = chapters(
            "- [One](one.md)\n- [Kinds](qdisc/README.md)\n- [Again](one.md)\n- [Top](../README.md)\n",
        );
        assert_eq!(chapters.last().map(PathBuf::as_path), Some(Path::new("README.md")));
        let pages = ["docs/one.md", "docs/qdisc/README.md", "docs/two.md"].map(Path::new);
        let mut found = Vec::new();
        check_chapters(pages.into_iter(), &chapters, &mut found);
        assert_eq!(
            found,
            ["docs/SUMMARY.md: docs/one.md is 2 chapters", "docs/SUMMARY.md: no chapter docs/two.md"]
        );
        found.clear();
        check_targets(
            Path::new("docs/one.md"),
            "[a](qdisc/README.md)\n[b](../crates/b.md)",
            &chapters,
            &mut found,
        );
        assert_eq!(found, ["docs/one.md:2: crates/b.md is no chapter of docs/SUMMARY.md"]);
    }
}
