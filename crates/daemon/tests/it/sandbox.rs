//! The filter of system calls. A process cannot take it off, so that each test starts this program
//! again for one test, and that process makes the calls.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use txweir_daemon::{Forbidden, Sandbox, SandboxError};

/// The variable by which a test knows that it runs in a process of its own, with the effect of
/// forbidden calls.
const VARIABLE: &str = "TXWEIR_TEST_SANDBOX";

/// Runs the test of the calls in a process of its own.
fn child(forbidden: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let test = "sandbox::calls_beyond_those_of_a_daemon_fail_in_every_thread";
    command.args(["--exact", test, "--nocapture"]);
    command.env(VARIABLE, forbidden).output().expect("run")
}

/// Starts a program, and waits for it.
fn start() -> Result<(), ErrorKind> {
    Command::new("true").status().map(drop).map_err(|e| e.kind())
}

/// Runs calls that the filter refuses, and calls that it admits. Each refused call is one that
/// succeeds before.
fn make_calls(forbidden: Forbidden) {
    let made = std::env::temp_dir().join(format!("txw-sandbox-{}", std::process::id()));
    let there = File::create(&made).map(drop);
    let removed = std::fs::remove_file(&made);
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let connected = || udp.connect((Ipv4Addr::LOCALHOST, 9)).map_err(|e| e.kind());
    assert_eq!((start(), there.is_ok(), removed.is_ok(), connected()), (Ok(()), true, true, Ok(())));
    // This thread is there before the filter.
    let (go, wait) = mpsc::channel();
    let older = thread::spawn(move || {
        wait.recv().expect("the word to go");
        start()
    });
    // The test runner has threads of its own.
    let refused = Sandbox::default().enter().expect_err("more than one thread");
    assert!(matches!(refused, SandboxError::Threads(2..)), "{refused}");
    let sandbox = Sandbox { forbidden, ..Sandbox::default() };
    if !sandbox.filter_calls().expect("a filter") {
        return println!("skipped, because there is no filter for this processor");
    }
    println!("filtered");
    // Admitted calls come first: with `kill` the process does not survive the others.
    let newer = thread::Builder::new().name("newer".into()).spawn(|| File::open("/proc/self/status"));
    newer.expect("a thread").join().expect("no panic").expect("a file that is there");
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket for questions");
    if membarrier_query().contains_command(MembarrierCommand::Global) {
        membarrier(MembarrierCommand::Global).expect("membarrier");
    }
    println!("admitted");
    go.send(()).expect("the older thread");
    let denied = Err(ErrorKind::PermissionDenied);
    assert_eq!(older.join().expect("no panic"), denied, "a thread that was there before");
    assert_eq!(thread::spawn(start).join().expect("no panic"), denied, "a thread that came later");
    assert_eq!(File::create(&made).map(drop).map_err(|e| e.kind()), denied);
    assert_eq!(connected(), denied);
    assert_eq!(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop).map_err(|e| e.kind()), denied);
    println!("refused");
}

#[test]
fn calls_beyond_those_of_a_daemon_fail_in_every_thread() {
    match std::env::var_os(VARIABLE) {
        Some(kill) if kill == "kill" => return make_calls(Forbidden::Kills),
        Some(_) => return make_calls(Forbidden::Fails),
        None => {}
    }
    let run = child("fail");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    // With one thread of tests, the test's name is before the first word.
    let last = said.lines().filter_map(|line| line.split(' ').next_back());
    let words: Vec<&str> = last.filter(|word| ["filtered", "admitted", "refused"].contains(word)).collect();
    assert!(said.contains("skipped") || words == ["filtered", "admitted", "refused"], "{said}");
}

#[test]
fn a_process_that_asked_for_it_is_killed_by_such_a_call() {
    let run = child("kill");
    let said = String::from_utf8_lossy(&run.stdout);
    if said.contains("skipped") {
        return;
    }
    // SIGSYS (signal(7)).
    assert_eq!(run.status.signal(), Some(31), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("admitted") && !said.contains("refused"), "{said}");
}
