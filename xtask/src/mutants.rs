//! Mutants: small faults in a copy of the sources, one of which is switched on in a run of the
//! tests. A test that fails has killed it.
//!
//! The lists are `spec/mutants/*.txt` ([`list`]). All mutants are built at once: the copy has
//! `if on(N) { new } else { old }` in the place of each `old`, and the variable `TXWEIR_MUTANT`
//! names the one that is on ([`plant`]). A mutant first meets the tests that its list names, then
//! all tests of its crate.

pub mod list;
pub mod plant;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::files::{link, mirror, read, write};
use crate::programs::TestProgram;
use list::{Mutant, Suite};
use run::{Outcome, Program};

/// Folder of the lists, below the repository's root.
const LISTS: &str = "spec/mutants";

/// The end of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// This test failed.
    Killed(String),
    /// A test did not end, or the program died.
    Hung(String),
    /// No test failed.
    Survived,
}

/// Reads every list, in order of their names.
fn lists(root: &Path) -> Result<Vec<Mutant>, String> {
    let entries = fs::read_dir(root.join(LISTS)).map_err(|e| format!("{LISTS}: {e}"))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let area = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        all.extend(list::parse(&area, &read(&file)?)?);
    }
    Ok(all)
}

/// Runs the mutants whose names begin with one of `names`, or all, and prints a line for each and
/// a sum for each area. With `--named` first, runs only the tests that the lists name. Fails if one
/// survives that is not named equivalent, or if one that is named so is killed.
pub fn run(names: &[&str]) -> Result<(), String> {
    let (only_named, names) = match names {
        ["--named", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let root = crate::root();
    let all = lists(&root)?;
    let chosen: Vec<usize> = (0..all.len())
        .filter(|i| names.is_empty() || names.iter().any(|n| all[*i].full_name().starts_with(n)))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no mutant of {LISTS} has such a name"));
    }
    let copy = Copy::make(&root, &all)?.built()?;
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(i) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = copy.judge(*i, &all[*i], only_named);
                    println!("{:40} {}", all[*i].full_name(), shown(&verdict));
                    if let Ok(mut results) = results.lock() {
                        results.insert(*i, verdict);
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|e| e.to_string())?;
    close(&all, &results)
}

/// Renders the end of a mutant.
fn shown(verdict: &Result<Verdict, String>) -> String {
    match verdict {
        Ok(Verdict::Killed(test)) => format!("killed by {test}"),
        Ok(Verdict::Hung(test)) => format!("killed, {test} does not end"),
        Ok(Verdict::Survived) => "SURVIVES".into(),
        Err(e) => format!("not judged: {e}"),
    }
}

/// Prints the sums, and the mutants that are not killed with their reasons.
fn close(all: &[Mutant], results: &BTreeMap<usize, Result<Verdict, String>>) -> Result<(), String> {
    let mut areas: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut wrong = Vec::new();
    println!("\n{:14} {:>8} {:>8} {:>8} {:>10}", "area", "planted", "killed", "hung", "equivalent");
    for (i, verdict) in results {
        let mutant = &all[*i];
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(e) => {
                wrong.push(format!("{}: {e}", mutant.full_name()));
                continue;
            }
        };
        let sums = areas.entry(&mutant.area).or_default();
        sums[0] += 1;
        match (verdict, &mutant.equivalent) {
            (Verdict::Survived, Some(_)) => sums[3] += 1,
            (Verdict::Survived, None) => wrong.push(format!("{} survives", mutant.full_name())),
            (verdict, equivalent) => {
                sums[1] += 1;
                sums[2] += usize::from(matches!(verdict, Verdict::Hung(_)));
                if equivalent.is_some() {
                    wrong.push(format!("{} is named equivalent and is killed", mutant.full_name()));
                }
            }
        }
    }
    let mut total = [0; 4];
    for (area, sums) in &areas {
        println!("{area:14} {:>8} {:>8} {:>8} {:>10}", sums[0], sums[1], sums[2], sums[3]);
        total.iter_mut().zip(sums).for_each(|(t, s)| *t += s);
    }
    println!("{:14} {:>8} {:>8} {:>8} {:>10}\n", "all", total[0], total[1], total[2], total[3]);
    for (i, verdict) in results {
        if let (Ok(Verdict::Survived), Some(reason)) = (verdict, &all[*i].equivalent) {
            println!("{} is equivalent: {reason}", all[*i].full_name());
        }
    }
    println!("{} of {} mutants killed", total[1], total[0]);
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(wrong.join("\n")),
    }
}

/// Processor time of a suite without a fault, hundredths of a second, or the reason why it fails.
type Baseline = Result<u64, String>;

