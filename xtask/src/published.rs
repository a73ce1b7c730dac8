//! The crates that are published: those below `crates` whose manifests do not forbid it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A published crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name, such as `txweir-core`.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The text of its manifest.
    pub manifest: String,
}

impl Crate {
    /// True if other crates can use it: it has a library.
    pub fn is_library(&self) -> bool {
        self.folder.join("src/lib.rs").is_file()
    }

    /// Returns its name in Rust, such as `txweir_core`.
    pub fn in_rust(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns its description.
    pub fn description(&self) -> &str {
        value(&self.manifest, "description").unwrap_or("")
    }
}

/// Returns the published crates in order of their names.
pub fn all(root: &Path) -> Result<Vec<Crate>, String> {
    let folders = fs::read_dir(root.join("crates")).map_err(|e| format!("crates: {e}"))?;
    let mut all = Vec::new();
    for folder in folders.flatten().map(|entry| entry.path()) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if manifest.contains("publish = false") {
            continue;
        }
        let name = value(&manifest, "name").ok_or_else(|| format!("{}: no name", folder.display()))?;
        all.push(Crate { name: name.to_owned(), folder, manifest });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Returns the first text of a key in a manifest.
pub fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        rest.strip_suffix('"')
    })
}

/// Returns the folder in which cargo builds.
pub fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |at| root.join(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_published_crates_are_there() {
        let all = all(&crate::root()).unwrap();
        let is_there = |name: &str| all.iter().any(|one| one.name == name);
        assert!(is_there("txweir") && is_there("txweir-core"));
        assert!(!is_there("txweir-counted") && !is_there("txweir-py"));
        assert!(all.iter().all(|one| !one.description().is_empty()));
    }

    #[test]
    fn a_value_is_that_of_its_key() {
        let manifest = "[package]\nrust-version.workspace = true\nname = \"a\"\nrust-version = \"1.2\"\n";
        assert_eq!(value(manifest, "name"), Some("a"));
        assert_eq!(value(manifest, "rust-version"), Some("1.2"));
        assert_eq!(value(manifest, "version"), None);
    }
}
