//! `make install` into a folder of its own, and `make uninstall`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::Folder;

const TXWEIR: &str = env!("CARGO_BIN_EXE_txweir");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a target of the Makefile on the binary of the tests. Returns whether it succeeded, and its
/// errors.
fn make(target: &str, into: &Path, binary: &str) -> (bool, String) {
    let mut make = Command::new("make");
    // The makefile that runs the tests is no parent of this one.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").current_dir(ROOT);
    make.args([target, "PREFIX=/opt/own", &format!("TXWEIR={binary}")]);
    let done = make.arg(format!("DESTDIR={}", into.display())).output().expect("make");
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Returns the files below a folder, by their paths in it, with their modes.
fn files(folder: &Path) -> BTreeMap<String, u32> {
    let (mut all, mut todo) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).expect("a folder").flatten() {
            let meta = entry.metadata().expect("a file");
            if meta.is_dir() {
                todo.push(entry.path());
                continue;
            }
            let path = entry.path().strip_prefix(folder).expect("below").display().to_string();
            all.insert(path, meta.permissions().mode() & 0o7777);
        }
    }
    all
}

#[test]
fn what_is_installed_runs_and_is_removed_again() {
    let folder = Folder::new("install");
    let into = &folder.0;
    assert_eq!(make("install", into, TXWEIR), (true, String::new()));
    let installed = files(into);
    for (path, mode) in [
        ("opt/own/bin/txweir", 0o755),
        ("opt/own/share/man/man1/txweir.1", 0o644),
        ("opt/own/share/man/man1/txweir-link-add.1", 0o644),
        ("opt/own/share/bash-completion/completions/txweir", 0o644),
        ("opt/own/share/zsh/site-functions/_txweir", 0o644),
        ("opt/own/share/fish/vendor_completions.d/txweir.fish", 0o644),
    ] {
        assert_eq!(installed.get(path), Some(&mode), "{path}: {installed:?}");
    }
    let units = fs::read_dir(Path::new(ROOT).join("packaging")).into_iter().flatten().flatten();
    for unit in units.map(|unit| unit.file_name().to_string_lossy().into_owned()) {
        let path = format!("opt/own/lib/systemd/system/{unit}");
        if unit.ends_with(".service") {
            let text = fs::read_to_string(into.join(&path)).expect("the unit");
            assert!(text.contains("/opt/own/bin/txweir") && !text.contains("/usr/bin/txweir"), "{text}");
        }
    }
    let program = into.join("opt/own/bin/txweir");
    let length = |path: &Path| fs::metadata(path).expect("a file").len();
    assert!(length(&program) < length(Path::new(TXWEIR)), "the binary has its symbols");
    let said = Command::new(&program).args(["kinds", "pfifo"]).output().expect("the installed binary");
    assert!(said.status.success() && said.stdout.starts_with(b"pfifo"), "{said:?}");

    // A file of somebody else stays.
    fs::write(into.join("opt/own/bin/other"), "").expect("another file");
    assert_eq!(make("uninstall", into, TXWEIR), (true, String::new()));
    assert_eq!(files(into).into_keys().collect::<Vec<_>>(), ["opt/own/bin/other"]);
}

/// Returns the sources of the Debian package's files, below the repository.
fn assets() -> Vec<String> {
    let manifest = include_str!("../../Cargo.toml");
    let lines = manifest.lines().filter_map(|line| line.trim().strip_prefix("[\"../../"));
    lines.filter_map(|line| line.split('"').next()).map(String::from).collect()
}

/// The Debian package has exactly the files that are installed, and the documents of its folder.
#[test]
fn the_debian_package_has_every_installed_file() {
    let folder = Folder::new("deb");
    assert_eq!(make("install", &folder.0, TXWEIR), (true, String::new()));
    let installed: Vec<String> = files(&folder.0).into_keys().collect();
    let assets = assets();
    assert!(assets.len() > 7, "{assets:?}");
    let (made, kept): (Vec<&str>, Vec<&str>) =
        assets.iter().map(String::as_str).partition(|asset| asset.starts_with("target/deb/"));
    for document in kept {
        assert!(Path::new(ROOT).join(document).is_file(), "{document}");
    }
    // An asset is a path, or one with a star for the name of a file.
    let fits = |asset: &str, path: &str| {
        let asset = asset.replacen("target/deb/usr", "opt/own", 1);
        match asset.split_once('*') {
            Some((before, after)) => path.starts_with(before) && path.ends_with(after),
            None => asset == path,
        }
    };
    for path in &installed {
        assert!(made.iter().any(|asset| fits(asset, path)), "{path}: in no asset of {made:?}");
    }
    for asset in made.iter().filter(|asset| !asset.contains("systemd")) {
        assert!(installed.iter().any(|path| fits(asset, path)), "{asset}: no such file in {installed:?}");
    }
}

#[test]
fn without_a_build_it_says_so() {
    let folder = Folder::new("none");
    let into = folder.0.join("into");
    let (done, said) = make("install", &into, "target/none/txweir");
    let line = "make install: target/none/txweir is not there: run make build first\n";
    assert!(!done && said.starts_with(line), "{said}");
    assert!(!into.exists());
}