/// The copy with every mutant in it.
struct Copy {
    workspace: PathBuf,
    target: PathBuf,
    /// Folder of the outputs of test programs.
    output: PathBuf,
    /// The crates whose tests are built: those with mutants, and those whose tests lists name.
    tested: BTreeSet<String>,
    /// The test programs by their names: `core` for the tests within a crate, `core/it` for those
    /// beside it.
    programs: BTreeMap<String, PathBuf>,
    /// The processor time of each suite without a mutant, once it has run.
    baselines: Mutex<BTreeMap<Suite, Arc<OnceLock<Baseline>>>>,
}

impl Copy {
    /// Copies the crates that have mutants, with the mutants, and links the rest of the repository.
    /// A file that is the same already keeps its time.
    fn make(root: &Path, all: &[Mutant]) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target).join("mutants");
        let workspace = target.join("copy");
        let mut crates: Vec<String> = all.iter().map(|m| m.krate().to_owned()).collect();
        crates.sort();
        crates.dedup();
        let entries = |folder: &Path| -> Result<Vec<_>, String> {
            let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            Ok(entries.flatten().map(|e| e.file_name()).collect())
        };
        for name in entries(root)? {
            let skipped = ["target", "crates", ".git", "Cargo.toml", "Cargo.lock"];
            if !skipped.iter().any(|s| name == *s) {
                link(&root.join(&name), &workspace.join(&name))?;
            }
        }
        for file in ["Cargo.toml", "Cargo.lock"] {
            write(&workspace.join(file), &read(&root.join(file))?)?;
        }
        let planted = plant::planted(root, all)?;
        for name in entries(&root.join("crates"))? {
            let (from, to) = (root.join("crates").join(&name), workspace.join("crates").join(&name));
            // A link must not become the folder that is written to, nor the other way round.
            let is_link = fs::symlink_metadata(&to).is_ok_and(|m| m.is_symlink());
            if is_link && crates.iter().any(|c| name == **c) {
                fs::remove_file(&to).map_err(|e| format!("{}: {e}", to.display()))?;
            } else if !is_link && to.is_dir() && !crates.iter().any(|c| name == **c) {
                fs::remove_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
            }
            if crates.iter().any(|c| name == **c) {
                mirror(&from, &to, &|path| planted.get(path).cloned())?;
            } else {
                link(&from, &to)?;
            }
        }
        let output = target.join("output");
        fs::create_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
        let by = all.iter().flat_map(|m| &m.by).map(|suite| suite.krate().to_owned());
        let tested = by.chain(crates).collect();
        Ok(Self { workspace, target, output, tested, programs: BTreeMap::new(), baselines: Mutex::default() })
    }

    /// Builds the test programs of the crates.
    fn built(mut self) -> Result<Self, String> {
        let mut command = crate::cargo();
        command.args(["test", "--no-run", "--locked", "--message-format=json-render-diagnostics", "--lib"]);
        command.args(["--test", "it"]);
        for name in &self.tested {
            let package = if name == "txweir" { name.clone() } else { format!("txweir-{name}") };
            command.args(["--package", &package]);
        }
        // The programs are built once and run for seconds each.
        let built = command
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("RUSTFLAGS", std::env::var("RUSTFLAGS").unwrap_or_default() + " --cap-lints allow")
            .current_dir(&self.workspace)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| format!("cargo: {e}"))?;
        if !built.status.success() {
            return Err("the copy with the mutants does not build".into());
        }
        let text = String::from_utf8_lossy(&built.stdout);
        self.programs = TestProgram::all(&text).into_iter().map(named).collect();
        // A suite whose program is not there is an error of its mutant.
        Ok(self)
    }

    /// Returns the processor time that a suite takes without a mutant, in hundredths of a second. A
    /// suite that fails or runs no test would kill or spare every mutant, so it is refused.
    fn baseline(&self, suite: &Suite) -> Result<u64, String> {
        let cell = {
            let mut all = self.baselines.lock().map_err(|e| e.to_string())?;
            Arc::clone(all.entry(suite.clone()).or_default())
        };
        let run = || {
            let name: String = suite.to_string().chars().filter(|c| c.is_alphanumeric()).collect();
            match self.program(suite)?.run(&suite.filters, 0, u64::MAX, &self.output.join(name)) {
                Outcome::Passed { tests, ticks } if tests > 0 => Ok(ticks),
                other => Err(format!("without a mutant, {suite}: {other:?}")),
            }
        };
        cell.get_or_init(run).clone()
    }

    /// Runs the suites of a mutant until one fails.
    fn judge(&self, index: usize, mutant: &Mutant, only_named: bool) -> Result<Verdict, String> {
        let named = mutant.by.len();
        for suite in mutant.suites().into_iter().take(if only_named { named } else { usize::MAX }) {
            let most = 10 * self.baseline(&suite)? + 1_000;
            let output = self.output.join((index + 1).to_string());
            match self.program(&suite)?.run(&suite.filters, index + 1, most, &output) {
                Outcome::Passed { .. } => {}
                Outcome::Failed(test) => return Ok(Verdict::Killed(format!("{}: {test}", suite.program))),
                Outcome::Hung => return Ok(Verdict::Hung(suite.to_string())),
                Outcome::NotRun(why) => return Err(format!("{suite} is not run: {why}")),
            }
        }
        Ok(Verdict::Survived)
    }

    fn program(&self, suite: &Suite) -> Result<Program, String> {
        let file =
            self.programs.get(&suite.program).ok_or_else(|| format!("no test program {}", suite.program))?;
        Ok(Program { file: file.clone(), folder: self.workspace.join("crates").join(suite.krate()) })
    }
}

