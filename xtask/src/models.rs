//! Models of shared state, and proof that they can fail: bugs that the models must find.
//!
//! A [`Suite`] names a crate, its models, and a list of bugs (`spec/models/*.txt`, in the form of
//! the lists of mutants). [`Copy::make`] copies the crate's sources into a workspace of its own
//! below the target directory, with every bug as a branch beside the sound text, as mutants are
//! planted. One build serves all: [`Copy::run`] runs the models with no bug on, where each must
//! pass, and then, with each bug on, those that the bug's entry names, where each must fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::files::{link, mirror, read, write};
use crate::mutants::list::{self, Mutant};
use crate::mutants::plant;
use crate::programs::TestProgram;

/// Folder of the lists, below the repository's root.
const LISTS: &str = "spec/models";

/// A crate with models and bugs.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The package.
    package: &'static str,
    /// Its folder, below `crates`.
    folder: &'static str,
    /// The test target with the models.
    models: &'static str,
    /// The name of the list of bugs.
    bugs: &'static str,
    /// The part of the crate that is copied; `None` is all of it.
    part: Option<Part>,
}

/// A part of a crate that is built as a crate of the same name.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The source files.
    files: &'static [&'static str],
    /// The root module above them.
    root: &'static str,
    /// The manifest.
    manifest: &'static str,
}

/// The law of the shared rate with the three modules that it uses: the rest of core would take
/// longer to build than the models run.
const LEASE: Part = Part {
    files: &[
        "src/law/lease.rs",
        "src/base/bound.rs",
        "src/base/time.rs",
        "src/base/units.rs",
        "tests/loom_lease.rs",
    ],
    root: "\
#![no_std]
#![allow(missing_docs, dead_code)]
extern crate alloc;
pub mod base {
    pub mod bound;
    pub mod time;
    pub mod units;
}
pub mod law {
    pub mod lease;
}
pub use base::time::Instant;
pub use base::units::{Bytes, Rate};
",
    manifest: "\
[package]
name = \"txweir-core\"
version.workspace = true
edition.workspace = true
[lints]
workspace = true
[target.'cfg(loom)'.dev-dependencies]
loom.workspace = true
",
};

