//! The stand-ins: commands that ask the process that runs the script for an answer.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use txweir::lint::machine::Call;
use txweir::tc::tool::Flags;

use super::{NETNS, PLACE, message};
use crate::input;

/// The number of the device `/dev/null`: major 1, minor 3.
const NULL: u64 = 0x103;

/// Runs a stand-in: sends the call, prints the answer, and has its status.
pub fn main(directory: &Path, program: &str, args: Vec<String>) -> ExitCode {
    let inner = (program == "ip").then(|| command_in_namespace(&args)).flatten();
    let input = match reads(program, &args).map(|name| (input::text(Path::new(&name)), name)) {
        None => None,
        Some((Ok((_, text)), _)) => Some(text),
        Some((Err(said), name)) => {
            let said = said.split_once(": ").map_or(said.as_str(), |(_, said)| said);
            complain(&format!("Cannot open file \"{name}\" for reading: {said}\n"));
            return ExitCode::from(1);
        }
    };
    let sent = match inner {
        Some(at) => args[..at].to_vec(),
        None => args.clone(),
    };
    let call = Call {
        program: program.into(),
        args: sent,
        input,
        netns: std::env::var(NETNS).ok(),
        quiet: is_quiet(),
        at: place(),
    };
    let outcome = match message::ask(directory, &call) {
        Ok(outcome) => outcome,
        Err(e) => {
            complain(&format!("{program}: the run of the script has ended: {e}\n"));
            return ExitCode::from(255);
        }
    };
    complain(&outcome.stderr);
    // A reader that closes its pipe early, as `head` does, is no failure.
    let _ = io::stdout().write_all(outcome.stdout.as_bytes()).and_then(|()| io::stdout().flush());
    match inner {
        Some(at) if outcome.status == 0 => {
            execute(Command::new(&args[at]).args(&args[at + 1..]).env(NETNS, &args[at - 1]))
        }
        _ => ExitCode::from(outcome.status),
    }
}

/// Runs the rest of the words of `sudo`: the script is root already.
pub fn sudo(words: &[String]) -> ExitCode {
    let mut rest = words.iter();
    let mut command: Option<&String> = None;
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-u" | "-g" | "-C" | "-h" | "-p" | "-r" | "-t" | "-T" | "-U" | "-D" | "-R" => drop(rest.next()),
            "--" => {}
            option if option.starts_with('-') => {}
            _ => {
                command = Some(word);
                break;
            }
        }
    }
    match command {
        // `sudo NAME=VALUE command` sets a variable first, as env does.
        Some(word) if word.contains('=') => execute(Command::new("env").arg(word).args(rest)),
        Some(word) => execute(Command::new(word).args(rest)),
        None => ExitCode::SUCCESS,
    }
}

/// Becomes another program; returns only if there is none.
fn execute(command: &mut Command) -> ExitCode {
    let error = command.exec();
    complain(&format!("{}: {error}\n", command.get_program().to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Returns the place of the command in `ip netns exec NAME COMMAND`.
fn command_in_namespace(args: &[String]) -> Option<usize> {
    let object = args.iter().position(|a| !a.starts_with('-'))?;
    let [object_word, verb, _, _, ..] = args.get(object..)? else { return None };
    let cut = |word: &str, whole: &str| word.len() > 1 && whole.starts_with(word);
    (cut(object_word, "netns") && cut(verb, "exec")).then_some(object + 3)
}

/// Returns the name of the file that a call reads; `-` is standard input.
fn reads(program: &str, args: &[String]) -> Option<String> {
    let after = |keys: &[&str]| {
        let at = args.iter().position(|a| keys.contains(&a.as_str()))?;
        Some(args.get(at + 1).cloned().unwrap_or_else(|| "-".into()))
    };
    match program {
        "tc" => {
            let at = args.iter().position(|a| a.starts_with("-n") && "-netns".starts_with(a.as_str()));
            let rest = args.iter().enumerate().filter(|(i, _)| at.is_none_or(|at| *i != at && *i != at + 1));
            Flags::read(&rest.map(|(_, a)| a.clone()).collect::<Vec<_>>()).ok()?.batch
        }
        "ip" => after(&["-b", "-batch", "--batch"]),
        "nft" => after(&["-f", "--file"]),
        "sysctl" => after(&["-p", "--load", "-f"]),
        "iptables-restore" | "ip6tables-restore" => {
            Some(args.iter().find(|a| !a.starts_with('-')).cloned().unwrap_or_else(|| "-".into()))
        }
        _ => None,
    }
    .map(|name| if name == "/dev/stdin" { "-".into() } else { name })
}

/// True if errors go to `/dev/null`, or nowhere.
fn is_quiet() -> bool {
    let stderr = fs::metadata("/proc/self/fd/2");
    stderr.is_err() || stderr.is_ok_and(|m| m.file_type().is_char_device() && m.rdev() == NULL)
}

fn complain(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns the place of the call in a script, if the shell that started this process has told it.
fn place() -> Option<String> {
    let told = std::env::var(PLACE).ok()?;
    let (shell, at) = told.split_once(' ')?;
    let shell: u32 = shell.parse().ok()?;
    let parent = std::os::unix::process::parent_id();
    let is_bash = || fs::read_link(format!("/proc/{parent}/exe")).is_ok_and(|exe| exe.ends_with("bash"));
    // A shell becomes its last command, and then other commands are those of that one.
    let mine = shell == std::process::id() || shell == parent && is_bash();
    let (file, line) = at.split_once(':').unwrap_or((at, ""));
    let file = file.rsplit('/').next().unwrap_or(file);
    mine.then(|| format!("{file}:{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn the_file_that_a_call_reads() {
        let of = |text: &str| {
            let all = words(text);
            reads(&all[0], &all[1..])
        };
        assert_eq!(of("tc -b -").as_deref(), Some("-"));
        assert_eq!(of("tc -n lan -force -batch rules").as_deref(), Some("rules"));
        assert_eq!(of("tc qdisc add dev b root pfifo"), None);
        assert_eq!(of("nft -f /dev/stdin").as_deref(), Some("-"));
        assert_eq!(of("iptables-restore -n").as_deref(), Some("-"));
    }

    #[test]
    fn the_command_in_a_namespace() {
        assert_eq!(command_in_namespace(&words("netns exec lan tc qdisc")), Some(3));
        assert_eq!(command_in_namespace(&words("-4 net exec lan tc qdisc")), Some(4));
        assert_eq!(command_in_namespace(&words("netns add lan")), None);
        assert_eq!(command_in_namespace(&words("netns exec lan")), None);
    }
}
