//! A script's run against a machine in memory: the commands that it calls are stand-ins, which ask
//! this process for an answer.
//!
//! Three processes of this program are between `check` and the script. The *stage* makes
//! namespaces, in which all files are read-only, or writable on a copy that nobody keeps. The
//! *init* is the first process of the new process numbers, so that the kernel ends all others with
//! it. A *stand-in* is a command such as tc: its name is the first word of its command line.

mod message;
mod mounts;
mod stage;
mod stand_in;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use txweir::device::{Signal, Signals};
use txweir::lint::machine::{Machine, PROGRAMS};
use txweir::lint::recording::Recording;
use txweir::tc::Severity;

use crate::Failure;
use message::Message;

/// The variable of the environment by which the processes of a run find its directory.
const DIRECTORY: &str = "TXWEIR_RUN";
/// The variable with the network namespace of `ip netns exec`.
const NETNS: &str = "TXWEIR_NETNS";
/// The variable in which bash keeps the place of a command.
const PLACE: &str = "TXWEIR_AT";

/// The names of the processes that are no stand-ins.
const STAGE: &str = "txweir-stage";
const INIT: &str = "txweir-init";

/// The programs that run the rest of their command line.
const SUDO: [&str; 2] = ["sudo", "doas"];

/// Longest time between two looks at the stage.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Longest time that a stand-in may take to send its call, or to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The line that bash reads before a script, by which a command knows its place: it is one line, so
/// that `LINENO` is that of the command. The number of the process tells a command of this shell
/// from one of a program that the shell started.
const BASH_ENV: &str = concat!(
    "set -T; trap 'export TXWEIR_AT=\"$BASHPID ${BASH_SOURCE[0]-}:$LINENO",
    "${FUNCNAME[0]:+, in ${FUNCNAME[0]}, called from line ${BASH_LINENO[0]}}\"' DEBUG\n",
);

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest time.
    pub time: Duration,
    /// Most calls of commands.
    pub calls: usize,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The script's exit status; 128 and the signal's number for one that a signal ended.
    Status(i32),
    /// The limit that the script passed.
    Stopped(String),
}

impl End {
    /// Returns the script's exit status, if it ended by itself.
    pub const fn status(&self) -> Option<i32> {
        match self {
            Self::Status(status) => Some(*status),
            Self::Stopped(_) => None,
        }
    }

    /// Returns the way in which the script failed, if it did.
    pub fn problem(&self) -> Option<(Severity, String)> {
        match self {
            Self::Status(0) => None,
            Self::Status(status) => {
                Some((Severity::Warning, format!("the script failed with exit status {status}")))
            }
            Self::Stopped(limit) => Some((
                Severity::Error,
                format!("the script was stopped: {limit}; later lines were not checked"),
            )),
        }
    }
}

/// Runs a command line; `recording` answers its calls. Returns its end, and the parts of its
/// enclosure that this system does not have.
///
/// # Errors
/// One line: the system does not allow the enclosure, with what to do, or there is no such script.
pub fn run(
    words: &[String],
    limits: Limits,
    recording: &mut Recording,
) -> Result<(End, Vec<String>), Failure> {
    let directory = Directory::new().map_err(|e| Failure::failed(format!("--run: make a directory: {e}")))?;
    directory.show(recording.machine());
    let refused = |e: io::Error| Failure::failed(format!("--run: {e}"));
    let listener = UnixListener::bind(directory.0.join("socket")).map_err(refused)?;
    // A stand-in may be gone between the poll and the call.
    listener.set_nonblocking(true).map_err(refused)?;
    let mut stage = start(words, &directory.0).map_err(refused)?;
    // The stage and the script keep the signals' action, so this comes after their start.
    let signals =
        Signals::take_these(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup]).map_err(refused)?;
    let mut run = Serving { recording, directory: &directory, signals, notes: Vec::new(), end: None };
    let end = run.serve(&listener, &mut stage, limits);
    let _ = stage.kill();
    let _ = stage.wait();
    let notes = run.notes;
    end.map(|end| (end, notes))
}

/// Starts the stage. Its output goes to stderr: stdout has the findings.
fn start(words: &[String], directory: &Path) -> io::Result<Child> {
    let out = io::stderr().as_fd().try_clone_to_owned()?;
    Command::new(std::env::current_exe()?)
        .arg0(STAGE)
        .args(words)
        .env(DIRECTORY, directory)
        .env_remove(NETNS)
        .stdin(Stdio::null())
        .stdout(out)
        .spawn()
}

/// The side of a run that answers.
struct Serving<'a> {
    recording: &'a mut Recording,
    directory: &'a Directory,
    signals: Signals,
    notes: Vec<String>,
    end: Option<Result<i32, String>>,
}

