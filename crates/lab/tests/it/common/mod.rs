//! Helpers of the tests: scenarios from text, and a log in memory.

#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use txweir_lab::report::Report;
use txweir_lab::run::{Options, play, run};
use txweir_lab::scenario::{Built, Scenario};

pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;

pub fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

pub fn report(text: &str) -> Report {
    run(&scenario(text), Options::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the net at the end of a run.
pub fn played(text: &str) -> Built {
    let s = scenario(text);
    let mut built = s.build(s.seed()).unwrap_or_else(|e| panic!("{e}"));
    play(&s, &mut built, &mut |_| {});
    built
}

/// Returns a scenario of two hosts and one link, `a` and `b`, with more keys for each table.
pub fn two_hosts(top: &str, host: &str, link: &str, traffic: &str) -> String {
    format!(
        "title = 't'\n{top}\n[[host]]\nname = 'a'\n{host}\n[[host]]\nname = 'b'\n{host}\n\
         [[link]]\nfrom = 'a'\nto = 'b'\n{link}\n{traffic}"
    )
}

/// A sink for bytes that can be read during writing.
#[derive(Clone, Default)]
pub struct Log(pub Rc<RefCell<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(b);
        Ok(b.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Asserts that `got` is within `percent` of `expected`.
#[track_caller]
pub fn close(got: f64, expected: f64, percent: f64) {
    let off = (got / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{got} against {expected}: {off:.2} %");
}
