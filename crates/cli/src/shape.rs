//! `txweir shape`: qdiscs between this machine and one of its interfaces. A TAP device takes over
//! the interface's addresses and routes, and a `txweir run` joins the two: the interface by XDP
//! sockets, so that the machine's own stack sees its frames by the TAP device only.
//!
//! This process prepares, waits, and puts everything back. It writes what it is about to change
//! into a file first, so that another call can put it back after a crash.

mod host;
mod journal;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use txweir::core::Rate;
use txweir::core::text::value::{Value, Words, text_of};
use txweir::device::poll::{PollFd, PollFlags, wait};
use txweir::device::{IfName, Signal, Signals, clock};

use crate::{Failure, input, output};
use host::Host;
use journal::Journal;

/// Options of `txweir shape`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface with an Ethernet header: eth0, wlan0
    #[arg(value_name = "IF")]
    interface: IfName,

    /// Rate of what leaves (20mbit): cake, a few percent below the rate of the line
    #[arg(long, value_name = "RATE", value_parser = rate, required_unless_present_any = ["policy", "restore"])]
    rate: Option<Rate>,

    /// Rate of what comes in (95mbit): cake, on the way to this machine
    #[arg(long, value_name = "RATE", value_parser = rate)]
    down: Option<Rate>,

    /// File of tc lines in place of cake: `dev IF` for what leaves, `dev TAP` for what comes in
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "down"])]
    policy: Option<PathBuf>,

    /// Name of the TAP device that takes over addresses and routes [default: txw-IF, cut to 15
    /// bytes]
    #[arg(long, value_name = "NAME")]
    tap: Option<IfName>,

    /// Put back what a run that was killed has left behind, and end
    #[arg(long, conflicts_with_all = ["rate", "down", "policy", "tap", "duration"])]
    restore: bool,

    /// Stop after this time (10s, 1h)
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,

    /// Folder of the file by which a later call can put everything back
    #[arg(long, value_name = "DIR", default_value = "/run/txweir")]
    state: PathBuf,
}

fn rate(text: &str) -> Result<Rate, String> {
    Rate::take(&mut Words::new(&[text])).map_err(|_| format!("expected {}, given {text}", Rate::EXPECTED))
}

/// The speed of the wire ahead of each device: none that matters.
const WIRE: &str = "rate=100gbit";

/// Runs `txweir shape`.
pub fn main(args: Args) -> Result<(), Failure> {
    let journal = Journal::new(&args.state, &args.interface).map_err(Failure::usage)?;
    if let Some(before) = journal.read().map_err(Failure::failed)? {
        before.put_back().map_err(Failure::failed)?;
        journal.remove().map_err(Failure::failed)?;
        output::say(format_args!("txweir: `{}` is as it was before the last run\n", args.interface));
    } else if args.restore {
        output::say(format_args!("txweir: nothing to put back for `{}`\n", args.interface));
    }
    if args.restore {
        return Ok(());
    }
    let tap = args.tap.clone().map_or_else(|| tap_of(&args.interface), Ok).map_err(Failure::usage)?;
    let text = match &args.policy {
        Some(file) => input::text(file).map_err(Failure::usage)?.1,
        None => built_in(&args, &tap),
    };
    let duration = args.duration.as_deref().map(|text| crate::run::time("--duration", text)).transpose()?;
    let end = duration.map(|duration| clock::now_ns().saturating_add(duration.0));
    let signals = Signals::take().map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let before = Host::look(&args.interface, &tap).map_err(Failure::usage)?;
    before.warnings().iter().for_each(|line| output::say(format_args!("txweir: {line}\n")));
    // From here on everything is put back, whatever happens.
    journal.write(&before).map_err(Failure::failed)?;
    let policy = journal.beside("tc");
    let ran = std::fs::write(&policy, text)
        .map_err(|e| Failure::failed(format!("{}: {e}", policy.display())))
        .and_then(|()| carry(&before, &policy, &signals, end));
    let back = before.put_back().map_err(Failure::failed);
    // Without success the file stays for --restore.
    let removed = if back.is_ok() { journal.remove().map_err(Failure::failed) } else { Ok(()) };
    ran.and(back).and(removed)
}

