//! `txweir run` or `txweir daemon` as a process that does not outlive its measurement.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use txweir_device::testnet::NetNs;

use super::PATIENCE;

/// A process that does not outlive its measurement.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts the process, with all its output piped.
    pub fn spawn(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Waits for its next line of output, of which nothing else is read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let mut stdout = BufReader::new(self.0.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("text");
        self.0.stdout = Some(stdout.into_inner());
        line
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("a process id"), signal).expect("signal it");
    }

    /// Waits for its end. Returns the exit code, the rest of its output, its errors.
    pub fn end(self) -> (Option<i32>, String, String) {
        self.end_within(PATIENCE)
    }

    /// Does the same, with another patience.
    pub fn end_within(mut self, patience: Duration) -> (Option<i32>, String, String) {
        let give_up = Instant::now() + patience;
        while self.0.try_wait().expect("wait").is_none() {
            assert!(Instant::now() < give_up, "the process does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut out).expect("text");
        }
        self.0.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        (self.0.wait().expect("wait").code(), out, err)
    }
}

/// Returns the command of a program that ends with the thread that starts it, also when a signal
/// kills the process of that thread and no destructor runs. Where util-linux has no such `setpriv`,
/// it is the plain command, whose process may go on then.
pub fn bound(program: &Path) -> Command {
    let words = ["--pdeathsig", "KILL", "--"];
    let tried = Command::new("setpriv").args(words).arg("true").output();
    if !tried.is_ok_and(|out| out.status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(words).arg(program);
    command
}

/// Returns the words by which a system call that is forbidden by mistake kills the program, where
/// the kernel has filters; those that start it without, where it has none.
pub fn confined() -> &'static [&'static str] {
    match Path::new("/proc/sys/kernel/seccomp").exists() {
        true => &["--seccomp", "kill"],
        false => &["--no-sandbox"],
    }
}

/// A running `txweir run`.
pub struct Running {
    process: Process,
    stdout: BufReader<ChildStdout>,
    /// The line by which it said that it forwards.
    pub ready: String,
}

impl Running {
    /// Starts the program, a `txweir`, in the namespace `middle` and waits until it forwards.
    pub fn start(program: &str, middle: &NetNs, args: &[&str]) -> Self {
        let program = [&[program, "run"], confined(), args].concat();
        let mut process = Process::spawn(&mut middle.command(&program));
        let mut stdout = BufReader::new(process.0.stdout.take().expect("piped"));
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("text");
        if ready.is_empty() {
            panic!("{args:?}: {:?}", process.end());
        }
        Self { process, stdout, ready }
    }

    /// Returns its process.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its next line. Returns it, read as JSON.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Waits for its end. Returns the exit code, its output after the ready line, its errors.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.stdout.read_to_string(&mut out).expect("text");
        let (code, _, err) = self.process.end();
        (code, out, err)
    }

    /// Reads its output on a thread: the process stops while the pipe is full.
    pub fn follow(mut self) -> Followed {
        let reader = std::thread::spawn(move || {
            let mut out = String::new();
            self.stdout.read_to_string(&mut out).expect("text");
            out
        });
        Followed { process: self.process, reader }
    }

    /// Ends it by SIGTERM. Returns its last line, read as JSON. It has said nothing else.
    pub fn stop(self) -> Value {
        let (end, err) = self.stop_and_hear();
        assert_eq!(err, "");
        end
    }

    /// Ends it by SIGTERM. Returns its last line, read as JSON, and its messages.
    pub(crate) fn stop_and_hear(self) -> (Value, String) {
        self.signal(Signal::TERM);
        let (code, out, err) = self.end();
        assert_eq!(code, Some(0), "{err}");
        (serde_json::from_str(out.lines().last().expect("an end")).expect("JSON"), err)
    }
}

/// A running `txweir run` whose output is read while it runs.
pub struct Followed {
    process: Process,
    reader: std::thread::JoinHandle<String>,
}

impl Followed {
    /// Ends it by SIGTERM. Returns each line since the first, read as JSON.
    pub fn stop(self) -> Vec<Value> {
        self.process.signal(Signal::TERM);
        let (code, _, err) = self.process.end();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let out = self.reader.join().expect("its output");
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// A file that is removed when it is dropped.
pub struct Temp(pub PathBuf);

impl Temp {
    /// Creates a file of this text.
    pub fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("txw-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("write a temporary file");
        Self(path)
    }
    /// Returns its path.
    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the median of values that can all be compared.
pub fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
    values[values.len() / 2]
}
