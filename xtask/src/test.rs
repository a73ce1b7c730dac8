//! Runs every test of the workspace and closes with one line that counts them.

use crate::planted::{Copy, SUITES};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Runs `cargo test` over the workspace, then the models of shared state, then the bugs that the
/// models must find. Prints its progress, each reason for a skipped test, and the sum. With
/// arguments, runs only the tests of the workspace that they choose.
pub fn run(extra: &[&str]) -> Result<(), String> {
    let mut sum = Sum::default();
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--workspace", "--no-fail-fast", "--features", "txweir/handoff"])
        .args(extra)
        .current_dir(crate::root());
    cargo(command, &mut sum)?;
    if extra.is_empty() {
        models(&mut sum)?;
    }
    sum.close()
}

/// Runs the models alone, and with each bug, and prints the sum.
pub fn only_models() -> Result<(), String> {
    let mut sum = Sum::default();
    models(&mut sum)?;
    sum.close()
}

/// Runs the models of each crate that has some, over a copy of it, as it is and with each bug.
fn models(sum: &mut Sum) -> Result<(), String> {
    for suite in SUITES {
        let copy = Copy::make(suite, &crate::root())?;
        cargo(copy.command(), sum)?;
        copy.find(&mut |line, found| {
            println!("{line}");
            match found {
                true => sum.passed += 1,
                false => sum.failed += 1,
            }
        });
    }
    Ok(())
}

/// Runs `cargo test` and adds its results to the sum.
fn cargo(mut command: Command, sum: &mut Sum) -> Result<(), String> {
    let before = sum.failed;
    let mut child = command
        .args(["--", "--show-output"])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo: {e}"))?;
    let stdout = child.stdout.take().ok_or("cargo: no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("cargo: {e}"))?;
        if sum.take(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("cargo: {e}"))?;
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
