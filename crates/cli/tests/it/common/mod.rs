//! The helpers that the tests of `txweir run` share: the program, as a process that does not
//! outlive its test, and a client and a server in network namespaces of their own with the program
//! between them.

pub mod machine;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use txweir::core::text::stats::Counters as _;
use txweir::runtime::Ledger;
use txweir_device::testnet::NetNs;

/// A time longer than any single step takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the reason and ends the test if namespaces cannot be made.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = txweir_device::testnet::skip_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}
pub(crate) use skip_unless_possible;

/// Returns the reference kernel, or ends the test with the reason.
macro_rules! kernel_or_skip {
    () => {
        match crate::common::kernel() {
            Ok(kernel) => kernel,
            Err(reason) => {
                println!("skipped, because {reason}");
                return;
            }
        }
    };
}
pub(crate) use kernel_or_skip;

/// Returns the reference kernel; the reason if there is none.
pub fn kernel() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = Command::new(root.join("oracle/build")).arg("--path").output();
    let said = said.map_err(|error| format!("oracle/build cannot be run: {error}"))?;
    let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    match path.is_file() {
        true => Ok(path),
        false => Err("there is no reference kernel (oracle/build makes it)".to_owned()),
    }
}

/// Returns the number at a place of a report.
pub fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

/// Returns the frames of a report by their fate or place: the numbers below `pointer`.
pub fn ledger(value: &Value, pointer: &str) -> Ledger {
    let mut keys = Ledger::TABLE.iter();
    let next = || keys.next().map_or(0, |counter| number(value, &format!("{pointer}/{}", counter.key)));
    Ledger::read(&mut { next })
}

/// Makes a `txweir run` command with these arguments.
pub fn txweir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.arg("run").args(args);
    command
}

/// A process that does not outlive its test.
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

/// A running `txweir run`.
pub struct Running {
    process: Process,
    stdout: BufReader<ChildStdout>,
    /// The line by which it said that it forwards.
    pub ready: String,
}

impl Running {
    /// Starts it in the namespace `middle` and waits until it forwards.
    pub fn start(middle: &NetNs, args: &[&str]) -> Self {
        // A system call that is forbidden by mistake kills it.
        let program = [&[env!("CARGO_BIN_EXE_txweir"), "run", "--seccomp", "kill"], args].concat();
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

    /// Ends it by SIGTERM. Returns its last line, read as JSON.
    pub fn stop(self) -> Value {
        self.signal(Signal::TERM);
        let (code, out, err) = self.end();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        serde_json::from_str(out.lines().last().expect("an end")).expect("JSON")
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
        // With several at a time, the kernel takes long to close their devices where the machine is
        // busy.
        let (code, _, err) = self.process.end_within(6 * PATIENCE);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let out = self.reader.join().expect("its output");
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Client, middle and server. The outer two have a TAP device each, which a program in the middle
/// opens.
pub struct Net {
    pub client: NetNs,
    pub middle: NetNs,
    pub server: NetNs,
    pub input: String,
    pub output: String,
}

impl Net {
    /// Creates the hosts with TAP devices.
    pub fn with_taps() -> Self {
        let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
        for (netns, address) in [(&client, "10.77.0.1/24"), (&server, "10.77.0.2/24")] {
            netns.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
            netns.up("tap0", address);
        }
        let [input, output] = [&client, &server].map(|netns| format!("{}/tap0", netns.name()));
        Self { client, middle, server, input, output }
    }

    /// Creates the hosts with a veth pair on each side, whose inner ends packet sockets open.
    pub fn with_veths() -> Self {
        let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
        for (netns, address, inner) in [(&client, "10.77.0.1/24", "left"), (&server, "10.77.0.2/24", "right")]
        {
            netns.veth("eth0", &middle, inner);
            netns.up("eth0", address);
            middle.run(&["ip", "link", "set", "dev", inner, "up"]);
            netns.wait_for_carrier("eth0");
            middle.wait_for_carrier(inner);
        }
        Self { client, middle, server, input: "left".to_owned(), output: "packet:right".to_owned() }
    }

    /// Starts `txweir run` between the two.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(&self.middle, &[&["--in", &self.input, "--out", &self.output], args].concat())
    }

    /// Carries `bytes` from client to server by the kernel's TCP and checks their number.
    pub fn carry(&self, bytes: u64) {
        let server = address(5201);
        let sink = self.server.tcp_sink(server);
        assert_eq!(self.client.tcp_source(server, bytes).join().expect("the source"), bytes);
        assert_eq!(sink.join().expect("the sink"), bytes);
    }
}

/// Returns the server's address at this port.
pub fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, 2], port))
}

/// A file that is removed with the test.
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