/// The end of the copy's manifest. The crates that are not copied run a few instructions in each
/// interleaving, and those of the model checker's log run none: a quick build of theirs counts for
/// more.
const UNCOPIED: &str = "
[profile.test.package.\"*\"]
opt-level = 1
[profile.test.package.aho-corasick]
opt-level = 0
[profile.test.package.matchers]
opt-level = 0
[profile.test.package.regex-automata]
opt-level = 0
[profile.test.package.regex-syntax]
opt-level = 0
[profile.test.package.tracing-subscriber]
opt-level = 0
[profile.test.package.loom]
opt-level = 2
[profile.test.package.generator]
opt-level = 2
";

/// The crates whose models are run.
pub const SUITES: [Suite; 2] = [
    Suite { package: "txweir-core", folder: "core", models: "loom_lease", bugs: "lease", part: Some(LEASE) },
    Suite {
        package: "txweir-handoff",
        folder: "handoff",
        models: "loom_handoff",
        bugs: "handoff",
        part: None,
    },
];

impl Suite {
    /// Reads the list of bugs.
    fn bugs(&self, root: &Path) -> Result<Vec<Mutant>, String> {
        list::parse(self.bugs, &read(&root.join(LISTS).join(format!("{}.txt", self.bugs)))?)
    }
}

/// A copy of a crate with every bug in it, in a workspace of its own.
pub struct Copy {
    suite: Suite,
    bugs: Vec<Mutant>,
    /// The folder of the workspace.
    workspace: PathBuf,
    /// The folder in which cargo builds: apart from the other builds, which have other flags.
    target: PathBuf,
}

impl Copy {
    /// Copies the crate. A file that is the same already keeps its time, so that it is not built
    /// again.
    pub fn make(suite: Suite, root: &Path) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target).join("loom");
        let workspace = target.join("planted").join(suite.models);
        let (from, home) = (root.join("crates").join(suite.folder), workspace.join("copy"));
        let bugs = suite.bugs(root)?;
        let planted = plant::planted(root, &bugs)?;
        let manifest = read(&root.join("Cargo.toml"))?;
        let shared = manifest.find("[workspace.package]").ok_or("Cargo.toml: no [workspace.package]")?;
        let head = "[workspace]\nresolver = \"3\"\nmembers = [\"copy\"]\n\n";
        // The overrides at the end are of crates that the copy does not use.
        let end = manifest.find("\n[profile.test.package]").unwrap_or(manifest.len());
        let mut own = format!("{head}{}{UNCOPIED}", &manifest[shared..end]);
        if suite.package != "txweir-core" {
            own.push_str("[profile.test.package.txweir-core]\nopt-level = 0\n");
        }
        write(&workspace.join("Cargo.toml"), &own)?;
        write(&workspace.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
        match suite.part {
            Some(part) => {
                for file in part.files {
                    let file = Path::new(file);
                    let text = match planted.get(&from.join(file)) {
                        Some(text) => text.clone(),
                        None => read(&from.join(file))?,
                    };
                    write(&home.join(file), &text)?;
                }
                write(&home.join("src/lib.rs"), &(part.root.to_owned() + plant::SWITCH))?;
                write(&home.join("Cargo.toml"), part.manifest)?;
            }
            None => {
                mirror(&from, &home, &|path| planted.get(path).cloned())?;
                // The tests of the core depend on these, so their manifests have to be there.
                for needed in ["crates/ahead", "crates/core", "crates/laws", "crates/counted"] {
                    link(&root.join(needed), &workspace.join(needed))?;
                }
            }
        }
        Ok(Self { suite, bugs, workspace, target })
    }

    /// Builds the models, and runs them without a bug and with each. `report` gets a line for each
    /// model that passes or fails without a bug and for each bug, and true if it is as it must be.
    pub fn run(&self, report: &mut dyn FnMut(&str, bool)) {
        let name = self.suite.models;
        let program = match self.build() {
            Ok(program) => program,
            Err(e) => return report(&format!("{name}: FAILED: {e}"), false),
        };
        match output(&program, 0, &[]) {
            Ok((text, ended)) => self.without_a_bug(&text, ended, report),
            Err(e) => report(&format!("{name}: FAILED: {e}"), false),
        }
        for (number, bug) in (1..).zip(&self.bugs) {
            let since = Instant::now();
            let models: Vec<&str> = models_of(bug).collect();
            let verdict = output(&program, number, &models).map(|(text, _)| missed(&models, &text));
            let time = since.elapsed().as_secs_f64();
            let (end, found) = match verdict {
                Ok(missed) if missed.is_empty() => (format!("found by {} ({time:.1} s)", models.len()), true),
                Ok(missed) => (format!("FAILED: not found by {}", missed.join(", ")), false),
                Err(e) => (format!("FAILED: {e}"), false),
            };
            report(&format!("{name} with {}: {end}", bug.name), found);
        }
    }

    /// Reports each model's end without a bug, and a failure if the program died or ran none.
    fn without_a_bug(&self, text: &str, ended: bool, report: &mut dyn FnMut(&str, bool)) {
        let name = self.suite.models;
        let ends = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        let mut sound = true;
        let mut count = 0;
        for (model, end) in ends {
            sound &= end == "ok";
            count += 1;
            report(&format!("{name}: {model} ... {end}"), end == "ok");
        }
        if sound && (!ended || count == 0) {
            report(&format!("{name}: FAILED after {count} models:\n{text}"), false);
        }
    }

    /// Builds the models and returns their program.
    fn build(&self) -> Result<PathBuf, String> {
        // A branch in the place of a text may have parentheses that it does not need.
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default() + " --cfg loom --cap-lints allow";
        let built = crate::cargo()
            .args(["test", "--package", self.suite.package, "--test", self.suite.models])
            .args(["--no-run", "--quiet", "--message-format=json-render-diagnostics"])
            .env("RUSTFLAGS", flags)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "0")
            .current_dir(&self.workspace)
            .output()
            .map_err(|e| format!("cargo: {e}"))?;
        if !built.status.success() {
            return Err(format!("does not build: {}", String::from_utf8_lossy(&built.stderr)));
        }
        let programs = TestProgram::all(&String::from_utf8_lossy(&built.stdout));
        programs.into_iter().next_back().map(|p| p.file).ok_or_else(|| "cargo names no program".into())
    }
}