impl Serving<'_> {
    fn serve(&mut self, listener: &UnixListener, stage: &mut Child, limits: Limits) -> Result<End, Failure> {
        let until = Instant::now() + limits.time;
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&GLANCE)).unwrap_or(0) > 0;
            if ready && let Ok((stream, _)) = listener.accept() {
                // A stand-in that was killed half-way has no call.
                let _ = self.answer(stream);
            }
            match self.end.take() {
                Some(Ok(status)) => return Ok(End::Status(status)),
                Some(Err(said)) => return Err(Failure::usage(format!("--run: {said}"))),
                None => {}
            }
            if self.recording.calls() > limits.calls {
                return Ok(End::Stopped(format!("more than {} calls", limits.calls)));
            }
            if let Ok(Some(signal)) = self.signals.pending() {
                return Ok(End::Stopped(signal.name().to_string()));
            }
            if Instant::now() > until {
                return Ok(End::Stopped(format!("more than {:?}", limits.time)));
            }
            // The stage tells the end itself, unless it is killed.
            if !ready && matches!(stage.try_wait(), Ok(Some(_)) | Err(_)) {
                return Ok(End::Stopped("the end of its enclosure".into()));
            }
        }
    }

    fn answer(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match message::receive(&stream)? {
            Message::Call(call) => {
                let outcome = self.recording.call(&call);
                if call.program != "tc" {
                    self.directory.show(self.recording.machine());
                }
                message::answer(&stream, &outcome)?;
            }
            Message::Note(text) => self.notes.push(text),
            Message::Ended(status) => self.end = Some(Ok(status)),
            Message::Failed(text) => self.end = Some(Err(text)),
        }
        Ok(())
    }
}

/// The directory of a run: the socket, the stand-ins, and the devices as `/sys/class/net` has them.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let made = (0..100).find_map(|n| {
            let name = format!("txweir-run-{}-{n}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::DirBuilder::new().mode(0o700).create(&path).ok().map(|()| Self(path))
        });
        let made =
            made.ok_or_else(|| io::Error::other("no name is free in the directory for temporary files"))?;
        for part in ["bin", "net", "upper"] {
            fs::create_dir(made.0.join(part))?;
        }
        let program = std::env::current_exe()?;
        for name in PROGRAMS.into_iter().chain(SUDO) {
            symlink(&program, made.0.join("bin").join(name))?;
        }
        fs::write(made.0.join("bash_env"), BASH_ENV)?;
        Ok(made)
    }

    /// Writes the devices of a machine as `/sys/class/net` has them. A file that cannot be written
    /// is missing for the script.
    fn show(&self, machine: &Machine) {
        let net = self.0.join("net");
        let names: Vec<&str> = machine.devices().map(|nic| nic.name.as_str()).collect();
        for entry in fs::read_dir(&net).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_none_or(|name| !names.contains(&name)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        for nic in machine.devices() {
            let at = net.join(&nic.name);
            for queue in 0..nic.queues {
                let _ = fs::create_dir_all(at.join(format!("queues/tx-{queue}")));
                let _ = fs::create_dir_all(at.join(format!("queues/rx-{queue}")));
            }
            let speed = nic.rate.map_or(1000, |rate| rate.bits() / 1_000_000);
            for (file, text) in [
                ("address", nic.mac()),
                ("carrier", u32::from(nic.up).to_string()),
                ("ifindex", nic.index.to_string()),
                ("mtu", nic.mtu.to_string()),
                ("operstate", if nic.up { "up" } else { "down" }.into()),
                ("speed", speed.to_string()),
                ("tx_queue_len", nic.txqueuelen.to_string()),
                ("type", if nic.name == "lo" { "772" } else { "1" }.into()),
            ] {
                let text = text + "\n";
                if fs::read_to_string(at.join(file)).is_ok_and(|there| there == text) {
                    continue;
                }
                let _ = fs::write(at.join(file), text);
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs this process as a part of a run, if its name and its environment say so.
pub fn as_part_of_a_run() -> Option<ExitCode> {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = words.next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_string();
    if !PROGRAMS.contains(&name.as_str()) && !SUDO.contains(&name.as_str()) && name != STAGE && name != INIT {
        return None;
    }
    let directory = directory()?;
    let words: Vec<String> = words.collect();
    Some(match name.as_str() {
        STAGE => stage::stage(&directory, &words),
        INIT => stage::init(&directory, &words),
        _ if SUDO.contains(&name.as_str()) => stand_in::sudo(&words),
        _ => stand_in::main(&directory, &name, words),
    })
}

/// Returns the directory of the run that this process is a part of: from its environment, or from
/// that of the first process, for a script that clears the environment.
fn directory() -> Option<PathBuf> {
    let own = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let of_init = || {
        let all = fs::read("/proc/1/environ").ok()?;
        let prefix = format!("{DIRECTORY}=");
        let mut all = all.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        all.find_map(|entry| entry.strip_prefix(prefix.as_str())).map(PathBuf::from)
    };
    own.or_else(of_init).filter(|directory| directory.join("socket").exists())
}
