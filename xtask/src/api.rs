//! `cargo xtask api`: the public items of each published library, one a line, against
//! `spec/api/CRATE.txt`.
//!
//! cargo-public-api makes the lines of what rustdoc writes as JSON. rustdoc does that only if
//! `RUSTC_BOOTSTRAP` is set, which build scripts see as well and then build otherwise: so cargo
//! takes this program for rustdoc ([`stand_in`]), and the variable is set for rustdoc alone. The
//! documentation is made as docs.rs makes it, with every feature and with `--cfg docsrs`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::files::{read, write};
use crate::pinned::Tool;
use crate::published::{self, Crate};

/// Folder of the lists, below the repository's root.
const LISTS: &str = "spec/api";
/// Reads the JSON of [`FORMAT`].
const TOOL: Tool =
    Tool { name: "cargo-public-api", version: "0.52.0", archive: "", folder: "", features: &[] };
/// The version of rustdoc's JSON that the tool reads: that of Rust 1.95.
pub const FORMAT: &str = "57";
/// Names the true rustdoc to this program when it stands in for it.
const REAL: &str = "TXWEIR_RUSTDOC";
/// Differences of a list that are shown.
const SHOWN_MAX: usize = 40;

/// Runs the rustdoc that [`REAL`] names, if it names one, with its JSON allowed.
pub fn stand_in() -> Option<ExitCode> {
    let real = env::var_os(REAL)?;
    let status = Command::new(real).args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the lists with the sources, or with `bless` writes them. Says the reason if it cannot.
pub fn run(bless: bool) -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        println!("api: skipped, because the lists are those of Linux");
        return Ok(());
    }
    let Some(tool) = TOOL.installed() else {
        println!("api: skipped, because {} {} cannot be installed", TOOL.name, TOOL.version);
        return Ok(());
    };
    let root = crate::root();
    let target = published::target(&root);
    document(&root, &target)?;
    let (mut stale, mut wanted) = (Vec::new(), BTreeSet::new());
    for library in published::all(&root)?.iter().filter(|one| one.is_library()) {
        let json = target.join("doc").join(format!("{}.json", library.in_rust()));
        match format_of(&read(&json)?) {
            Some(FORMAT) => {}
            other => {
                let other = other.unwrap_or("no");
                println!("api: skipped, because rustdoc writes format {other}, and {FORMAT} is read");
                return Ok(());
            }
        }
        let said = Command::new(&tool).arg("--rustdoc-json").arg(&json).arg("-sss").output();
        let said = said.map_err(|e| format!("{}: {e}", tool.display()))?;
        if !said.status.success() {
            return Err(format!("{}: {}", library.name, String::from_utf8_lossy(&said.stderr)));
        }
        let new = list(library, &String::from_utf8_lossy(&said.stdout));
        let name = format!("{LISTS}/{}.txt", library.name);
        let old = fs::read_to_string(root.join(&name)).unwrap_or_default();
        println!("{:20} {:>6} public items", library.name, items(&new));
        match bless {
            true => write(&root.join(&name), &new)?,
            false if old != new => {
                difference(&old, &new).iter().for_each(|line| println!("  {line}"));
                stale.push(name.clone());
            }
            false => {}
        }
        wanted.insert(name);
    }
    remove_others(&root, &wanted, bless, &mut stale)?;
    match stale.len() {
        0 => Ok(()),
        _ => {
            let stale = stale.join(", ");
            Err(format!("the public items differ; if they should, run `cargo xtask api --bless`: {stale}"))
        }
    }
}

/// Has rustdoc write the JSON of every library of a workspace, into `doc` below `target`.
pub fn document(workspace: &Path, target: &Path) -> Result<(), String> {
    let own = env::current_exe().map_err(|e| format!("xtask: {e}"))?;
    let real = env::var_os("RUSTDOC").unwrap_or_else(|| OsString::from("rustdoc"));
    let status = crate::cargo()
        .args(["doc", "--workspace", "--lib", "--no-deps", "--all-features", "--locked", "--quiet"])
        .env("RUSTDOC", own)
        .env(REAL, real)
        .env("RUSTDOCFLAGS", "--deny warnings --cfg docsrs -Z unstable-options --output-format json")
        .env("CARGO_TARGET_DIR", target)
        .current_dir(workspace)
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("rustdoc refuses the documentation".into());
    }
    Ok(())
}

