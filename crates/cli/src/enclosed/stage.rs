//! The processes between `check` and a script: the stage, which makes the enclosure, and the init,
//! the first process in it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal, setsid, wait};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::message::{Message, tell};
use super::{INIT, mounts};

/// Directories of commands that a user's PATH may lack.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes the namespaces and the mounts, and runs the init in them.
pub fn stage(directory: &Path, words: &[String]) -> ExitCode {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if let Err(said) = enclosed(directory, words) {
        tell(directory, &Message::Failed(said));
    }
    ExitCode::SUCCESS
}

fn enclosed(directory: &Path, words: &[String]) -> Result<(), String> {
    let refused = |e: io::Error, step: &str| {
        format!(
            "the system does not allow to {step} ({e}); as root: sysctl -w kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000, as far as the system \
             has these; in a container: allow unshare(2) and mount(2); or read the script without a run: \
             txweir check SCRIPT"
        )
    };
    let cwd = std::env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
    let here = Path::new(words.first().map_or("", String::as_str));
    let script = fs::canonicalize(here).unwrap_or_else(|_| here.into());
    txweir::device::enclose().map_err(|(e, step)| refused(e, step))?;
    let notes = mounts::make(directory, &cwd, &script).map_err(|e| refused(e, "make files read-only"))?;
    notes.into_iter().for_each(|note| tell(directory, &Message::Note(note)));
    std::env::set_current_dir(&cwd).map_err(|e| format!("the current directory: {e}"))?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let done = Command::new(program).arg0(INIT).args(words).status();
    done.map(drop).map_err(|e| refused(e, "start a process in a namespace"))
}

/// Runs the script and tells its exit status. All processes end with this one.
pub fn init(directory: &Path, words: &[String]) -> ExitCode {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    mounts::processes(directory);
    match started(directory, words) {
        Ok(status) => tell(directory, &Message::Ended(status)),
        Err(said) => tell(directory, &Message::Failed(said)),
    }
    ExitCode::SUCCESS
}

fn started(directory: &Path, words: &[String]) -> Result<i32, String> {
    let (script, args) = words.split_first().ok_or("expected a script")?;
    give_up_privileges();
    // The terminal takes no input from the script.
    let _ = setsid();
    let own = directory.join("bin").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = command(script).map_err(|e| format!("{script}: {e}"))?;
    command.args(args).env("PATH", format!("{own}:{path}:{SYSTEM_PATH}"));
    command.env("BASH_ENV", directory.join("bash_env"));
    let child = match command.spawn() {
        // A text without an interpreter is the shell's.
        Err(e) if Errno::from_io_error(&e) == Some(Errno::NOEXEC) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(script).args(args).envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
            shell.spawn()
        }
        done => done,
    };
    let child = child.map_err(|e| format!("{script}: {e}"))?;
    // Processes that the script leaves behind are this one's children.
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == child.id() => {
                let status = ExitStatus::from_raw(status.as_raw());
                let of_signal = || status.signal().map_or(255, |signal| 128 + signal);
                return Ok(status.code().unwrap_or_else(of_signal));
            }
            Err(Errno::CHILD) => return Ok(255),
            _ => {}
        }
    }
}

/// Returns the command of a script: itself, or the interpreter of its first line for a file that
/// may not be executed.
fn command(script: &str) -> io::Result<Command> {
    let path = PathBuf::from(script);
    let Ok(about) = fs::metadata(&path) else {
        // A name without a slash is a program's.
        let program = !script.contains('/');
        return if program { Ok(Command::new(script)) } else { Err(io::ErrorKind::NotFound.into()) };
    };
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let path = fs::canonicalize(path)?;
    if about.permissions().mode() & 0o111 != 0 {
        return Ok(Command::new(path));
    }
    let mut first = Vec::new();
    fs::File::open(&path)?.take(256).read_to_end(&mut first)?;
    let first = String::from_utf8_lossy(&first).into_owned();
    let line = first.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or("/bin/sh");
    let (interpreter, word) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let mut command = Command::new(interpreter);
    command.args(Some(word.trim()).filter(|word| !word.is_empty())).arg(path);
    Ok(command)
}

/// Gives up the privileges that this process has in its own namespaces, for all that it starts: it
/// remains root by number, and cannot undo the enclosure.
fn give_up_privileges() {
    for capability in CapabilitySet::all().iter() {
        // The kernel may have fewer of them.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = set_no_new_privs(true);
    let none = CapabilitySet::empty();
    let _ = set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none });
}
