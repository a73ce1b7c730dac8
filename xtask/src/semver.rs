//! `cargo xtask semver`: changes of the published libraries that break a user's program, since the
//! last release or a revision.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::api;
use crate::files::read;
use crate::pinned::{Tool, is_done};
use crate::published;

/// Reads the JSON of [`api::FORMAT`].
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
/// other side is made from this repository, once for each commit. Says the reason if there is
/// nothing to compare with.
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
    let before = documented(&root, &revision)?;
    let target = published::target(&root);
    api::document(&root, &target)?;
    let mut broken = Vec::new();
    for library in published::all(&root)?.iter().filter(|one| one.is_library()) {
        let file = format!("{}.json", library.in_rust());
        let (old, new) = (before.join(&file), target.join("doc").join(&file));
        if !old.is_file() {
            println!("{}: new since {revision}", library.name);
            continue;
        }
        if [&old, &new]
            .iter()
            .any(|json| api::format_of(&read(json).unwrap_or_default()) != Some(api::FORMAT))
        {
            println!("semver: skipped, because rustdoc writes another format than {}", api::FORMAT);
            return Ok(());
        }
        let status = Command::new(&tool)
            .args(["semver-checks", "--baseline-rustdoc"])
            .arg(&old)
            .arg("--current-rustdoc")
            .arg(&new)
            .status()
            .map_err(|e| format!("{}: {e}", TOOL.name))?;
        if !status.success() {
            broken.push(library.name.clone());
        }
    }
    match broken.len() {
        0 => Ok(()),
        _ => Err(format!("programs that use {} break since {revision}", broken.join(", "))),
    }
}

/// Returns the folder of what rustdoc wrote as JSON about a revision, which is made if it is not
/// there.
fn documented(root: &Path, revision: &str) -> Result<PathBuf, String> {
    let commit = git(root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
        .ok_or_else(|| format!("semver: expected a revision, given {revision:?}"))?;
    let folder = published::target(root).join("semver").join(&commit);
    let done = folder.join("json");
    if done.is_dir() {
        return Ok(done);
    }
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", folder.display());
    let (source, target, archive) =
        (folder.join("source"), folder.join("target"), folder.join("archive.tar"));
    fs::create_dir_all(&source).map_err(|e| failed(&e))?;
    let written = archive.display().to_string();
    git(root, &["archive", "--format=tar", "--output", &written, &commit])
        .ok_or_else(|| failed(&"git archive fails"))?;
    if !is_done(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source)) {
        return Err(failed(&"tar fails"));
    }
    api::document(&source, &target)?;
    fs::rename(target.join("doc"), &done).map_err(|e| failed(&e))?;
    for rest in [&source, &target] {
        fs::remove_dir_all(rest).map_err(|e| failed(&e))?;
    }
    fs::remove_file(&archive).map_err(|e| failed(&e))?;
    Ok(done)
}

/// Returns the tag of the newest release.
fn last_release(root: &Path) -> Option<String> {
    git(root, &["describe", "--tags", "--abbrev=0", "--match", TAGS])
}

/// Returns the output of git, `None` if it fails.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let said = Command::new("git").args(words).current_dir(root).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
