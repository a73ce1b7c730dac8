//! Runs every test of the workspace and closes with one line that counts them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::models::{Copy, SUITES};
use crate::programs::TestProgram;

/// Settings of glibc's allocator (mallopt(3)): it keeps large blocks that are freed, up to these
/// bytes, and every thread takes its blocks from the one heap that can grow so far. Tests make and
/// free the tables of a qdisc thousands of times, and a new mapping for each costs ten times as
/// much.
const KEEP_BLOCKS: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
    ("MALLOC_TRIM_THRESHOLD_", "4294967296"),
    ("MALLOC_ARENA_MAX", "1"),
];

/// Settings of a build from nothing, which takes a fourth less with them: no cache for changes, few
/// units for the compiler, no table of lines. Cargo builds everything again when they change, so a
/// folder in which somebody works keeps its own.
const FROM_NOTHING: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_TEST_CODEGEN_UNITS", "4"),
    ("CARGO_PROFILE_TEST_DEBUG", "0"),
];

/// The file in cargo's folder that says that the workspace was built there with [`FROM_NOTHING`].
const MARK: &str = "from-nothing";

/// The packages whose tests begin first: their tests take longest, and those of `cli` mostly wait.
const FIRST: [&str; 2] = ["cli", "lab"];

/// A part of the run.
enum Job {
    /// The models of shared state, as they are and with the bugs that they must find.
    Models,
    Program(TestProgram),
    /// The examples in the documentation.
    Docs,
}

/// Runs the tests of the workspace and the models of shared state, two programs at a time: many
/// tests wait. Prints the results of each program at its end, each reason for a skipped test, and
/// the sum. With arguments, runs only the tests of the workspace that they choose.
pub fn run(extra: &[&str]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let from_nothing = is_from_nothing(&crate::root().join(target).join("debug"));
    let workspace = |more: &[&str]| {
        let mut command = crate::cargo();
        command
            .args(["test", "--locked", "--workspace", "--no-fail-fast", "--features", "txweir/handoff"])
            .args(more)
            .envs(KEEP_BLOCKS)
            .current_dir(crate::root());
        if from_nothing {
            command.envs(FROM_NOTHING);
        }
        command
    };
    let mut sum = Sum::default();
    if !extra.is_empty() {
        read(workspace(extra).args(["--", "--show-output"]), &mut sum, &mut print)?;
        return sum.close();
    }
    let built = workspace(&["--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !built.status.success() {
        sum.failed += 1;
        return sum.close();
    }
    let mut programs = TestProgram::all(&String::from_utf8_lossy(&built.stdout));
    let place = |program: &TestProgram| FIRST.iter().position(|first| program.package() == *first);
    programs.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    let mut jobs = vec![Job::Models];
    jobs.extend(programs.into_iter().map(Job::Program));
    jobs.push(Job::Docs);
    let (next, sum, since) = (AtomicUsize::new(0), Mutex::new(sum), Instant::now());
    std::thread::scope(|scope| {
        let lane = || -> Result<(), String> {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (mut own, mut lines) = (Sum::default(), Vec::new());
                let mut keep = |line: &str| lines.push(line.to_owned());
                match job {
                    Job::Models => models(&mut own, &mut keep)?,
                    Job::Program(program) => {
                        let kind = if program.beside { "tests beside" } else { "tests within" };
                        keep(&format!("     Running the {kind} {}", program.package()));
                        let mut command = Command::new(&program.file);
                        command.arg("--show-output").envs(KEEP_BLOCKS).current_dir(&program.folder);
                        read(command.env("CARGO_MANIFEST_DIR", &program.folder), &mut own, &mut keep)?;
                    }
                    Job::Docs => {
                        let mut command = workspace(&["--doc", "--", "--show-output"]);
                        read(&mut command, &mut own, &mut keep)?;
                    }
                }
                lines.push(format!("     after {:.0} s", since.elapsed().as_secs_f64()));
                let mut sum = sum.lock().map_err(|e| e.to_string())?;
                lines.iter().for_each(|line| print(line));
                sum.add(own);
            }
            Ok(())
        };
        let other = scope.spawn(lane);
        let ends = [lane(), other.join().map_err(|_| "a lane of tests: a panic")?];
        ends.into_iter().collect::<Result<(), String>>()?;
        sum.lock().map_err(|e| e.to_string())?.close()
    })
}