/// Returns the name and the file of a test program.
fn named(program: TestProgram) -> (String, PathBuf) {
    let package = program.package();
    (if program.beside { format!("{package}/it") } else { package }, program.file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text to replace is there, and each name is used once.
    #[test]
    fn every_mutant_of_every_list_finds_its_text() {
        let all = lists(&crate::root()).unwrap();
        assert!(all.len() >= 150, "{}", all.len());
        plant::planted(&crate::root(), &all).unwrap();
        let mut names: Vec<String> = all.iter().map(Mutant::full_name).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
        // One text that is not whole keeps the copy with all of them from being built.
        let depth = |text: &str, [open, close]: [char; 2]| {
            text.matches(open).count() as i64 - text.matches(close).count() as i64
        };
        for mutant in &all {
            for change in &mutant.changes {
                for pair in [['(', ')'], ['{', '}'], ['[', ']']] {
                    let depths = [&change.old, &change.new].map(|text| depth(text, pair));
                    assert_eq!(depths, [0, 0], "{}: {pair:?}", mutant.full_name());
                }
                for text in [&change.old, &change.new] {
                    let begins =
                        ["if ", "while ", "match ", "for "].iter().any(|word| text.starts_with(word));
                    let whole = text.trim_end().ends_with(['}', ';']);
                    assert!(!begins || whole, "{}: a head without its block: {text}", mutant.full_name());
                    // A name of a statement would end with the branch around it.
                    let names = text.starts_with("let ") && !text.starts_with("let _ ");
                    assert!(!names, "{}: a name for what follows: {text}", mutant.full_name());
                }
            }
        }
    }

    /// Returns the tests of the sources in a folder, by the paths of their modules; `within` for
    /// those of a crate's own `tests` modules.
    fn tests_in(folder: &Path, module: &str, within: bool) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let stem = name.trim_end_matches(".rs");
            let inner = match stem {
                "lib" | "main" | "mod" => module.to_owned(),
                stem => format!("{module}{stem}::"),
            };
            if path.is_dir() {
                all.extend(tests_in(&path, &inner, within));
                continue;
            }
            let text = read(&path).unwrap_or_default();
            let inner = if within && stem != "tests" { format!("{inner}tests::") } else { inner };
            for part in text.split("#[test]").skip(1) {
                let name = part.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                all.extend(name.map(|name| format!("{inner}{name}")));
            }
        }
        all
    }

    /// A suite without a test kills nothing: its mutants are not judged.
    #[test]
    fn every_list_names_tests_that_exist() {
        let root = crate::root().join("crates");
        let mut suites: Vec<Suite> = lists(&crate::root()).unwrap().into_iter().flat_map(|m| m.by).collect();
        suites.sort();
        suites.dedup();
        for suite in suites {
            let tests = match suite.program.split_once('/') {
                Some((krate, _)) => tests_in(&root.join(krate).join("tests/it"), "", false),
                None => tests_in(&root.join(&suite.program).join("src"), "", true),
            };
            for filter in &suite.filters {
                assert!(
                    tests.iter().any(|test| test.contains(filter)),
                    "{}: no test {filter}",
                    suite.program
                );
            }
        }
    }

    #[test]
    fn a_survivor_without_a_reason_and_a_reason_without_a_survivor_are_refused() {
        let text = "file core/src/a.rs\n- one\nold a\nnew b\n- two\nold c\nnew d\nequivalent it is\n";
        let all = list::parse("x", text).unwrap();
        let close = |one: Verdict, two: Verdict| close(&all, &BTreeMap::from([(0, Ok(one)), (1, Ok(two))]));
        let killed = || Verdict::Killed("t".into());
        assert_eq!(close(killed(), Verdict::Survived), Ok(()));
        assert_eq!(close(Verdict::Survived, Verdict::Survived), Err("x/one survives".into()));
        assert_eq!(
            close(Verdict::Hung("t".into()), killed()),
            Err("x/two is named equivalent and is killed".into())
        );
    }
}
