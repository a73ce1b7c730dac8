//! `cargo xtask semver`: changes of the published libraries that break a user's program, since the
//! last release or a revision.

use std::path::Path;
use std::process::Command;

use crate::pinned::Tool;
use crate::published;

/// Reads the JSON of Rust 1.95's rustdoc, as [`crate::api`] does.
const TOOL: Tool = Tool {
    name: "cargo-semver-checks",
    version: "0.51.0",
    archive: "https://github.com/obi1kenobi/cargo-semver-checks/releases/download/vVERSION/\
              cargo-semver-checks-x86_64-unknown-linux-gnu.tar.gz",
    folder: "",
    features: &[],
};
/// The tags of releases.
const TAGS: &str = "v*";

/// Compares with a revision, or with the newest release. No crate is in a registry, so that the
/// other side is built from this repository. Says the reason if there is nothing to compare with.
pub fn run(revision: Option<&str>) -> Result<(), String> {
    let root = crate::root();
    let Some(revision) = revision.map(String::from).or_else(|| last_release(&root)) else {
        println!("semver: skipped, because no version is released (no tag {TAGS})");
        return Ok(());
    };
    let Some(tool) = TOOL.installed() else {
        println!("semver: skipped, because {} {} cannot be installed", TOOL.name, TOOL.version);
        return Ok(());
    };
    let mut check = Command::new(tool);
    check.args(["semver-checks", "--all-features", "--baseline-rev", &revision]).current_dir(&root);
    for library in published::all(&root)?.iter().filter(|one| one.is_library()) {
        check.args(["--package", &library.name]);
    }
    let status = check.status().map_err(|e| format!("{}: {e}", TOOL.name))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the version has to say that users' programs break (since {revision})")),
    }
}

/// Returns the tag of the newest release.
fn last_release(root: &Path) -> Option<String> {
    let said = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", TAGS])
        .current_dir(root)
        .output()
        .ok()?;
    let tag = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    (said.status.success() && !tag.is_empty()).then_some(tag)
}
