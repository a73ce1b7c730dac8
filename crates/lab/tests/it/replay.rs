//! Recordings of the Linux kernel, replayed here: every trace under `spec/traces`. And tests that
//! the comparison detects differences.

use std::fs;
use std::path::{Path, PathBuf};

use txweir_lab::replay::{Aspect, Replayed, Trace, json, table};

/// Least number of traces of a kind.
const LEAST: usize = 15;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut all: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    all.sort();
    all
}

/// Returns every folder of a kind, with its traces.
fn kinds() -> Vec<(String, Vec<PathBuf>)> {
    let folders = sorted(&root().join("spec/traces")).into_iter().filter(|path| path.is_dir());
    folders.map(|folder| (name(&folder), sorted(&folder))).collect()
}

fn name(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn read(path: &Path) -> Trace {
    let text = fs::read_to_string(path).expect("a trace");
    Trace::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_trace_is_equal_to_linux() {
    let mut replays: Vec<Replayed> = Vec::new();
    for (kind, traces) in kinds() {
        for path in traces {
            let trace = read(&path);
            assert_eq!((&trace.head.kind, &trace.head.name), (&kind, &name(&path)), "{}", path.display());
            replays.push(trace.replay());
        }
    }
    assert!(!replays.is_empty());
    replays.retain(|r| !r.is_equal());
    assert!(replays.is_empty(), "{}", table(&replays, false));
}

#[test]
fn every_kind_has_enough_traces_and_they_change_it_under_load() {
    for (kind, traces) in kinds() {
        assert!(traces.len() >= LEAST, "{kind}: {} traces, expected at least {LEAST}", traces.len());
        let dropped = traces.iter().filter(|path| read(path).replay().gone > 0).count();
        let changed = |path: &&PathBuf| {
            let lines = fs::read_to_string(path).expect("a trace");
            lines.lines().any(|line| {
                line.starts_with("{\"at\":") && !line.starts_with("{\"at\":-") && line.contains("\"tc\"")
            })
        };
        assert!(
            dropped > 0 && traces.iter().any(|p| changed(&p)),
            "{kind}: no overload, or no change under load"
        );
    }
}

#[test]
fn what_a_trace_waives_is_a_row_of_parity() {
    let parity = fs::read_to_string(root().join("PARITY.md")).expect("PARITY.md");
    for path in kinds().into_iter().flat_map(|(_, traces)| traces) {
        let trace = read(&path);
        for waiver in &trace.head.parity {
            let row = format!("| {} |", waiver.row);
            assert!(parity.contains(&row), "{}: PARITY.md has no row {}", path.display(), waiver.row);
        }
    }
}

/// A trace small enough to be changed by hand: two of four packets wait, one is dropped, one
/// marked.
const SMALL: &str = include_str!("replay/small.jsonl");

fn differences(text: &str) -> Vec<Aspect> {
    let replayed = Trace::read(text).expect("a trace").replay();
    let mut aspects: Vec<Aspect> = replayed.differences.iter().map(|d| d.aspect).collect();
    aspects.dedup();
    aspects
}

#[test]
fn each_difference_is_found() {
    assert_eq!(differences(SMALL), []);
    for (from, to, found) in [
        // A difference of a microsecond is tolerated, a larger one is not.
        ("[900608,1]", "[901248,1]", &[][..]),
        ("[900608,1]", "[902016,1]", &[Aspect::Time]),
        ("[900608,1]", "[900608,3]", &[Aspect::Order, Aspect::Drops]),
        ("[900608,1],", "", &[Aspect::Order, Aspect::Drops]),
        ("[256,0]", "[256,0,{\"ds\":3}]", &[Aspect::Marks]),
        ("[256,0]", "[256,0,{\"len\":999}]", &[Aspect::Order]),
        ("\"status\":0", "\"status\":2", &[Aspect::Status]),
        ("\"drops\":1", "\"drops\":2", &[Aspect::Counters]),
        ("\"rate\":1000000", "\"rate\":1000001", &[Aspect::Counters]),
        ("(dropped 1,", "(dropped 2,", &[Aspect::Text]),
        ("class tbf 1:1", "class tbf 1:2", &[Aspect::Text]),
    ] {
        let changed = SMALL.replacen(from, to, 1);
        assert_ne!(changed, SMALL, "{from}");
        assert_eq!(differences(&changed), found, "{from} -> {to}");
    }
}

#[test]
fn what_is_meant_is_named_and_not_counted() {
    let waived = "\"seed\":1,\"parity\":[{\"row\":\"fifo-shrink\",\"waives\":[\"drops\"]}],";
    let text = SMALL.replacen("\"drops\":1", "\"drops\":2", 1).replacen("\"seed\":1,", waived, 1);
    let replayed = Trace::read(&text).expect("a trace").replay();
    assert!(replayed.is_equal());
    assert_eq!(replayed.meant(), ["fifo-shrink"]);
    assert!(table(std::slice::from_ref(&replayed), false).contains("equal but for fifo-shrink"));
    assert_eq!(json(&[replayed])[0]["equal"], true);
}

#[test]
fn of_a_random_kind_amounts_are_compared() {
    let random = SMALL.replacen("\"seed\":1,", "\"seed\":1,\"random\":true,", 1);
    assert_eq!(differences(&random.replacen("[900608,1]", "[900608,3]", 1)), []);
    // Sixty packets more, all of which Linux dropped and txweir sent: far beyond chance.
    let many: Vec<String> = (0..60).map(|i| format!("[{},0,100]", 400_000_000 + i * 1_000_000)).collect();
    let more = format!("{{\"send\":[{}]}}\n{{\"depart\":", many.join(","));
    assert_eq!(differences(&random.replacen("{\"depart\":", &more, 1)), [Aspect::Drops]);
}

#[test]
fn a_text_that_is_no_trace_says_why() {
    let lines: Vec<&str> = SMALL.lines().collect();
    let said = |text: &str| Trace::read(text).expect_err(text).to_string();
    let with = |number: usize, line: &str| {
        let mut changed = lines.clone();
        changed[number - 1] = line;
        said(&changed.join("\n"))
    };
    assert_eq!(said(""), "line 1: a trace expected, given nothing");
    assert_eq!(said("hello"), "line 1: not JSON: expected value at line 1 column 1");
    assert_eq!(said("{}"), "line 1: expected the head of a trace, {\"txweir-trace\":1, ...}");
    assert_eq!(
        with(1, &lines[0].replace("\"txweir-trace\":1", "\"txweir-trace\":9")),
        "line 1: expected a trace of version 1, given 9"
    );
    assert_eq!(with(1, &lines[0].replace("\"seed\":1,", "")), "line 1: missing field `seed`");
    assert_eq!(with(3, "{\"at\":1}"), "line 3: expected packets, tc, send, depart or show");
    assert_eq!(with(3, "[1]"), "line 3: expected a JSON object");
    assert_eq!(
        with(3, "{\"tc\":\"qdisc show\",\"status\":0}"),
        "line 3: expected `at`, a time in nanoseconds"
    );
    assert_eq!(with(3, "{\"at\":1,\"tc\":\"qdisc show\"}"), "line 3: expected `status`, an exit status");
    assert_eq!(with(4, "{\"send\":[[0,7,100]]}"), "line 4: there is no row 7 in the packet table");
    assert_eq!(with(4, "{\"send\":[[0,0,20]]}"), "line 4: a size of 20 bytes, but the headers alone are 42");
    assert_eq!(
        with(4, "{\"send\":[[5,0,100],[4,0,100]]}"),
        "line 4: it happens before what stands in front of it"
    );
    assert_eq!(with(5, "{\"depart\":[[0,99]]}"), "line 5: packet 99 left, but never arrived");
    assert_eq!(
        with(2, "{\"packets\":[{\"proto\":\"sctp\",\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\"}]}"),
        "line 4: proto: expected udp, tcp, icmp, arp or raw, given \"sctp\""
    );
    assert_eq!(
        with(2, "{\"packets\":[{\"proto\":\"udp\",\"src\":\"x\",\"dst\":\"10.0.0.2\"}]}"),
        "line 4: expected an IPv4 address, given \"x\""
    );
    let cut = lines[..lines.len() - 1].join("\n");
    assert_eq!(said(&cut), format!("line {}: expected the final counters as the last line", lines.len() - 1));
    // A text cut anywhere, or with any byte changed, is read or refused, without a panic.
    for end in 0..SMALL.len() {
        let _ = Trace::read(&SMALL[..end]);
    }
    for at in 0..SMALL.len() {
        for byte in [b'0', b'"', b'-', b'[', b'}', b'9'] {
            let mut bytes = SMALL.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(trace) = Trace::read(&String::from_utf8(bytes).expect("ascii")) {
                let _ = trace.replay();
            }
        }
    }
}
