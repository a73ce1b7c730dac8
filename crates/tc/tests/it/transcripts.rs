//! Transcripts of tc for each kind: `spec/tc/KIND.txt` has commands, each followed by the exact
//! output, and by `? N` if its status N is not 0. The test runs them in order on a device of four
//! queues.
//!
//! With `TXWEIR_BLESS=1` the test writes the output into the files.

use std::path::{Path, PathBuf};

use txweir_core::qdisc::KINDS;
use txweir_core::{Env, Rate};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Request, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc")
}

/// Returns the file with the output that the commands have now.
fn replayed(text: &str) -> String {
    let env = Env { queues: 4, link_rate: Some(Rate::from_bits(1_000_000_000)), ..Env::default() };
    let mut devices = Memory::new(&[]).with(MemoryDevice::new("lan", 4, env));
    let mut out = String::new();
    for command in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
        let args = command.split(' ').map(String::from).collect();
        let done = run(&Request { args, ..Request::default() }, &mut devices);
        out.push_str(&format!("$ tc {command}\n{}{}", done.stdout, done.stderr));
        if done.status != 0 {
            out.push_str(&format!("? {}\n", done.status));
        }
    }
    out
}

#[test]
fn every_kind_prints_what_its_transcript_says() {
    let bless = std::env::var_os("TXWEIR_BLESS").is_some();
    for spec in KINDS {
        let file = folder().join(format!("{}.txt", spec.kind));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let now = replayed(&text);
        if bless {
            std::fs::write(&file, &now).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        } else {
            assert_eq!(now, text, "{}", file.display());
        }
        let has = |part: &str| now.lines().any(|line| line.contains(part));
        let [shown, object] = [format!("qdisc {} 1: root", spec.kind), format!("\"kind\":\"{}\"", spec.kind)];
        for part in ["$ tc -s qdisc show", &shown, &object, "? 2"] {
            assert!(has(part), "{} has no \"{part}\"", file.display());
        }
    }
}
