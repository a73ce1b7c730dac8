//! A run of a test program with one mutant.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that uses no processor for this long waits for an event that does not come.
const BLOCKED: Duration = Duration::from_secs(30);
/// Time between two looks at the program.
const LOOK: Duration = Duration::from_millis(50);

/// A test program and the folder in which cargo runs it.
#[derive(Clone, Debug)]
pub struct Program {
    pub file: PathBuf,
    pub folder: PathBuf,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tests passed: their number, and hundredths of a second of the processor.
    Passed { tests: u64, ticks: u64 },
    /// This test failed, or the program died.
    Failed(String),
    /// It used up its processor time, or none at all for `BLOCKED`.
    Hung,
    /// It could not be started, or not be watched: this says nothing of its tests.
    NotRun(String),
}

impl Program {
    /// Runs the tests with a mutant, 0 for none, for at most `most` hundredths of a second of the
    /// processor.
    pub fn run(&self, filters: &[String], mutant: usize, most: u64, output: &Path) -> Outcome {
        let file = match File::create(output) {
            Ok(file) => file,
            Err(e) => return Outcome::NotRun(format!("{}: {e}", output.display())),
        };
        let child = Command::new(&self.file)
            .args(filters)
            .current_dir(&self.folder)
            .env("TXWEIR_MUTANT", mutant.to_string())
            .env("RUST_TEST_THREADS", "1")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(e) => return Outcome::NotRun(format!("{}: {e}", self.file.display())),
        };
        let (mut used, mut moved) = (0, Instant::now());
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => return Outcome::NotRun(e.to_string()),
            }
            let now = ticks(child.id()).unwrap_or(used);
            if now != used {
                (used, moved) = (now, Instant::now());
            }
            if used > most || moved.elapsed() > BLOCKED {
                let _ = child.kill();
                let _ = child.wait();
                return Outcome::Hung;
            }
            std::thread::sleep(LOOK);
        };
        let text = fs::read(output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        match status.success() {
            true => Outcome::Passed { tests: passed(&text), ticks: used },
            false => Outcome::Failed(failed(&text)),
        }
    }
}

/// Returns the processor time of a process in hundredths of a second: proc(5), fields 14 and 15.
fn ticks(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Returns the number of passed tests.
fn passed(text: &str) -> u64 {
    let rest = text.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next());
    rest.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns the first test that failed, and the number of others; the last one begun if the program
/// died.
fn failed(text: &str) -> String {
    let name =
        |line: &str| line.strip_prefix("test ").and_then(|l| l.split(" ... ").next()).map(String::from);
    let mut all = text.lines().filter(|line| line.starts_with("test ") && line.ends_with("FAILED"));
    match (all.next().and_then(name), all.count()) {
        (Some(first), 0) => first,
        (Some(first), more) => format!("{first} and {more} more"),
        (None, _) => text
            .lines()
            .rev()
            .find_map(name)
            .map_or("the end of the program".into(), |n| format!("{n} (died)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, most: u64) -> Outcome {
        let program = Program { file: "/bin/sh".into(), folder: "/".into() };
        let id = std::process::id();
        let output = std::env::temp_dir().join(format!("txweir-mutant-{id}-{most}-{}", script.len()));
        let outcome = program.run(&["-c".into(), script.into()], 7, most, &output);
        let _ = fs::remove_file(output);
        outcome
    }

    #[test]
    fn a_run_ends_as_its_program_does() {
        assert!(matches!(
            sh("echo 'test result: ok. 12 passed; 0 failed'", 100),
            Outcome::Passed { tests: 12, .. }
        ));
        let script = "test $TXWEIR_MUTANT = 7 && printf 'test a ... ok\\ntest b ... FAILED\\ntest c ... FAILED\\n'; exit 101";
        assert_eq!(sh(script, 100), Outcome::Failed("b and 1 more".into()));
        assert_eq!(
            sh("echo 'test a ... ok'; echo 'test b ... '; exit 134", 100),
            Outcome::Failed("b (died)".into())
        );
        assert_eq!(sh("while :; do :; done", 20), Outcome::Hung);
    }

    #[test]
    fn a_program_that_does_not_start_kills_nothing() {
        let why = |file: &str, output: &Path| {
            let program = Program { file: file.into(), folder: "/".into() };
            match program.run(&[], 7, 100, output) {
                Outcome::NotRun(why) => why,
                other => panic!("{other:?}"),
            }
        };
        let output = std::env::temp_dir().join(format!("txweir-mutant-{}-none", std::process::id()));
        let said = why("/nowhere/program", &output);
        let _ = fs::remove_file(&output);
        assert!(said.starts_with("/nowhere/program: "), "{said}");
        let said = why("/bin/sh", Path::new("/nowhere/output"));
        assert!(said.starts_with("/nowhere/output: "), "{said}");
    }
}
