//! Proof that the models of shared state can fail: bugs, applied one at a time to a copy of a
//! crate, which its models must find.
//!
//! A [`Suite`] names a crate, its models, and a table of bugs beside them. [`Copy::make`] copies
//! the crate's sources into a workspace of its own below the target directory. The models run there
//! once as the crate is ([`Copy::command`]). Then [`Copy::find`] edits the copy for each bug,
//! builds it, and runs the models that the bug's entry names: each must fail. While the models run
//! with one bug, the copy with the next one is built. Only the copied crate is built again, and
//! that incrementally.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::files::{link, make_folder_of, mirror, read, write};

#[path = "../../crates/handoff/tests/planted/table.rs"]
mod handoff;
#[path = "../../crates/core/tests/planted/table.rs"]
mod lease;

/// A bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name, in snake case; unique within a table.
    pub name: &'static str,
    /// The file that it changes, below the crate's folder.
    pub file: &'static str,
    /// Its changes, all of them in that file.
    pub edits: &'static [Edit],
    /// The tests that must fail, by their full names.
    pub models: &'static [&'static str],
}

/// A change of a text.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The text to replace, to the letter. The file has it exactly once.
    pub old: &'static str,
    /// The text in its place.
    pub new: &'static str,
}

/// A crate with models and bugs.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The package.
    pub package: &'static str,
    /// Its folder, below the repository's root.
    folder: &'static str,
    /// The test target with the models.
    pub models: &'static str,
    /// The part of the crate that is copied; `None` is all of it.
    part: Option<Part>,
    bugs: &'static [Bug],
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

/// The law of the shared rate with the three modules that it uses: the rest of core would be built
/// again for each bug.
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
    Suite {
        package: "txweir-core",
        folder: "crates/core",
        models: "loom_lease",
        part: Some(LEASE),
        bugs: lease::BUGS,
    },
    Suite {
        package: "txweir-handoff",
        folder: "crates/handoff",
        models: "loom_handoff",
        part: None,
        bugs: handoff::BUGS,
    },
];

/// A copy of a crate, in a workspace of its own.
pub struct Copy {
    suite: Suite,
    /// The folder of the crate that was copied.
    from: PathBuf,
    /// The folder of the workspace.
    workspace: PathBuf,
    /// The folder in which cargo builds: apart from the other builds, which have other flags.
    target: PathBuf,
}

/// The models as they run with a bug.
struct Running {
    bug: &'static Bug,
    child: Child,
    since: Instant,
}

impl Copy {
    /// Copies the crate as it is. A file that is the same already keeps its time, so that it is not
    /// built again.
    pub fn make(suite: Suite, root: &Path) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target).join("loom");
        let workspace = target.join("planted").join(suite.models);
        let copy = Self { suite, from: root.join(suite.folder), workspace, target };
        let manifest = read(&root.join("Cargo.toml"))?;
        let shared = manifest.find("[workspace.package]").ok_or("Cargo.toml: no [workspace.package]")?;
        let head = "[workspace]\nresolver = \"3\"\nmembers = [\"copy\"]\n\n";
        // The overrides at the end are of crates that the copy does not use.
        let end = manifest.find("\n[profile.test.package]").unwrap_or(manifest.len());
        let mut own = format!("{head}{}{UNCOPIED}", &manifest[shared..end]);
        if suite.package != "txweir-core" {
            own.push_str("[profile.test.package.txweir-core]\nopt-level = 1\n");
        }
        write(&copy.workspace.join("Cargo.toml"), &own)?;
        write(&copy.workspace.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
        match suite.part {
            Some(part) => {
                for file in part.files {
                    write(&copy.home().join(file), &read(&copy.from.join(file))?)?;
                }
                write(&copy.home().join("src/lib.rs"), part.root)?;
                write(&copy.home().join("Cargo.toml"), part.manifest)?;
            }
            None => {
                mirror(&copy.from, &copy.home(), &|_| None)?;
                // The tests of the core depend on these, so their manifests have to be there.
                for needed in ["crates/core", "crates/laws", "crates/counted"] {
                    link(&root.join(needed), &copy.workspace.join(needed))?;
                }
            }
        }
        Ok(copy)
    }

    /// Returns the folder of the copied crate.
    fn home(&self) -> PathBuf {
        self.workspace.join("copy")
    }

    /// Returns the `cargo test` command of the models, without further arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--package", self.suite.package, "--test", self.suite.models])
            .env("RUSTFLAGS", std::env::var("RUSTFLAGS").unwrap_or_default() + " --cfg loom")
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .current_dir(&self.workspace);
        command
    }

    /// Plants each bug. `report` gets a line for each, and true if all models of its entry have
    /// failed.
    pub fn find(&self, report: &mut dyn FnMut(&str, bool)) {
        let mut running: Option<Running> = None;
        for bug in self.suite.bugs {
            let next = self.plant(bug);
            if let Some(before) = running.take() {
                self.pass_on(before.bug, before.verdict(), report);
            }
            match next {
                Ok(next) => running = Some(next),
                Err(e) => self.pass_on(bug, Err(e), report),
            }
        }
        if let Some(last) = running {
            self.pass_on(last.bug, last.verdict(), report);
        }
    }

    fn pass_on(&self, bug: &Bug, verdict: Result<String, String>, report: &mut dyn FnMut(&str, bool)) {
        let (models, name) = (self.suite.models, bug.name);
        match verdict {
            Ok(text) => report(&format!("{models} with {name}: {text}"), true),
            Err(text) => report(&format!("{models} with {name}: FAILED: {text}"), false),
        }
    }

    /// Builds the copy with a bug, restores the copy, and starts the models.
    fn plant(&self, bug: &'static Bug) -> Result<Running, String> {
        let sound = read(&self.from.join(bug.file))?;
        let file = self.home().join(bug.file);
        write(&file, &edited(bug, &sound)?)?;
        let built = self.build(bug);
        write(&file, &sound)?;
        let child = Command::new(built?)
            .arg("--exact")
            .args(bug.models)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("the models do not start: {e}"))?;
        Ok(Running { bug, child, since: Instant::now() })
    }

    /// Builds the models. Returns their program, under a name of its own: the next build overwrites
    /// the other one.
    fn build(&self, bug: &Bug) -> Result<PathBuf, String> {
        let built = self
            .command()
            .args(["--no-run", "--quiet", "--message-format=json-render-diagnostics"])
            .output()
            .map_err(|e| format!("cargo: {e}"))?;
        if !built.status.success() {
            return Err(format!("does not build: {}", String::from_utf8_lossy(&built.stderr)));
        }
        let messages = String::from_utf8_lossy(&built.stdout);
        let program = messages.rsplit("\"executable\":\"").next().and_then(|rest| rest.split('"').next());
        let program =
            program.filter(|_| messages.contains("\"executable\":\"")).ok_or("cargo names no program")?;
        let own = self.workspace.join("programs").join(bug.name);
        make_folder_of(&own)?;
        fs::copy(program, &own).map_err(|e| format!("{program}: {e}"))?;
        Ok(own)
    }
}

