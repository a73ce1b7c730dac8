//! The parts that a published crate needs, which `cargo package` finds out late or not at all: its
//! description, its README, versions beside the paths of its dependencies, and no file from outside
//! of its folder in its code. Whether the dependencies of a version are published, only the
//! registry tells.

use std::fs;
use std::path::Path;

use crate::published::{self, Crate};

/// Keys that each manifest gives itself or takes from the workspace.
const KEYS: [&str; 7] =
    ["description", "version", "edition", "rust-version", "license", "repository", "keywords"];
/// Texts of the licences, which stand in each package.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Adds the faults of each crate below `crates`.
pub fn check(root: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let manifest = read(&root.join("Cargo.toml"))?;
    check_versions("Cargo.toml", &manifest, found);
    let version = published::value(&manifest, "version").unwrap_or("");
    if !read(&root.join("CHANGELOG.md"))?.contains(&format!("\n## [{version}]")) {
        found.push(format!("CHANGELOG.md: no section `## [{version}]`, the version of the workspace"));
    }
    for one in published::all(root)? {
        let folder = one.folder.strip_prefix(root).unwrap_or(&one.folder);
        let name = folder.join("Cargo.toml").display().to_string();
        check_manifest(&name, &one.manifest, found);
        for text in LICENCES {
            if fs::read(one.folder.join(text)).ok() != fs::read(root.join(text)).ok() {
                found.push(format!("{name}: {text} is not in the package: link it (../../{text})"));
            }
        }
        let readme = fs::read_to_string(one.folder.join("README.md")).unwrap_or_default();
        check_readme(&folder.join("README.md").display().to_string(), &one, &readme, found);
    }
    Ok(())
}

fn check_manifest(name: &str, manifest: &str, found: &mut Vec<String>) {
    let package = manifest.split("\n[").find(|part| part.trim_start_matches('[').starts_with("package]"));
    for key in KEYS {
        let gives = |line: &str| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(" =") || rest.starts_with(".workspace"))
        };
        if !package.is_some_and(|package| package.lines().any(gives)) {
            found.push(format!("{name}: no `{key}`, which a published crate needs"));
        }
    }
    check_versions(name, manifest, found);
}

/// The page of a crate in the registry begins with its name, and says what its manifest says.
fn check_readme(name: &str, one: &Crate, readme: &str, found: &mut Vec<String>) {
    let words: Vec<&str> = readme.split_whitespace().collect();
    let described = words.join(" ").contains(one.description());
    if !readme.starts_with(&format!("# {}\n", one.name)) || !described {
        found.push(format!("{name}: expected `# {}` and its description, which begin its page", one.name));
    }
}

fn check_versions(name: &str, manifest: &str, found: &mut Vec<String>) {
    let mut published = true;
    for (at, line) in (1..).zip(manifest.lines()) {
        // cargo leaves dependencies of tests without a version out of the package.
        if line.starts_with('[') {
            published = !line.contains("dev-dependencies");
        }
        if published && line.contains("path = \"") && line.contains('{') && !line.contains("version = \"") {
            found.push(format!("{name}:{at}: a path without a version: the package would not find it"));
        }
    }
}

/// Adds each file from outside of the crate's folder that its code includes. `name` is the path of
/// the source from the repository's root.
pub fn check_includes(name: &str, text: &str, found: &mut Vec<String>) {
    let Some((_, inside)) = name.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else {
        return;
    };
    if !inside.starts_with("src/") {
        return;
    }
    let folders = inside.matches('/').count();
    for (at, line) in (1..).zip(text.lines()) {
        let included = ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""];
        let Some((_, path)) = included.iter().find_map(|word| line.split_once(word)) else { continue };
        let ups = path.split('"').next().unwrap_or("").split('/').filter(|part| *part == "..").count();
        if ups > folders {
            found.push(format!("{name}:{at}: includes a file outside of its package"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\ndescription = \"b\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        repository.workspace = true\nkeywords.workspace = true\n\n[dependencies]\n\
        b = { path = \"../b\", version = \"1\" }\n";

    #[test]
    fn each_missing_part_is_found() {
        let faults = |text: &str| {
            let mut found = Vec::new();
            check_manifest("m", text, &mut found);
            found
        };
        assert_eq!(faults(GOOD), [] as [String; 0]);
        for key in KEYS {
            let line = GOOD.lines().find(|l| l.starts_with(key)).unwrap_or_else(|| panic!("{key}"));
            assert_eq!(
                faults(&GOOD.replace(&format!("\n{line}\n"), "\n")),
                [format!("m: no `{key}`, which a published crate needs")]
            );
        }
        let for_tests = GOOD.replace("[dependencies]", "[dev-dependencies]").replace(", version = \"1\"", "");
        assert_eq!(faults(&for_tests), [] as [String; 0]);
        assert!(
            faults(&GOOD.replace(", version = \"1\"", ""))[0].starts_with("m:12: a path without a version")
        );
    }

    #[test]
    fn a_readme_says_what_the_manifest_says() {
        let one = Crate { name: "a".into(), folder: Default::default(), manifest: GOOD.into() };
        let faults = |text: &str| {
            let mut found = Vec::new();
            check_readme("r", &one, text, &mut found);
            found.len()
        };
        assert_eq!(faults("# a\n\nA\nb c\n"), 0);
        assert_eq!([faults("# b\n\nb\n"), faults("# a\n\nc\n"), faults("")], [1, 1, 1]);
    }

    #[test]
    fn a_file_outside_of_the_package_is_found() {
        let faults = |name, text| {
            let mut found = Vec::new();
            check_includes(name, text, &mut found);
            found.len()
        };
        assert_eq!(faults("crates/a/src/lib.rs", "include_str!(\"../scenarios/a.toml\")"), 0);
        assert_eq!(faults("crates/a/src/lib.rs", "include_str!(\"../../scenarios/a.toml\")"), 1);
        assert_eq!(faults("crates/a/src/b/c.rs", "x = include_bytes!(\"../../../a.bin\");"), 1);
        assert_eq!(faults("crates/a/src/lib.rs", "#[path = \"../../b/tests/it/c.rs\"]"), 1);
        assert_eq!(faults("crates/a/tests/it/a.rs", "include_str!(\"../../../../README.md\")"), 0);
    }
}
