//! Every rule of the check: the lines that it reports, and the lines that it leaves alone.

mod filters;
mod objects;
mod page;
mod queues;
mod rates;
mod words;

use txweir_core::Rate;
use txweir_lint::check::{self, CheckOptions, Report};

fn options() -> CheckOptions {
    CheckOptions { link: Some(Rate::from_bits(100_000_000)), ..CheckOptions::default() }
}

fn report(text: &str) -> Report {
    check::text(text, "p", &options())
}

/// Returns all diagnostics except the notes that the engine lacks a kind: severity, code, and the
/// message in one line.
fn said(text: &str) -> Vec<String> {
    let all = report(text).diagnostics.into_iter().filter(|d| d.code != "not-in-engine");
    all.map(|d| format!("{} {} {}", d.severity.name(), d.code, d.brief())).collect()
}

const HTB: &str = "qdisc add dev e root handle 1: htb default 10
class add dev e parent 1: classid 1:1 htb rate 50mbit
class add dev e parent 1:1 classid 1:10 htb rate 10mbit ceil 50mbit
class add dev e parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit
filter add dev e parent 1: protocol ip prio 5 u32 match ip dport 22 0xffff flowid 1:20
";

fn htb(more: &str) -> Vec<String> {
    said(&format!("{HTB}{more}"))
}

/// A policy without faults has an empty report.
#[test]
fn a_sound_policy() {
    assert_eq!(htb(""), [""; 0]);
}

/// The filters of a block are at hooks, and those of each block are apart.
#[test]
fn a_block_is_no_device_without_a_root() {
    let blocks = "qdisc add dev a ingress_block 22 clsact\nqdisc add dev b egress_block 23 clsact\n";
    let filters = "filter add block 22 prio 1 matchall action mirred egress redirect blockid 23\n\
                   filter add block 23 prio 2 matchall action drop\n";
    let none: [&str; 0] = [];
    assert_eq!(said(&format!("{blocks}{filters}")), none);
    // Nothing comes behind a filter that takes every packet, in that block alone.
    let more = "filter add block 22 prio 2 protocol ip matchall action drop\n";
    let told = said(&format!("{blocks}{filters}{more}"));
    assert!(told.len() == 1 && told[0].contains("5:"), "{told:?}");
}
