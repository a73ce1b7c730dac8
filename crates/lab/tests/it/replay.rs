//! Recordings of the Linux kernel, replayed here: every trace under `spec/traces`. And tests that
//! the comparison detects differences.

use std::collections::BTreeSet;
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
    let later = sorted(&root().join("spec/traces-7.2")).into_iter().flat_map(|folder| sorted(&folder));
    for path in kinds().into_iter().flat_map(|(_, traces)| traces).chain(later) {
        let trace = read(&path);
        for waiver in &trace.head.parity {
            let row = format!("| {} |", waiver.row);
            assert!(parity.contains(&row), "{}: PARITY.md has no row {}", path.display(), waiver.row);
        }
    }
}

/// Linux 7.2 differs from 6.12 in these recordings, by rows of PARITY.md: this code is as the
/// earlier kernel, as the later one, or as both where no counter tells.
#[test]
fn a_recording_that_moved_is_named() {
    let folders: Vec<PathBuf> = sorted(&root().join("spec/traces-7.2"));
    let moved: Vec<PathBuf> = folders.iter().flat_map(|folder| sorted(folder)).collect();
    assert!(!moved.is_empty());
    let parity = fs::read_to_string(root().join("PARITY.md")).expect("PARITY.md");
    let (_, rows) = parity.split_once("## Rows that moved").expect("their section");
    let (rows, _) = rows.split_once("\n## ").expect("a section behind it");
    for path in moved {
        let later = read(&path);
        let earlier =
            read(&root().join("spec/traces").join(&later.head.kind).join(path.file_name().expect("a name")));
        assert!(
            later.head.linux.starts_with("7.2") && earlier.head.linux.starts_with("6.12"),
            "{}",
            path.display()
        );
        let named = |trace: &Trace| -> BTreeSet<String> {
            trace.head.parity.iter().map(|row| row.row.clone()).collect()
        };
        let (there, here) = (named(&earlier), named(&later));
        let own: Vec<&String> = there.symmetric_difference(&here).collect();
        assert!(!own.is_empty(), "{}: no row tells the kernels apart", path.display());
        let (before, after) = (earlier.replay(), later.replay());
        assert!(after.is_equal(), "{}", table(&[after], false));
        for row in own {
            assert!(rows.contains(&format!("| {row} |")), "{}: {row} is no row that moved", path.display());
            // A row that waives nothing is one by which this code is as Linux 7.2.
            let waives = later.head.parity.iter().any(|p| p.row == *row && !p.waives.is_empty());
            let seen = if there.contains(row) { before.meant() } else { after.meant() };
            let needed = seen.contains(&row.as_str());
            assert!(needed == (there.contains(row) || waives), "{}: {row} is not seen", path.display());
        }
    }
}

