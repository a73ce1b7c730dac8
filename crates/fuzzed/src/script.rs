//! Shell scripts and batch files, as `check` reads them.

use std::sync::Arc;

use txweir_core::{Env, Rate};
use txweir_lint::check::{self, CheckOptions};
use txweir_lint::script as lines;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::{Command, Diagnostic, Policy, Severity, Source};

/// Bytes of tables of the qdiscs: a policy that needs more is not applied.
const TABLES: u64 = 1 << 20;
/// Transmit queues of each device.
const QUEUES: u32 = 4;
/// Most devices of a policy that is applied.
const DEVICES_MAX: usize = 4;

/// Reads a text as a script and checks it: every diagnostic lies in the text, every word of a line
/// too, and the engine accepts the values of a policy in which `check` finds no error.
///
/// # Panics
/// If one of these laws does not hold.
pub fn script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let source = Arc::new(Source::new("s", text.as_ref()));
    let read = lines::read(&source);
    for word in read.lines.iter().flat_map(|tc| &tc.line.words) {
        assert!(text.get(word.span.clone()).is_some(), "{word:?}");
    }
    let report = check::check(&source, read, &CheckOptions::default());
    for d in &report.diagnostics {
        assert!(d.source.text.get(d.span.clone()).is_some(), "{:?} of {text:?}", d.span);
        assert!(!d.to_string().is_empty() && d.json().starts_with('{'));
    }
    report.facts.iter().for_each(|fact| assert!(fact.json().starts_with('{') && !fact.text().is_empty()));
    if report.count(Severity::Error) == 0 {
        accepted(&text);
    }
}

/// Applies a policy that `check` has found free of errors. A text with lines that the engine does
/// not read is no policy.
fn accepted(text: &str) {
    let Ok(policy) = Policy::parse(text, "p") else { return };
    let names: Vec<String> = policy.devices().into_iter().map(String::from).collect();
    // `check` takes lines without a device as lines for a further one.
    let is_named = |cmd: &Command| cmd.dev().is_some() || matches!(cmd, Command::Actions(_));
    if names.len() > DEVICES_MAX || !policy.commands().iter().all(is_named) {
        return;
    }
    let env = Env { memory: TABLES, link_rate: Some(Rate::from_bits(1_000_000_000)), ..Env::default() };
    let device = |name: &String| MemoryDevice::new(name, QUEUES, env).with_room(1);
    let mut devices = names.iter().map(device).fold(Memory::new(&[]), Memory::with);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Err(error) = policy.apply_to(&mut devices, &names) {
        assert!(is_no_contradiction(&error), "{text}\n{error}");
    }
}

/// The code of a value that the engine refuses. Other refusals are about objects that were there
/// before or are missing, about filters, and about the memory of this device, which `check` cannot
/// know or judges as Linux does.
const BAD_VALUE: &str = "bad-value";

/// True if the engine refuses for a reason that is no contradiction to `check`, which does not
/// choose handles.
fn is_no_contradiction(error: &Diagnostic) -> bool {
    error.code != BAD_VALUE || error.message.contains("handle cannot be")
}
