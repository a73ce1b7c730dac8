//! The pages as a book: their files and the files that they link to are copied into one folder, and
//! mdbook makes HTML of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::links;
use crate::pinned::Tool;

/// mdbook, of the version that `book.toml` is written for.
const TOOL: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    archive: "https://github.com/rust-lang/mdBook/releases/download/vVERSION/\
              mdbook-vVERSION-x86_64-unknown-linux-musl.tar.gz",
    folder: "",
    features: &["--no-default-features", "--features", "search"],
};
/// The source of the book, as in `book.toml`.
const SOURCE: &str = "target/book/src";
/// The first page of a folder, in the repository and in the copy.
const README: &str = "README.md";
const INDEX: &str = "index.md";

/// Copies the pages and makes the book.
pub fn run() -> Result<(), String> {
    let root = crate::root();
    let read =
        |name: &Path| fs::read_to_string(root.join(name)).map_err(|e| format!("{}: {e}", name.display()));
    let summary = read(Path::new(links::SUMMARY))?;
    let chapters = links::chapters(&summary);
    let source = root.join(SOURCE);
    if source.exists() {
        fs::remove_dir_all(&source).map_err(|e| format!("{SOURCE}: {e}"))?;
    }
    let mut files: BTreeSet<PathBuf> = chapters.iter().cloned().collect();
    for chapter in &chapters {
        let text = read(chapter)?;
        let linked = links::links(&text).into_iter().filter(|link| !link.path.is_empty());
        files.extend(linked.map(|link| links::resolved(chapter, &link.path)));
    }
    for file in &files {
        let copy = source.join(as_index(file));
        let folder = copy.parent().unwrap_or(&source);
        let copied = fs::create_dir_all(folder).and_then(|()| match chapters.contains(file) {
            true => {
                let text = fs::read_to_string(root.join(file))?;
                fs::write(&copy, with_targets(&text, |target| target.replace(README, INDEX)))
            }
            false => fs::copy(root.join(file), &copy).map(|_| ()),
        });
        copied.map_err(|e| format!("{}: {e}", file.display()))?;
    }
    fs::write(source.join("SUMMARY.md"), from_the_root(&summary)).map_err(|e| format!("{SOURCE}: {e}"))?;
    let Some(tool) = TOOL.installed() else {
        return Err(format!("mdbook {} cannot be installed", TOOL.version));
    };
    let status = Command::new(&tool).arg("build").current_dir(&root).status();
    let status = status.map_err(|e| format!("{}: {e}", tool.display()))?;
    if !status.success() {
        return Err("mdbook makes no book".into());
    }
    println!("the book begins at target/book/html/index.html");
    Ok(())
}

/// Returns the name of a file in the copy: mdbook makes `index.html` of a README, but links to it
/// lead to `README.html`.
fn as_index(file: &Path) -> PathBuf {
    if file.ends_with(README) { file.with_file_name(INDEX) } else { file.to_path_buf() }
}

/// Returns the table of contents with paths from the repository's root, where the copy of it lies.
fn from_the_root(summary: &str) -> String {
    with_targets(summary, |target| {
        as_index(&links::resolved(Path::new(links::SUMMARY), target)).display().to_string()
    })
}

/// Returns a text with other targets of its links.
fn with_targets(text: &str, other: impl Fn(&str) -> String) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| match part.split_once(')') {
        Some((target, rest)) => format!("{text}]({}){rest}", other(target)),
        None => format!("{text}]({part}"),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn chapters_are_named_from_the_root() {
        let summary = "# Summary\n\n- [Top](../README.md)\n- [Kinds](qdisc/README.md)\n";
        let expected = "# Summary\n\n- [Top](index.md)\n- [Kinds](docs/qdisc/index.md)\n";
        assert_eq!(super::from_the_root(summary), expected);
    }

    #[test]
    fn only_targets_of_links_change() {
        let shown = super::with_targets("a](README.md#b) README.md ](c", |to| to.replace("README", "index"));
        assert_eq!(shown, "a](index.md#b) README.md ](c");
    }
}
