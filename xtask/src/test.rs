//! Runs every test of the workspace and closes with one line that counts them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// `cargo test` over the workspace; prints its progress, each reason for a skipped test, and the sum.
pub fn run(extra: &[&str]) -> Result<(), String> {
    let mut child = Command::new("cargo")
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .args(extra)
        .args(["--", "--show-output"])
        .current_dir(crate::root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo: {e}"))?;
    let stdout = child.stdout.take().ok_or("cargo: no output")?;
    let mut sum = Sum::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("cargo: {e}"))?;
        if sum.take(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("cargo: {e}"))?;
    for reason in &sum.skipped {
        println!("{reason}");
    }
    if !status.success() && sum.failed == 0 {
        // Something did not build, or a test binary died: no count of its tests was printed.
        sum.failed += 1;
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    match sum.failed {
        0 if sum.passed > 0 => Ok(()),
        0 => Err("no test ran".into()),
        _ => Err("tests failed".into()),
    }
}

#[derive(Default)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    in_successes: bool,
}

impl Sum {
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
            // What passing tests printed is kept for the reasons above only.
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
