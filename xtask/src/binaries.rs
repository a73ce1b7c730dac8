//! One binary of integration tests a crate: each further one links the crate again and compiles
//! `common` again.

use std::fs;
use std::path::{Path, PathBuf};

/// Test binaries beside `tests/it`, each with the reason why its tests are no module of that.
const ALONE: [(&str, &str); 2] = [
    ("crates/core/tests/loom_lease.rs", "is built with other flags (--cfg loom)"),
    ("crates/handoff/tests/loom_handoff.rs", "is built with other flags (--cfg loom)"),
];

/// Checks every crate and lists the violations.
pub fn check(root: &Path, found: &mut Vec<String>) {
    for home in entries(&root.join("crates")) {
        let name = shown(root, &home);
        let tests = entries(&home.join("tests"));
        let binaries: Vec<String> =
            tests.iter().filter(|path| is_binary(path)).map(|path| shown(root, path)).collect();
        check_number(&name, &binaries, found);
        if let Ok(main) = fs::read_to_string(home.join("tests/it/main.rs")) {
            let files = entries(&home.join("tests/it"));
            let modules = files.iter().filter(|path| is_module(path)).map(|path| shown(root, path));
            check_modules(&main, modules, found);
        }
    }
    for (file, reason) in ALONE {
        if !root.join(file).exists() {
            found.push(format!("xtask/src/binaries.rs: {file}, which {reason}, is not there"));
        }
    }
}

/// Checks that a crate has at most one binary, beside the exceptions.
fn check_number(name: &str, binaries: &[String], found: &mut Vec<String>) {
    let alone = |file: &str| ALONE.iter().any(|(exception, _)| *exception == file);
    let together: Vec<&str> = binaries.iter().map(String::as_str).filter(|file| !alone(file)).collect();
    if together.len() > 1 {
        found.push(format!(
            "{name}: {} test binaries, 1 allowed: make each a module of tests/it/main.rs, or name it with its \
             reason in xtask/src/binaries.rs: {}",
            together.len(),
            together.join(", ")
        ));
    }
}

/// Checks that every file beside `main.rs` is a module of it: cargo does not find it by itself.
fn check_modules(main: &str, files: impl Iterator<Item = String>, found: &mut Vec<String>) {
    let declared: Vec<&str> = main
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for file in files {
        let stem = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy();
        if stem != "main" && !declared.contains(&stem.as_ref()) {
            found.push(format!("{file}: no test of it runs: main.rs beside it has no `mod {stem};`"));
        }
    }
}

/// True for a file, or a folder, that cargo makes a test binary of.
fn is_binary(path: &Path) -> bool {
    is_source(path) || path.join("main.rs").is_file()
}

/// True for a file or folder that may be a module: a folder of data has neither `mod.rs` nor a file
/// of its name.
fn is_module(path: &Path) -> bool {
    is_source(path) || path.join("mod.rs").is_file()
}

fn is_source(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|e| e == "rs")
}

/// Returns the entries of a folder, in order of their names; none if there is no such folder.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, binaries: &[&str]) -> Vec<String> {
        let binaries: Vec<String> = binaries.iter().map(|b| (*b).to_owned()).collect();
        let mut found = Vec::new();
        check_number(name, &binaries, &mut found);
        found
    }

    #[test]
    fn a_crate_has_one_test_binary_beside_the_exceptions() {
        assert!(number("crates/tc", &[]).is_empty());
        assert!(number("crates/core", &["crates/core/tests/it", ALONE[0].0]).is_empty());
        let found = number("crates/core", &["crates/core/tests/it", "crates/core/tests/new.rs", ALONE[0].0]);
        assert!(
            found.len() == 1 && found[0].starts_with("crates/core: 2 test binaries, 1 allowed"),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_that_main_does_not_name_is_found() {
        let mut found = Vec::new();
        let files = ["main.rs", "laws.rs", "common", "lost.rs"].map(|f| format!("crates/core/tests/it/{f}"));
        check_modules("//! Tests.\n\nmod common;\n#[cfg(x)]\npub mod laws;\n", files.into_iter(), &mut found);
        assert_eq!(
            found,
            ["crates/core/tests/it/lost.rs: no test of it runs: main.rs beside it has no `mod lost;`"]
        );
    }
}
