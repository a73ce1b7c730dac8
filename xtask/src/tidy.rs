//! House rules that a compiler does not check, each with its reason in the message.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that may not stand in Rust source, and the advice for each.
const BANNED: [(&str, &str); 5] = [
    ("TODO", "do it, or open an issue"),
    ("FIXME", "fix it, or open an issue"),
    ("std::time::Instant::now", "below the command line, time is an argument or device::clock"),
    ("unimplemented!", "finish it"),
    ("#[ignore", "a test that does not run proves nothing"),
];

/// Longest file, in lines that are neither tests nor blank nor comments.
const FILE_LINES_MAX: usize = 500;
/// Longest line of source.
const LINE_LEN_MAX: usize = 130;
/// The only files with unsafe code outside of tests: the hint that memory is needed; system calls;
/// the shared state of threads, which is model-checked; notifications of system calls; the border
/// to C; the allocator that tests count with; and a measurement of io_uring.
const UNSAFE_HOMES: [&str; 10] = [
    "crates/ahead/src/lib.rs",
    "crates/counted/src/lib.rs",
    "crates/device/examples/tap.rs",
    "crates/device/src/sys.rs",
    "crates/device/src/sys/bpf.rs",
    "crates/device/src/sys/xsk.rs",
    "crates/ffi/src/abi.rs",
    "crates/handoff/src/baton.rs",
    "crates/handoff/src/list.rs",
    "crates/supervise/src/sys.rs",
];

/// Checks every rule and lists the violations.
pub fn run() -> Result<(), String> {
    let root = crate::root();
    let mut found = Vec::new();
    for path in sources(&root) {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        if !name.starts_with("xtask/") {
            check_source(&name, &text, &mut found);
            crate::package::check_includes(&name, &text, &mut found);
        }
    }
    check_dependencies(&root, &mut found)?;
    check_kinds(&root, &mut found)?;
    crate::package::check(&root, &mut found)?;
    crate::binaries::check(&root, &mut found);
    crate::layers::check(&root, &mut found)?;
    crate::prose::check(&root, &mut found)?;
    crate::links::check(&root, &mut found)?;
    for f in &found {
        println!("{f}");
    }
    crate::docs::run(true)?;
    match found.len() {
        0 => Ok(()),
        n => Err(format!("{n} rules broken")),
    }
}

/// Returns every Rust source of the repository.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut dirs = vec![root.join("crates"), root.join("xtask")];
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_none_or(|n| n != "target") {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn check_source(name: &str, text: &str, found: &mut Vec<String>) {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let tests = name.contains("/tests/") || name.ends_with("/tests.rs");
    crate::errors::check(name, code, found);
    crate::loops::check(name, code, found);
    for (i, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", i + 1);
        if line.chars().count() > LINE_LEN_MAX {
            found.push(format!("{at}: longer than {LINE_LEN_MAX} characters"));
        }
        for (word, instead) in BANNED {
            if line.contains(word) {
                found.push(format!("{at}: {word}: {instead}"));
            }
        }
        let words = line.split("//").next().unwrap_or(line);
        // A text between quotes is no code.
        let words: String = words.split('"').step_by(2).collect();
        if words.contains("unsafe ") && !UNSAFE_HOMES.contains(&name) && !tests {
            found.push(format!("{at}: unsafe outside of {}", UNSAFE_HOMES.join(", ")));
        }
    }
    let lines = code.lines().filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with("//")).count();
    if lines > FILE_LINES_MAX && !tests {
        found.push(format!(
            "{name}: {lines} lines of code, more than {FILE_LINES_MAX}: is it still one idea?"
        ));
    }
}

/// Checks that every dependency has its sentence in CONTRIBUTING.md.
fn check_dependencies(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|e| format!("Cargo.toml: {e}"))?;
    let prose =
        fs::read_to_string(root.join("CONTRIBUTING.md")).map_err(|e| format!("CONTRIBUTING.md: {e}"))?;
    let listed = manifest.split("[workspace.dependencies]").nth(1).unwrap_or("");
    let listed = listed.split("\n[").next().unwrap_or("");
    for line in listed.lines().filter(|l| !l.starts_with('#')) {
        if let Some((name, _)) = line.split_once(" = ")
            && !name.starts_with("txweir")
            && !prose.contains(&format!("`{name}`"))
        {
            found.push(format!("CONTRIBUTING.md: no sentence for the dependency `{name}`"));
        }
    }
    Ok(())
}

/// Checks that every kind of the registry has its page.
fn check_kinds(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    for kind in kinds(root)? {
        if !root.join(format!("docs/qdisc/{kind}.md")).exists() {
            found.push(format!("docs/qdisc/{kind}.md: missing: every kind has its page"));
        }
    }
    Ok(())
}

/// Returns the kinds that the sources of the qdiscs declare.
fn kinds(root: &Path) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for path in crate::prose::files(&root.join("crates/core/src/qdisc"), "rs") {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        all.extend(declared(&text));
    }
    Ok(all)
}

/// Returns the kinds that a source declares: a declaration may choose one of several.
fn declared(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("const KIND: &"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_what_it_bans() {
        let mut found = Vec::new();
        super::check_source("crates/core/src/x.rs", "fn f() { unsafe { } } // TODO\n", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        found.clear();
        let code = "fn f() { unsafe { g() }.expect(\"it is there\") }\nlet a = \"unsafe code\";\n";
        super::check_source("crates/lab/src/x.rs", code, &mut found);
        assert!(found.len() == 1 && found[0].starts_with("crates/lab/src/x.rs:1: unsafe "), "{found:?}");
    }

    #[test]
    fn every_declaration_of_a_kind_is_found() {
        let text = "    const KIND: &'static str = if HEAD { \"a\" } else { \"b\" };\nconst KIND: &str = \"c\";\n\
                    pub(crate) const KIND: &str = D::KIND;\n";
        assert_eq!(super::declared(text), ["a", "b", "c"]);
        let kinds = super::kinds(&crate::root()).unwrap();
        for kind in ["cake", "gred", "pfifo_head_drop", "tbf"] {
            assert!(kinds.iter().any(|k| k == kind), "{kind}: {kinds:?}");
        }
    }
}