impl Running {
    /// Waits for the models. All must have failed.
    fn verdict(self) -> Result<String, String> {
        let Self { bug, child, since } = self;
        let done = child.wait_with_output().map_err(|e| format!("the models: {e}"))?;
        let output = String::from_utf8_lossy(&done.stdout);
        match missed(bug, &output).as_slice() {
            [] => Ok(format!("found by {} ({:.1} s)", bug.models.len(), since.elapsed().as_secs_f64())),
            missed => Err(format!("not found by {}", missed.join(", "))),
        }
    }
}

/// Returns the models of a bug that have not failed, by the output of the test program.
fn missed(bug: &Bug, output: &str) -> Vec<&'static str> {
    let failed = |model: &str| output.lines().any(|line| line == format!("test {model} ... FAILED"));
    bug.models.iter().copied().filter(|model| !failed(model)).collect()
}

/// Returns a text with the edits of a bug.
fn edited(bug: &Bug, text: &str) -> Result<String, String> {
    bug.edits.iter().try_fold(text.to_owned(), |text, Edit { old, new }| match text.matches(old).count() {
        1 => Ok(text.replace(old, new)),
        n => Err(format!("{}: its text is there {n} times, expected once:\n{old}", bug.file)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_of_every_table_finds_its_text_and_its_models() {
        for suite in SUITES {
            let home = crate::root().join(suite.folder);
            let models = read(&home.join(format!("tests/{}.rs", suite.models))).unwrap();
            for bug in suite.bugs {
                let text = read(&home.join(bug.file)).unwrap();
                let edited = edited(bug, &text).unwrap_or_else(|e| panic!("{}: {e}", bug.name));
                assert_ne!(edited, text, "{}", bug.name);
                assert!(!bug.models.is_empty(), "{}", bug.name);
                for model in bug.models {
                    assert!(models.contains(&format!("#[test]\nfn {model}() {{")), "{}: {model}", bug.name);
                }
                let same = suite.bugs.iter().filter(|other| other.name == bug.name).count();
                assert_eq!(same, 1, "{}", bug.name);
            }
        }
    }

    #[test]
    fn a_text_that_is_not_there_exactly_once_is_refused() {
        let bug = Bug { name: "a", file: "b", edits: &[Edit { old: "x", new: "y" }], models: &[] };
        assert_eq!(edited(&bug, "a x b"), Ok("a y b".into()));
        assert_eq!(edited(&bug, "a"), Err("b: its text is there 0 times, expected once:\nx".into()));
        assert_eq!(edited(&bug, "xx"), Err("b: its text is there 2 times, expected once:\nx".into()));
    }

    #[test]
    fn a_model_that_passes_or_does_not_run_has_missed_the_bug() {
        let bug = Bug { name: "a", file: "b", edits: &[], models: &["one", "two", "three"] };
        let output = "test one ... FAILED\ntest two ... ok\ntest result: FAILED. 1 passed; 1 failed;";
        assert_eq!(missed(&bug, output), ["two", "three"]);
    }
}
