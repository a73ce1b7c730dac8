//! The laws that hold for any text, for tests and the fuzz target.

use std::sync::Arc;

use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Meta, Tree};

use crate::command;
use crate::diagnostic::Diagnostic;
use crate::lex;
use crate::memory::Memory;
use crate::policy::Policy;
use crate::show;
use crate::source::Source;
use crate::tool::{Request, run, save};

/// Runs a text in every way that there is, on devices with packets in them, and checks the laws
/// that hold for any text: every error lies in the text, JSON is printed for JSON, a dry run and a
/// failed atomic batch change nothing, and saved lines make the same again. The fuzz target and the
/// tests of random text call this.
///
/// # Panics
/// If one of these laws does not hold.
pub fn any_text(text: &str) {
    spans(text);
    let as_batch = |flags: &[&str]| Request {
        args: flags.iter().chain(&["-b", "b"]).map(|a| (*a).to_string()).collect(),
        batch: Some(Source::new("b", text)),
        ..Request::default()
    };
    let mut devices = loaded();
    let before = save(&mut devices);
    for flags in [&["--dry-run"][..], &["-j", "--dry-run", "--atomic", "-force"]] {
        let outcome = run(&as_batch(flags), &mut devices);
        assert!(outcome.status <= 1, "{flags:?}: {}", outcome.status);
        assert_eq!(save(&mut devices), before, "{flags:?} changed something");
    }
    let mut moved = loaded();
    if run(&as_batch(&["--atomic"]), &mut moved).status != 0 {
        assert_eq!(save(&mut moved), before, "a failed atomic batch changed something");
    }
    run(&as_batch(&["-s", "-d", "-r", "-force"]), &mut devices);
    for line in text.lines().take(8) {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        let outcome = run(&Request { args, ..Request::default() }, &mut devices);
        assert!(matches!(outcome.status, 0..=2 | 255), "{}", outcome.status);
        assert!(outcome.status == 0 || !outcome.stderr.is_empty(), "an error without a message: {line}");
    }
    for mut devices in [devices, moved] {
        let saved = save(&mut devices);
        let mut again = loaded();
        let batch = format!("qdisc del dev a root\n{saved}");
        let request = Request {
            args: vec!["-b".into()],
            batch: Some(Source::new("saved", batch)),
            ..Request::default()
        };
        let outcome = run(&request, &mut again);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""), "{saved}");
        assert_eq!(save(&mut again), saved);
    }
}

/// Returns two devices, the first with packets.
fn loaded() -> Memory {
    let mut devices = Memory::new(&["a", "b"]);
    let args = "qdisc add dev a root handle 1: prio".split(' ').map(String::from).collect();
    run(&Request { args, ..Request::default() }, &mut devices);
    if let Some(a) = devices.get("a") {
        for n in 0..6u32 {
            a.enqueue(Meta::new(100 + n).priority(n).hash(n));
        }
    }
    devices
}

/// Checks that every error and warning lies in the text.
fn spans(text: &str) {
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
            let mut tree = Tree::new(Env::default());
            match policy.apply(&mut tree, &mut Cx::new(1, 0)) {
                Err(diagnostic) => within(&diagnostic),
                Ok(()) => {
                    let said = show::commands(&tree, None);
                    let mut again = Tree::new(Env::default());
                    let applied =
                        Policy::parse(&said, "again").map(|p| p.apply(&mut again, &mut Cx::new(1, 0)));
                    assert!(matches!(applied, Ok(Ok(()))), "{said}");
                    assert_eq!(show::commands(&again, None), said);
                }
            }
        }
    }
}