/// The table of the recordings under both kernels has as many that moved as there are files.
#[test]
fn the_table_of_what_moved_counts_the_recordings() {
    let readme = fs::read_to_string(root().join("oracle/README.md")).expect("oracle/README.md");
    let rows: Vec<Vec<&str>> = readme
        .lines()
        .skip_while(|line| !line.starts_with("| kind | recordings | same |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let number = |cell: &str| cell.parse::<usize>().expect("a number");
    let (all, kinds) = rows.split_last().expect("a table");
    assert_eq!(all[0], "all");
    for row in kinds {
        let moved = |kind: &str| {
            let folder = root().join("spec/traces-7.2").join(kind);
            if folder.is_dir() { sorted(&folder).len() } else { 0 }
        };
        // A kind may have recordings of words that only a later kernel takes.
        let earlier = |path: &PathBuf| {
            let text = fs::read_to_string(path).expect("a trace");
            text.lines().next().is_some_and(|head| head.contains(r#""linux":"6.12"#))
        };
        let recordings = sorted(&root().join("spec/traces").join(row[0]));
        assert_eq!(number(row[1]), recordings.iter().filter(|path| earlier(path)).count(), "{row:?}");
        assert_eq!(number(row[6]), moved(row[0]), "{row:?}");
    }
    for column in 1..=7 {
        let sum: usize = kinds.iter().map(|row| number(row[column])).sum();
        assert_eq!(number(all[column]), sum, "column {column}");
    }
    let moved: Vec<String> = sorted(&root().join("spec/traces-7.2")).iter().map(|p| name(p)).collect();
    let listed: Vec<&str> = kinds.iter().map(|row| row[0]).collect();
    assert!(moved.iter().all(|kind| listed.contains(&kind.as_str())), "{moved:?}");
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

/// Replays a trace of a kind, with `from` in its commands replaced by `to`.
#[track_caller]
fn mutated(name: &str, from: &str, to: &str) -> Replayed {
    let path = root().join("spec/traces").join(name).with_extension("jsonl");
    let text = fs::read_to_string(&path).expect("a trace");
    let line = |line: &str| match line.contains("\"tc\":") {
        true => line.replacen(from, to, 1) + "\n",
        false => format!("{line}\n"),
    };
    let changed: String = text.lines().map(line).collect();
    assert_ne!(changed, text, "{name}: {from}");
    Trace::read(&changed).expect("a trace").replay()
}

/// Each filter and action of the traces, changed so that it matches or decides otherwise.
const FILTERS: &[(&str, &str, &str)] = &[
    ("u32-ports", "dport 2001", "dport 2002"),
    ("u32-ports", "0x40 0xfc", "0x44 0xfc"),
    ("u32-ports", "sport 1004 0xfffe", "sport 1004 0xffff"),
    ("u32-tables", "hashkey mask 0x0000000f", "hashkey mask 0x00000007"),
    ("u32-tables", "ht 5:3: match ip dst 10.0.1.0/24", "ht 5:4: match ip dst 10.0.1.0/24"),
    ("u32-links", "0x02 0x02", "0x10 0x10"),
    ("u32-links", "2003 0xffff at 2", "2003 0xffff at 0"),
    ("u32-links", "offset at 0 mask 0x0f00 shift 6 eat", "offset at 0 mask 0x0f00 shift 7 eat"),
    ("flower-chains", "goto chain 2", "goto chain 7"),
    ("flower-chains", "tcp_flags 0x2/0x2", "tcp_flags 0x10/0x10"),
    ("flower-chains", "dst_port 2000-2003", "dst_port 2000-2002"),
    ("flower-masks", "10.0.0.8/29", "10.0.0.8/32"),
    ("flower-masks", "dst_port 2003", "dst_port 2004"),
    ("flower-masks", "arp_tip 10.0.0.2", "arp_tip 10.0.0.3"),
    ("fw-marks", "handle 0x10/0xf0", "handle 0x20/0xf0"),
    ("fw-marks", "handle 4 fw classid 3:9", "handle 4 fw classid 3:10"),
    ("basic-matches", "gt 900", "gt 400"),
    ("basic-matches", "mask 0xff eq 9", "mask 0xfff eq 9"),
    ("basic-matches", "and not cmp", "and cmp"),
    ("flow-map", "and 0x3", "and 0x1"),
    ("flow-map", "xor 0x1", "xor 0x2"),
    ("flow-hash", "keys src,dst", "keys src,dst,proto-src"),
    ("fq-codel-classes", "dst_port 2002 classid 2:7", "dst_port 2002 classid 2:8"),
    ("fq-codel-classes", "matchall action drop", "matchall classid 2:3"),
    ("police-drop", "rate 1mbit burst 6000", "rate 1100kbit burst 6000"),
    ("police-drop", "burst 3000", "burst 2000"),
    ("police-continue", "rate 600kbit", "rate 500kbit"),
    ("police-continue", "peakrate 2mbit", "peakrate 1500kbit"),
    ("police-continue", "pkts_burst 4", "pkts_burst 3"),
    ("egress-hook", "priority 2:1", "priority 2:2"),
    ("egress-hook", "set 0x10", "set 0x20"),
    ("egress-hook", "dst_port 2003 action drop", "dst_port 2003 action ok"),
    ("two-levels", "0xfffe flowid 1:12", "0xffff flowid 1:12"),
    ("two-levels", "dst_port 2002 classid 12:1", "dst_port 2002 classid 12:2"),
    ("results", "action reclassify", "action ok"),
    ("results", "action trap", "action ok"),
    ("results", "dport 2002 0xffff flowid 2:2 action continue", "dport 2002 0xffff flowid 2:2 action ok"),
    ("bytecode", "21 0 1 6", "21 0 1 17"),
    ("bytecode", "37 0 1 600", "37 0 1 900"),
    ("cake-flows", "dst_port 2002 classid 3:1", "dst_port 2002 classid 3:2"),
];

#[test]
fn a_mutated_filter_is_found() {
    let equal =
        |(name, from, to): &&(&str, &str, &str)| mutated(&format!("filters/{name}"), from, to).is_equal();
    let missed: Vec<_> = FILTERS.iter().filter(equal).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let named: BTreeSet<&str> = FILTERS.iter().map(|(name, ..)| *name).collect();
    let there: Vec<String> = sorted(&root().join("spec/traces/filters")).iter().map(|p| name(p)).collect();
    assert_eq!(named.into_iter().collect::<Vec<_>>(), there, "every trace has a mutant");
}

/// True if the packets differ, and not only the output of `show`.
fn packets_differ(replayed: &Replayed) -> bool {
    let of_packets = |aspect: Aspect| !matches!(aspect, Aspect::Counters | Aspect::Text | Aspect::Status);
    replayed.differences.iter().any(|d| of_packets(d.aspect))
}

/// Commands of traces by chance with another value: the packets alone tell them apart.
const BY_CHANCE: &[(&str, &str, &str)] = &[
    ("netem/chance-loss", "loss 10%", "loss 6%"),
    ("netem/chance-loss", "loss 10%", "loss 14%"),
    ("netem/chance-loss-correlated", "30% 25%", "30%"),
    ("netem/chance-loss-correlated", "30% 25%", "22.6%"),
    ("netem/chance-gemodel", "gemodel 5% 30% 80% 1%", "13.3%"),
    ("netem/chance-state", "state 2% 20% 30% 40% 1%", "8.2%"),
    ("netem/chance-ecn", "20%", "15%"),
    ("netem/chance-jitter", "20ms 5ms distribution normal", "1us"),
    ("netem/chance-jitter", "20ms 5ms distribution normal", "20ms"),
    ("netem/chance-jitter", "20ms 5ms distribution normal", "20ms 5ms"),
    ("netem/chance-jitter", "20ms 5ms distribution normal", "20ms 4ms distribution normal"),
    ("netem/chance-jitter", "20ms 5ms distribution normal", "20ms 5ms distribution pareto"),
    ("netem/chance-jitter-uniform", "20ms 5ms 30%", "1us"),
    ("netem/chance-jitter-uniform", "20ms 5ms 30%", "500ms 400ms"),
    ("netem/chance-duplicate", "10%", "6%"),
    ("netem/chance-reorder", "reorder 25% 50%", "reorder 0%"),
    ("netem/chance-reorder", "reorder 25% 50%", "reorder 100%"),
    ("netem/chance-reorder", "reorder 25% 50%", "reorder 25%"),
    ("netem/chance-slots", "5ms 15ms", "6ms 16ms"),
    ("red/chance", "probability 0.1", "probability 0.02"),
    ("red/chance", "max 60000", "max 100000"),
    ("red/chance-ecn", "probability 0.1", "probability 0.02"),
    ("red/chance", "max 60000", "max 30000"),
    ("sfq/chance-drop", "probability 0.3", "probability 0.03"),
    ("sfq/chance-long", "probability 0.3", "probability 0.6"),
    ("sfq/chance-hard", "probability 0.2", "probability 0.5"),
    ("pie/chance-slight", "pie limit 10000", "pie limit 10000 target 40ms"),
    ("pie/chance-slight", "pie limit 10000", "pie limit 10000 alpha 4"),
    ("pie/chance-overload", "pie limit 10000", "pie limit 10000 target 40ms"),
    ("pie/chance-ecn", "pie limit 10000", "pie limit 10000 target 40ms"),
    ("pie/chance-bytemode", "pie limit 10000", "pie limit 10000 target 40ms"),
    ("pie/chance-estimator", "pie limit 10000", "pie limit 10000 target 40ms"),
    ("pie/chance-target", "target 5ms", "target 40ms"),
];

#[test]
fn a_trace_by_chance_tells_a_mutated_command_by_its_packets() {
    let missed: Vec<_> =
        BY_CHANCE.iter().filter(|(name, from, to)| !packets_differ(&mutated(name, from, to))).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// A counter that no run here shows is a difference, if the trace does not waive it.
#[test]
fn a_trace_by_chance_misses_a_counter_that_only_linux_shows() {
    let text = fs::read_to_string(root().join("spec/traces/red/chance.jsonl")).expect("a trace");
    let counted = text.replace("\"early\":", "\"elsewhere\":7,\"early\":");
    assert_ne!(counted, text);
    let replayed = Trace::read(&counted).expect("a trace").replay();
    let said = table(std::slice::from_ref(&replayed), false);
    assert!(!replayed.is_equal() && said.contains("elsewhere"), "{said}");
    assert!(replayed.differences.iter().all(|d| d.aspect == Aspect::Counters), "{said}");
    let waives = "\"parity\":[{\"row\":\"red-adaptive\",\"waives\":[\"elsewhere\"]}],\"seed\":";
    let waived = Trace::read(&counted.replacen("\"seed\":", waives, 1)).expect("a trace").replay();
    assert!(waived.is_equal(), "{}", table(&[waived], true));
}

/// Rows of PARITY.md whose traces differ from this code, each with the command that means here what
/// the other one means in Linux.
#[test]
fn a_named_difference_by_chance_is_seen_and_named() {
    for (name, row, from, to) in [
        ("red/adaptive", "red-adaptive", " adaptive", ""),
        ("netem/chance-duplicate-correlated", "netem-duplicate-correlation", "10% 30%", "10%"),
    ] {
        let text = fs::read_to_string(root().join("spec/traces").join(name).with_extension("jsonl"));
        let replayed = Trace::read(&text.expect("a trace")).expect("a trace").replay();
        let said = table(std::slice::from_ref(&replayed), false);
        assert!(replayed.is_equal() && packets_differ(&replayed), "{said}");
        assert_eq!(replayed.meant(), [row]);
        assert!(said.contains(&format!("equal but for {row}")), "{said}");
        let as_linux = mutated(name, from, to);
        assert!(!packets_differ(&as_linux), "{}", table(&[as_linux], true));
    }
}

/// The options that `show` prints are compared exactly where the counters are drawn.
#[test]
fn a_trace_by_chance_tells_a_small_change_by_the_options() {
    let replayed = mutated("netem/chance-loss", "loss 10%", "loss 10.5%");
    assert!(!packets_differ(&replayed), "{}", table(&[replayed], true));
    let aspects: Vec<Aspect> = replayed.differences.iter().map(|d| d.aspect).collect();
    assert!(aspects.contains(&Aspect::Text) && aspects.contains(&Aspect::Counters), "{aspects:?}");
}

/// Classes that are flows have no number in it. The qdisc itself, which hfsc lists among them, has
/// none anywhere.
const HASHED: &str = include_str!("replay/hashed.jsonl");

#[test]
fn classes_without_numbers_are_compared_by_the_rest_of_their_text() {
    assert_eq!(differences(HASHED), []);
    for (from, to) in
        [("class hfsc 1: root", "class hfsc 1:_ root"), ("rtwork 2000 bytes", "rtwork 2001 bytes")]
    {
        let changed = HASHED.replacen(from, to, 1);
        assert_ne!(changed, HASHED, "{from}");
        assert_eq!(differences(&changed), [Aspect::Text], "{from} -> {to}");
    }
}

/// Packets of a burst arrived within two grains of the time of a timer: the trace does not say
/// which came first.
const TIE: &str = include_str!("replay/tie.jsonl");

#[test]
fn a_packet_at_the_time_of_a_timer_is_a_tie() {
    let trace = Trace::read(TIE).expect("a trace");
    let mut replayed = trace.replay();
    assert!(!replayed.is_equal());
    replayed.ties = trace.ties();
    assert_eq!(replayed.ties, Some(2));
    assert!(table(&[replayed], false).contains("equal but for 2 packets at a timer"));
    // No order of ties makes up for another law.
    for (from, to) in [
        ("limit 16", "limit 15"),
        ("flow_limit 3", "flow_limit 2"),
        ("maxrate 19000000bit", "maxrate 19500000bit"),
    ] {
        let changed = TIE.replacen(from, to, 1);
        assert_ne!(changed, TIE, "{from}");
        assert_eq!(Trace::read(&changed).expect("a trace").ties(), None, "{from} -> {to}");
    }
    // A trace by chance is compared packet by packet for this, and not by distribution.
    let by_chance = TIE.replacen('{', "{\"random\":true,", 1);
    assert_eq!(Trace::read(&by_chance).expect("a trace").ties(), Some(2));
    let changed = by_chance.replacen("flow_limit 3", "flow_limit 2", 1);
    assert_eq!(Trace::read(&changed).expect("a trace").ties(), None);
}

/// Frames of bursts met the qdisc some grains of the clock apart, and a shaper of 400 Mbit/s saw
/// the difference.
const BURST: &str = include_str!("replay/burst.jsonl");

#[test]
fn packets_of_one_instant_may_come_grains_apart() {
    let trace = Trace::read(BURST).expect("a trace");
    assert!(!trace.replay().is_equal());
    let behind_others = 92;
    assert_eq!(trace.ties(), Some(behind_others));
    let changed = BURST.replacen("rate 400000000bit", "rate 390000000bit", 1);
    assert_ne!(changed, BURST);
    assert_eq!(Trace::read(&changed).expect("a trace").ties(), None);
}

/// A plug is released while a timer of the hfsc above it runs, and its packets leave at once.
const RELEASED: &str = include_str!("replay/released.jsonl");

#[test]
fn a_released_plug_waits_for_no_timer() {
    assert_eq!(differences(RELEASED), []);
    let changed = RELEASED.replacen("plug release_indefinite", "plug limit 30000", 1);
    assert_ne!(changed, RELEASED);
    assert_eq!(differences(&changed)[..1], [Aspect::Order]);
}

/// A timer of cake's own fired in Linux after a change, and a packet could leave: PARITY.md,
/// own-timers.
const WAKES: &str = include_str!("replay/wakes.jsonl");

#[test]
fn a_wake_is_waived_where_the_packet_may_leave_then() {
    let equal = |text: &str| Trace::read(text).expect("a trace").replay().is_equal();
    assert!(equal(WAKES));
    for (from, to) in [("\"wakes\"", "\"none\""), ("bandwidth 18", "bandwidth 17")] {
        let changed = WAKES.replacen(from, to, 1);
        assert_ne!(changed, WAKES, "{from}");
        assert!(!equal(&changed), "{from} -> {to}");
    }
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
        with(4, "{\"send\":[[3600000000001,0,100]]}"),
        "line 4: expected a time within an hour of time 0, given 3600000000001 ns"
    );
    assert_eq!(
        with(5, "{\"depart\":[[-9223372036854775808,0]]}"),
        "line 5: expected a time within an hour of time 0, given -9223372036854775808 ns"
    );
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