/// Returns whether the workspace is built with [`FROM_NOTHING`] in this folder of cargo's: the core
/// was never built there, or it was built there with these settings alone. A folder in which
/// somebody works has a cache for changes, and keeps its own settings when the cache is removed.
/// Marks the folder accordingly.
fn is_from_nothing(debug: &Path) -> bool {
    let holds = |folder: &str, prefix: &str, suffix: &str| {
        let names = fs::read_dir(debug.join(folder)).into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with(prefix) && name.ends_with(suffix))
    };
    let mark = debug.join(MARK);
    let has_cache = holds("incremental", "txweir_core-", "");
    let is_built = holds("deps", "libtxweir_core-", ".rlib");
    let from_nothing = !has_cache && (!is_built || mark.exists());
    // Without the mark, the next run would only build with the folder's own settings.
    let _ = match from_nothing {
        true => fs::create_dir_all(debug).and_then(|()| fs::write(&mark, "")),
        false => fs::remove_file(&mark),
    };
    from_nothing
}

fn print(line: &str) {
    println!("{line}");
}

/// Runs the models alone, and with each bug, and prints the sum.
pub fn only_models() -> Result<(), String> {
    let mut sum = Sum::default();
    models(&mut sum, &mut print)?;
    sum.close()
}

/// Runs the models of each crate that has some, over a copy of it, as it is and with each bug.
/// `show` gets the lines of the output.
fn models(sum: &mut Sum, show: &mut dyn FnMut(&str)) -> Result<(), String> {
    for suite in SUITES {
        Copy::make(suite, &crate::root())?.run(&mut |line, good| {
            show(line);
            match good {
                true => sum.passed += 1,
                false => sum.failed += 1,
            }
        });
    }
    Ok(())
}

/// Runs a test program, or cargo, and adds its results to the sum. `show` gets the lines of its
/// output that are to be shown.
fn read(command: &mut Command, sum: &mut Sum, show: &mut dyn FnMut(&str)) -> Result<(), String> {
    let before = sum.failed;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("{name}: {e}"))?;
    let stdout = child.stdout.take().ok_or_else(|| format!("{name}: no output"))?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("{name}: {e}"))?;
        if sum.take(&line) {
            show(&line);
        }
    }
    let status = child.wait().map_err(|e| format!("{name}: {e}"))?;
    if !status.success() && sum.failed == before {
        // A build failed, or a test binary died: no count of its tests was printed.
        sum.failed += 1;
    }
    Ok(())
}

#[derive(Default)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    in_successes: bool,
}

impl Sum {
    /// Adds the results of another sum.
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }

    /// Prints the reasons and the sum. Fails if a test failed, or none ran.
    fn close(&self) -> Result<(), String> {
        for reason in &self.skipped {
            println!("{reason}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        match self.failed {
            0 if self.passed > 0 => Ok(()),
            0 => Err("no test ran".into()),
            _ => Err("tests failed".into()),
        }
    }

    /// Reads a line of output; true if it is to be shown.
    fn take(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            let count = |word: &str| {
                let at = result.find(word)?;
                result[..at].trim_end().rsplit([' ', ';']).next()?.parse().ok()
            };
            self.passed += count("passed").unwrap_or(0);
            self.failed += count("failed").unwrap_or(0);
            return true;
        }
        if line.contains("skipped, because") && !self.skipped.iter().any(|s| s == line) {
            self.skipped.push(line.to_string());
        }
        match line {
            // The output of passing tests is kept for the reasons above only.
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        !self.in_successes && !line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder whose cache for changes was removed is that of somebody who works in it, unless it
    /// was built from nothing before.
    #[test]
    fn what_a_folder_holds_decides_on_the_settings() {
        let folder = std::env::temp_dir().join(format!("txweir-xtask-test-{}", std::process::id()));
        let debug = folder.join("debug");
        let make = |name: &str| {
            let path = debug.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
            fs::write(path, "").expect("make a file");
        };
        assert!(is_from_nothing(&debug), "nothing is there");
        make("deps/libxtask-1.rlib");
        assert!(is_from_nothing(&debug), "the core is not there");
        make("deps/libtxweir_core-1.rlib");
        assert!(is_from_nothing(&debug), "built from nothing");
        make("incremental/txweir_core-1");
        assert!(!is_from_nothing(&debug), "somebody works there");
        fs::remove_dir_all(debug.join("incremental")).expect("remove the cache");
        assert!(!is_from_nothing(&debug), "somebody works there, and has removed the cache");
        fs::remove_dir_all(folder).expect("remove the folder");
    }

    #[test]
    fn counts_results_and_keeps_reasons() {
        let mut sum = Sum::default();
        for line in [
            "test a ... ok",
            "successes:",
            "noise",
            "live: skipped, because not root",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            sum.take(line);
        }
        assert_eq!((sum.passed, sum.failed), (15, 2));
        assert_eq!(sum.skipped, ["live: skipped, because not root"]);
        assert!(sum.take("test b ... ok"));
    }
}