/// Runs models, all if none is named, with a bug, 0 for none. Returns the output, and whether all
/// passed. One thread runs them: the checker maps and unmaps a stack for each of its threads, and a
/// second thread of the program would wait for that most of the time.
fn output(program: &Path, bug: usize, models: &[&str]) -> Result<(String, bool), String> {
    let mut command = Command::new(program);
    if !models.is_empty() {
        command.arg("--exact").args(models);
    }
    let done = command
        .arg("--test-threads=1")
        .env("TXWEIR_MUTANT", bug.to_string())
        .stderr(Stdio::null())
        .output()
        .map_err(|e| format!("the models do not start: {e}"))?;
    Ok((String::from_utf8_lossy(&done.stdout).into_owned(), done.status.success()))
}

/// Returns the models that must fail with a bug.
fn models_of(bug: &Mutant) -> impl Iterator<Item = &str> {
    bug.by.iter().flat_map(|suite| suite.filters.iter().map(String::as_str))
}

/// Returns those of the models that have not failed, by the output of the test program.
fn missed<'a>(models: &[&'a str], output: &str) -> Vec<&'a str> {
    let failed = |model: &str| output.lines().any(|line| line == format!("test {model} ... FAILED"));
    models.iter().copied().filter(|model| !failed(model)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_of_every_list_finds_its_text_and_its_models() {
        for suite in SUITES {
            let root = crate::root();
            let bugs = suite.bugs(&root).unwrap();
            plant::planted(&root, &bugs).unwrap();
            let home = root.join("crates").join(suite.folder);
            let models = |module: &str| {
                let file = match module {
                    "" => format!("tests/{}.rs", suite.models),
                    module => format!("tests/{}/{module}.rs", suite.models),
                };
                read(&home.join(file)).unwrap()
            };
            for bug in &bugs {
                assert_eq!(bug.krate(), suite.folder, "{}", bug.name);
                let part = suite.part.is_none_or(|p| p.files.iter().any(|f| bug.file.ends_with(f)));
                assert!(part, "{}: {} is not in the copy", bug.name, bug.file);
                assert!(models_of(bug).next().is_some(), "{}", bug.name);
                for model in models_of(bug) {
                    let (module, name) = model.split_once("::").unwrap_or(("", model));
                    let text = format!("#[test]\nfn {name}() {{");
                    assert!(models(module).contains(&text), "{}: {model}", bug.name);
                }
                let same = bugs.iter().filter(|other| other.name == bug.name).count();
                assert_eq!(same, 1, "{}", bug.name);
            }
        }
    }

    #[test]
    fn a_model_that_passes_or_does_not_run_has_missed_the_bug() {
        let output = "test one ... FAILED\ntest two ... ok\ntest result: FAILED. 1 passed; 1 failed;";
        assert_eq!(missed(&["one", "two", "three"], output), ["two", "three"]);
    }

    #[test]
    fn without_a_bug_each_model_passes_and_the_program_ends_well() {
        let copy = Copy { suite: SUITES[0], bugs: Vec::new(), workspace: "".into(), target: "".into() };
        let ends = |text: &str, ended| {
            let mut all = Vec::new();
            copy.without_a_bug(text, ended, &mut |_, good| all.push(good));
            all
        };
        assert_eq!(ends("test a ... ok\ntest b ... FAILED\n", false), [true, false]);
        assert_eq!(ends("test a ... ok\n", true), [true]);
        assert_eq!(ends("test a ... ok\n", false), [true, false]);
        assert_eq!(ends("", true), [false]);
    }
}