/// Returns the version of the format, which stands near the end of the JSON.
pub fn format_of(json: &str) -> Option<&str> {
    let (_, rest) = json.rsplit_once("\"format_version\":")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Returns the list of a crate out of the tool's lines. Left out: the functions and constants of
/// each implementation of a trait, which the trait has already; a second line of an item that is
/// exported under two names.
fn list(library: &Crate, said: &str) -> String {
    let mut text = format!("# The public items of {}, by `cargo xtask api --bless`.\n", library.name);
    let (mut seen, mut member) = (BTreeSet::new(), None);
    for line in said.lines() {
        if let Some(implementation) = line.split_once("impl").filter(|(before, _)| is_before_impl(before)) {
            let of = implementation.1.split_once(" for ").map(|(_, of)| of);
            member = of.map(|of| format!("{}::", of.split(" where ").next().unwrap_or(of)));
        } else if member.as_ref().is_some_and(|of| line.contains(of)) && is_function_or_constant(line) {
            continue;
        }
        if seen.insert(line) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn is_before_impl(words: &str) -> bool {
    words.is_empty() || words == "unsafe "
}

fn is_function_or_constant(line: &str) -> bool {
    line.strip_prefix("pub ")
        .is_some_and(|rest| ["fn ", "const ", "unsafe fn ", "async fn "].iter().any(|w| rest.starts_with(w)))
}

/// Returns the number of items of a list: its lines without those that say that a type has a trait.
fn items(list: &str) -> usize {
    let is_item = |line: &&str| line.starts_with("pub ") || line.starts_with("#[");
    list.lines().filter(is_item).count()
}

/// Returns the lines of one list that the other lacks, shortened to some.
fn difference(old: &str, new: &str) -> Vec<String> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    let mut all: Vec<String> =
        gone.chain(after.difference(&before).map(|line| format!("+ {line}"))).collect();
    if all.len() > SHOWN_MAX {
        let rest = all.len() - SHOWN_MAX;
        all.truncate(SHOWN_MAX);
        all.push(format!("and {rest} more"));
    }
    if all.is_empty() {
        all.push("the same lines in another order".into());
    }
    all
}

/// Removes the lists of crates that are not published, or names them as stale.
fn remove_others(
    root: &Path,
    wanted: &BTreeSet<String>,
    bless: bool,
    stale: &mut Vec<String>,
) -> Result<(), String> {
    for entry in fs::read_dir(root.join(LISTS)).into_iter().flatten().flatten() {
        let name = format!("{LISTS}/{}", entry.file_name().to_string_lossy());
        match wanted.contains(&name) {
            true => {}
            false if bless => fs::remove_file(entry.path()).map_err(|e| format!("{name}: {e}"))?,
            false => stale.push(name),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a() -> Crate {
        Crate { name: "a".into(), folder: Default::default(), manifest: String::new() }
    }

    #[test]
    fn members_of_traits_and_second_names_are_left_out() {
        let said = "\
pub mod a
pub struct a::X<T>(_)
impl<T> a::X<T>
pub fn a::X<T>::own(&self)
impl<T: core::fmt::Debug> a::Show for a::X<T> where T: Copy
pub const a::X<T>::KEY: &'static str
pub type a::X<T>::Out = u8
pub fn a::X<T>::show(&self)
pub trait a::Show
pub const a::Show::KEY: &'static str
pub fn a::Show::show(&self)
pub fn a::free()
pub struct a::again::X<T>(_)
pub fn a::X<T>::own(&self)
";
        let listed = list(&a(), said);
        assert_eq!(
            listed.lines().skip(1).collect::<Vec<_>>(),
            [
                "pub mod a",
                "pub struct a::X<T>(_)",
                "impl<T> a::X<T>",
                "pub fn a::X<T>::own(&self)",
                "impl<T: core::fmt::Debug> a::Show for a::X<T> where T: Copy",
                "pub type a::X<T>::Out = u8",
                "pub trait a::Show",
                "pub const a::Show::KEY: &'static str",
                "pub fn a::Show::show(&self)",
                "pub fn a::free()",
                "pub struct a::again::X<T>(_)",
            ]
        );
        assert_eq!(items(&listed), 9);
    }

    #[test]
    fn a_difference_names_what_went_and_what_came() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
        assert_eq!(difference("a\nb\n", "b\na\n"), ["the same lines in another order"]);
        let many: String = (0..SHOWN_MAX + 2).map(|i| format!("{i}\n")).collect();
        assert_eq!(difference("", &many).last().map(String::as_str), Some("and 2 more"));
    }

    #[test]
    fn the_format_is_read_from_the_end() {
        assert_eq!(format_of("{\"docs\":\"\\\"format_version\\\":1\",\"format_version\":57}"), Some("57"));
        assert_eq!(format_of("{}"), None);
    }
}
