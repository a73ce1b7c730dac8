//! Programs that a test starts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use txweir_bench::live::process::{Process, bound};

/// In its environment the test below is the process that is killed.
const KILLED: &str = "TXWEIR_TEST_KILLED";

/// True if a process runs: one that has ended and that nobody has waited for is dead.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program stands in parentheses before the state.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// A test that SIGKILL ends leaves no program behind.
#[test]
fn a_bound_program_ends_with_a_killed_test() {
    let mut program = bound(Path::new("sleep"));
    if program.get_program() == "sleep" {
        println!("skipped, because setpriv of util-linux is missing or too old");
        return;
    }
    if std::env::var_os(KILLED).is_some() {
        let child = Process::spawn(program.arg("600"));
        println!("\nstarted {}", child.0.id());
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["processes::a_bound_program_ends_with_a_killed_test", "--exact", "--nocapture"]);
    let mut killed = Process::spawn(command.env(KILLED, "1"));
    let said = BufReader::new(killed.0.stdout.take().expect("piped")).lines();
    let started = said.map_while(Result::ok).find_map(|line| line.strip_prefix("started ").map(String::from));
    let started = started.expect("a process id");
    let give_up = Instant::now() + Duration::from_secs(60);
    // Before it becomes the program, `setpriv` may not have asked for the signal yet.
    while fs::read_to_string(format!("/proc/{started}/comm")).ok().as_deref() != Some("sleep\n") {
        assert!(Instant::now() < give_up && runs(&started), "it does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Its end by `Child::kill` is SIGKILL.
    drop(killed);
    let give_up = Instant::now() + Duration::from_secs(60);
    while runs(&started) {
        assert!(Instant::now() < give_up, "it outlives the test");
        std::thread::sleep(Duration::from_millis(10));
    }
}
