//! The laws that hold for any text, for tests and the fuzz targets.

use std::sync::Arc;

use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Meta, Tree};

use crate::command;
use crate::diagnostic::Diagnostic;
use crate::lex;
use crate::memory::{Memory, MemoryDevice};
use crate::policy::Policy;
use crate::show;
use crate::source::Source;
use crate::tool::{Request, run, save};

/// Bytes of tables that the qdiscs of a device may have in these tests. A text that asks for more
/// is refused, so that no text costs much time.
const TABLES: u64 = 1 << 20;
/// Packets that can wait on such a device.
const PACKETS: usize = 64;

/// Runs a text in every way that there is, and checks the laws of [`any_policy`], [`any_batch`] and
/// [`any_lines`].
///
/// # Panics
/// If one of these laws does not hold.
pub fn any_text(text: &str) {
    any_policy(text);
    any_batch(text);
    any_lines(text);
}

/// Returns the properties of a device with small tables.
fn env() -> Env {
    Env { memory: TABLES, ..Env::default() }
}

/// Returns two devices, the first with packets.
fn loaded() -> Memory {
    let small = |name| MemoryDevice::new(name, 1, env()).with_room(PACKETS);
    let mut devices = Memory::new(&[]).with(small("a")).with(small("b"));
    let args = "qdisc add dev a root handle 1: prio".split(' ').map(String::from).collect();
    run(&Request { args, ..Request::default() }, &mut devices);
    if let Some(a) = devices.get("a") {
        for n in 0..6u32 {
            a.enqueue(Meta::new(100 + n).priority(n).hash(n));
        }
    }
    devices
}

/// Returns a request for a batch with these flags.
fn batch(flags: &[&str], text: &str) -> Request {
    Request {
        args: flags.iter().chain(&["-b", "b"]).map(|a| (*a).to_string()).collect(),
        batch: Some(Source::new("b", text)),
        ..Request::default()
    }
}

/// Runs a text as a batch, on devices with packets in them, and checks: a dry run and a failed
/// atomic batch change nothing, and saved lines make the same again.
///
/// # Panics
/// If one of these laws does not hold.
pub fn any_batch(text: &str) {
    let mut devices = loaded();
    let before = save(&mut devices);
    for flags in [&["--dry-run"][..], &["-j", "--dry-run", "--atomic", "-force"]] {
        let outcome = run(&batch(flags, text), &mut devices);
        assert!(outcome.status <= 1, "{flags:?}: {}", outcome.status);
        assert_eq!(save(&mut devices), before, "{flags:?} changed something");
    }
    let mut moved = loaded();
    if run(&batch(&["--atomic"], text), &mut moved).status != 0 {
        assert_eq!(save(&mut moved), before, "a failed atomic batch changed something");
    }
    run(&batch(&["-s", "-d", "-r", "-force"], text), &mut devices);
    saved_again(&mut devices, &before);
    saved_again(&mut moved, &before);
}

/// Runs the first lines of a text as command lines, and checks: an error has a message, and saved
/// lines make the same again.
///
/// # Panics
/// If one of these laws does not hold.
pub fn any_lines(text: &str) {
    let mut devices = loaded();
    let before = save(&mut devices);
    for line in text.lines().take(8) {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        let outcome = run(&Request { args, ..Request::default() }, &mut devices);
        assert!(matches!(outcome.status, 0..=2 | 255), "{}", outcome.status);
        assert!(outcome.status == 0 || !outcome.stderr.is_empty(), "an error without a message: {line}");
    }
    saved_again(&mut devices, &before);
}

/// Checks that the saved lines of devices make the same again, unless they are as at `first`.
/// Chains beside hash tables of u32 are made in another order than before, because the lines of
/// tables stand in front: then the lines of the copy make the same again.
fn saved_again(devices: &mut Memory, first: &str) {
    let saved = save(devices);
    if saved == first {
        return;
    }
    let mut again = restored(&saved);
    if saved.contains(" u32 divisor ") && saved.contains(" chain ") {
        let saved = save(&mut again);
        assert_eq!(save(&mut restored(&saved)), saved);
    } else {
        assert_eq!(save(&mut again), saved);
    }
}

/// Returns devices on which these lines were run.
fn restored(saved: &str) -> Memory {
    let mut again = loaded();
    let outcome = run(&batch(&[], &format!("qdisc del dev a root\n{saved}")), &mut again);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""), "{saved}");
    again
}

/// Reads a text as command lines and as a policy, and checks: every error and warning lies in the
/// text, JSON is printed for JSON, and the words that `show` prints for an applied policy make it
/// again.
///
/// # Panics
/// If one of these laws does not hold.
pub fn any_policy(text: &str) {
    let within = |d: &Diagnostic| {
        assert!(d.source.text.get(d.span.clone()).is_some(), "{:?} of {:?}", d.span, d.source.text);
        assert!(!d.to_string().is_empty() && d.json().starts_with('{'));
    };
    let source = Arc::new(Source::new("t", text));
    for line in lex::lines(&source, 0..text.len()) {
        match line.map(|line| command::read(&source, &line)) {
            Ok(Ok(command)) => assert!(text.get(command.span().clone()).is_some()),
            Ok(Err(failure)) => within(&failure.diagnostic),
            Err(diagnostic) => within(&diagnostic),
        }
    }
    match Policy::parse(text, "p") {
        Err(all) => all.iter().for_each(within),
        Ok(policy) => {
            policy.warnings().iter().for_each(within);
            let mut tree = Tree::new(env());
            match policy.apply(&mut tree, &mut Cx::new(1, 0)) {
                Err(diagnostic) => within(&diagnostic),
                Ok(()) => {
                    let said = show::commands(&tree, None);
                    let mut again = Tree::new(env());
                    let applied =
                        Policy::parse(&said, "again").map(|p| p.apply(&mut again, &mut Cx::new(1, 0)));
                    assert!(matches!(applied, Ok(Ok(()))), "{said}");
                    assert_eq!(show::commands(&again, None), said);
                }
            }
        }
    }
}
