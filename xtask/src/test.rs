//! Runs every test of the workspace and closes with one line that counts them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// `cargo test` over the workspace, then the models of what threads share; prints its progress, each reason for a skipped
/// test, and the sum. With arguments, only the tests of the workspace that they choose.
pub fn run(extra: &[&str]) -> Result<(), String> {
    let mut sum = Sum::default();
    cargo(&["--workspace", "--no-fail-fast"], extra, &[], &mut sum)?;
    if extra.is_empty() {
        // A directory of its own: other flags would have everything built anew each time.
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default() + " --cfg loom";
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into()) + "/loom";
        let env = [("RUSTFLAGS", flags.as_str()), ("CARGO_TARGET_DIR", &target)];
        for (package, models) in [("txweir-core", "loom_lease"), ("txweir-handoff", "loom_handoff")] {
            cargo(&["--package", package, "--test", models], &[], &env, &mut sum)?;
        }
    }
    for reason in &sum.skipped {
        println!("{reason}");
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    match sum.failed {
        0 if sum.passed > 0 => Ok(()),
        0 => Err("no test ran".into()),
        _ => Err("tests failed".into()),
    }
}

/// Runs `cargo test` and adds its results to the sum.
fn cargo(args: &[&str], extra: &[&str], env: &[(&str, &str)], sum: &mut Sum) -> Result<(), String> {
    let before = sum.failed;
    let mut child = Command::new("cargo")
        .args(["test", "--locked"])
        .args(args)
        .args(extra)
        .args(["--", "--show-output"])
        .envs(env.iter().copied())
        .current_dir(crate::root())
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
        // Something did not build, or a test binary died: no count of its tests was printed.
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