/// Returns the default name of the TAP device: IF behind `txw-`, as far as 15 bytes reach.
fn tap_of(interface: &IfName) -> Result<IfName, String> {
    let name: String = "txw-".chars().chain(interface.as_str().chars()).collect();
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    IfName::new(&name[..end]).map_err(|e| format!("--tap {name}: {e}"))
}

/// Returns the policy of `--rate` and `--down`.
fn built_in(args: &Args, tap: &IfName) -> String {
    let line = |dev: &IfName, rate: &Rate, more: &str| {
        format!("qdisc replace dev {dev} root cake bandwidth {}{more}\n", text_of(rate))
    };
    let up = args.rate.iter().map(|rate| line(&args.interface, rate, ""));
    let down = args.down.iter().map(|rate| line(tap, rate, " ingress"));
    up.chain(down).collect()
}

/// Makes the TAP device, starts the run, moves addresses and routes, and waits for the end.
fn carry(before: &Host, policy: &Path, signals: &Signals, end: Option<u64>) -> Result<(), Failure> {
    before.make_tap().map_err(Failure::failed)?;
    let mut child = start(before, policy)?;
    let mut said = None;
    let ran = (|| {
        said = Some(first_line(&mut child)?);
        before.hand_over().map_err(Failure::failed)?;
        let shown = format!("ready: {} by way of {}\n", before.interface, before.tap);
        output::print(shown)?;
        until_end(&mut child, signals, end)
    })();
    // The run ends by SIGTERM as if by itself, and prints its counters.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw)
        && matches!(child.try_wait(), Ok(None))
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let _ = child.wait();
    if let Some(said) = said {
        let _ = said.join();
    }
    ran
}

/// Starts `txweir run` between the two devices. Its output is this process's own, behind its first
/// line.
fn start(before: &Host, policy: &Path) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("this program: {e}")))?;
    Command::new(program)
        .args(["run", "--wire", WIRE, "--policy"])
        .arg(policy)
        .args(["--in", &format!("tap:{}", before.tap), "--out", &format!("xdp:{}", before.interface)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Ctrl-C is for this process, which ends the run.
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::failed(format!("txweir run: {e}")))
}

/// Waits for the first line of a run, by which it says that it is ready, and passes its later lines
/// on to the standard output by a thread.
fn first_line(child: &mut Child) -> Result<JoinHandle<()>, Failure> {
    let ended = || Failure::failed("txweir run has ended before it was ready");
    let mut lines = BufReader::new(child.stdout.take().ok_or_else(ended)?).lines();
    let first = lines.next().and_then(Result::ok).ok_or_else(ended)?;
    if !first.starts_with("ready: ") {
        return Err(Failure::failed(format!("txweir run said {first}, expected ready")));
    }
    Ok(std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = output::print(format_args!("{line}\n"));
        }
    }))
}

/// Waits for a signal, the end of the time, or the end of the run, which is an error.
fn until_end(child: &mut Child, signals: &Signals, end: Option<u64>) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::failed(format!("cannot wait: {e}"));
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Err(Failure::failed(format!("txweir run has ended: {status}")));
        }
        // A run that ends by itself is noticed within a quarter of a second.
        let look = clock::now_ns() + 250_000_000;
        let deadline = end.map_or(look, |end| end.min(look));
        wait(&mut [PollFd::new(signals, PollFlags::IN)], Some(deadline), 0).map_err(failed)?;
        let said = signals.pending().map_err(failed)?;
        if matches!(said, Some(Signal::Interrupt | Signal::Terminate))
            || end.is_some_and(|end| clock::now_ns() >= end)
        {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_tap_device_fits() {
        let named = |name: &str| tap_of(&IfName::new(name).unwrap()).unwrap().to_string();
        assert_eq!(named("eth0"), "txw-eth0");
        assert_eq!(named("enp0s31f6abcdef"), "txw-enp0s31f6ab");
        assert_eq!(named("ääääääa"), "txw-äääää");
    }
}
