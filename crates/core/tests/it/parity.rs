//! The rows of PARITY.md that no other test shows, each with literal numbers; and a check that
//! every row has its test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::lane::{Lane, Out};
use txweir_core::model::testing::VecDevice;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::path::dql::OBJECT_MAX;
use txweir_core::qdisc::{KINDS, kind};
use txweir_core::sched::cx::Cx;
use txweir_core::text::value::{Words, exact_of};
use txweir_core::{
    Admitted, ConfigError, DqlConfig, DropReason, Ecn, Env, Handle, Instant, Meta, Nanos, PathConfig, Rate,
    Role, Tree, TxPath, Unit, Wake,
};

const T0: Instant = Instant::ZERO;

/// no-requeue
#[test]
fn what_waits_for_the_device_is_still_in_the_schedulers_hands() {
    let config = PathConfig { role: Role::Forwarder, bql: None, ..PathConfig::default() };
    let mut path: TxPath<u32> = TxPath::new(config).unwrap();
    let mut dev = VecDevice::with_slots(0);
    for id in [1, 2] {
        assert_eq!(path.submit(T0, id, Meta::new(100).priority(2), &mut dev), Admitted::Queued);
        // The device was asked for a slot, and has refused: no packet was taken out for it.
        assert_eq!(path.drain(T0, 64, &mut dev), Wake::Device);
        assert_eq!((path.backlog().packets, path.tree().root().books().sent.packets), (u64::from(id), 0));
    }
    // An urgent packet that came last leaves first, before the packet that the device refused
    // twice.
    assert_eq!(path.submit(T0, 3, Meta::new(100).priority(6), &mut dev), Admitted::Queued);
    dev.set_slots(3);
    let _ = path.reap(T0, &mut dev, |_| {});
    assert_eq!(path.drain(T0, 64, &mut dev), Wake::Idle);
    assert_eq!(dev.sent(), [3, 1, 2]);
}

/// bulk-quota
#[test]
fn a_promise_is_asked_for_64_packets_and_a_drain_ends_at_its_budget() {
    let mut lane = Lane::new("pfifo", "limit 1000");
    lane.fill(T0, 0, 200, Meta::new(60));
    lane.dev.set_slots(64);
    assert_eq!(lane.path.drain(T0, 1000, &mut lane.dev), Wake::Device);
    assert_eq!((lane.dev.sent().len(), lane.path.stats().stop_drv), (64, 1));
    lane.dev.set_slots(u32::MAX);
    assert_eq!(lane.path.drain(T0, 100, &mut lane.dev), Wake::More);
    assert_eq!((lane.dev.sent().len(), lane.backlog()), (164, 36));
}

/// pool-limit
#[test]
fn the_pool_bounds_all_qdiscs_together() {
    for (role, dropped) in [(Role::Forwarder, true), (Role::Origin, false)] {
        let config = PathConfig { role, pool: 3, bql: None, ..PathConfig::default() };
        let mut path = TxPath::new(config).unwrap().with_qdisc("prio", &[]).unwrap();
        let mut dev = VecDevice::with_slots(0);
        // Three classes of 1000 packets each, and room for three packets.
        for (id, priority) in [(0, 6), (1, 0), (2, 2)] {
            let m = Meta::new(100).priority(priority);
            assert_eq!(path.submit(T0, id, m, &mut dev), Admitted::Queued);
        }
        let expected = if dropped { Admitted::Dropped(DropReason::PoolFull) } else { Admitted::Full(3) };
        assert_eq!(path.submit(T0, 3, Meta::new(100), &mut dev), expected);
        assert_eq!(path.cx().drops(DropReason::PoolFull), u64::from(dropped));
    }
}

/// dql-oversize
#[test]
fn what_the_byte_limit_cannot_count_is_dropped_at_admission() {
    assert_eq!(OBJECT_MAX, 268_435_455);
    let packets = DqlConfig { unit: Unit::Packets, ..DqlConfig::default() };
    for bql in [Some(DqlConfig::default()), Some(packets), None] {
        for role in [Role::Origin, Role::Forwarder] {
            let mut path = TxPath::new(PathConfig { role, bql, ..PathConfig::default() }).unwrap();
            let mut dev = VecDevice::with_slots(9);
            let answer = path.submit(T0, "above", Meta::new(268_435_456), &mut dev);
            assert_eq!(answer, Admitted::Dropped(DropReason::Oversize));
            assert_eq!(path.submit(T0, "largest", Meta::new(268_435_455), &mut dev), Admitted::Sent);
            let inflight = path.tx().limit().map(|d| (d.inflight(), d.stats().refused));
            let counted = bql.map(|b| if b.unit == Unit::Bytes { 268_435_455 } else { 1 });
            assert_eq!((inflight, dev.sent()), (counted.map(|n| (n, 0)), &["largest"][..]));
        }
    }
}

/// handle-reuse
#[test]
fn the_lowest_free_handle_is_given_in_each_tree() {
    let mut cx = Cx::new(1, 0);
    let mut add = |tree: &mut Tree, parent| {
        tree.edit(&mut cx).add(parent, None, "prio", &mut Words::new(&[])).unwrap().to_string()
    };
    let class = |minor| Handle::new(0x8001, minor);
    let mut tree = Tree::new(Env::default());
    assert_eq!(add(&mut tree, Handle::ROOT), "8001:");
    assert_eq!([1, 2, 3].map(|minor| add(&mut tree, class(minor))), ["8002:", "8003:", "8004:"]);
    tree.edit(&mut Cx::new(1, 0)).delete(class(2)).unwrap();
    assert_eq!(add(&mut tree, class(2)), "8003:");
    assert_eq!(add(&mut Tree::new(Env::default()), Handle::ROOT), "8001:");
}

/// As in Linux: a packet that a shaper's peek has taken out counts towards the limit of its qdisc.
#[test]
fn a_packet_held_by_a_peek_counts_towards_the_limit_it_came_from() {
    for (below, options, most) in [
        ("codel", "limit 2", 2),
        ("fq_codel", "limit 2", 2),
        ("fq_pie", "limit 2", 2),
        ("pfifo", "limit 2", 2),
        ("bfifo", "limit 2000", 2),
        ("pfifo_head_drop", "limit 2", 2),
    ] {
        let mut lane = Lane::new("tbf", "rate 1kbps burst 1500 limit 100000");
        lane.graft(T0, Handle::new(0x8001, 1), below, options);
        assert_eq!(most_behind_the_shaper(&mut lane), most, "{below}");
    }
    // prio peeks at its classes, and takes no packet out.
    let mut lane = Lane::new("tbf", "rate 1kbps burst 1500 limit 100000");
    let prio = lane.graft(T0, Handle::new(0x8001, 1), "prio", "");
    lane.graft(T0, Handle::new(prio.major(), 2), "pfifo", "limit 2");
    assert_eq!(most_behind_the_shaper(&mut lane), 2, "prio");
}

/// Sends one packet to empty the bucket, offers ten more, and returns the greatest number that
/// waited.
fn most_behind_the_shaper(lane: &mut Lane) -> u64 {
    lane.fill(T0, 100, 1, Meta::new(1500));
    assert_eq!(lane.take(T0).id(), Some(100));
    let mut most = 0;
    for id in 0..10 {
        let _ = lane.put(T0, id, Meta::new(1000));
        assert!(matches!(lane.take(T0), Out::Wait(_)), "the bucket is empty");
        most = most.max(lane.backlog());
    }
    most
}

/// fq-codel-flows
#[test]
fn saying_the_present_number_of_flows_again_changes_nothing() {
    let mut lane = Lane::new("fq_codel", "flows 64 quantum 300");
    lane.change(T0, Handle::ROOT, "flows 64 quantum 600").unwrap();
    let refused = lane.change(T0, Handle::ROOT, "flows 128").unwrap_err();
    assert!(refused.to_string().contains("cannot change while running"), "{refused}");
}

/// fq-codel-shrink
#[test]
fn what_a_smaller_limit_of_fq_codel_drops_is_counted_as_dropped() {
    let mut lane = Lane::new("fq_codel", "limit 10");
    lane.fill(T0, 0, 5, Meta::new(100));
    lane.change(T0, Handle::ROOT, "limit 2").unwrap();
    let books = lane.path.tree().root().books();
    assert_eq!((books.sent.packets, books.dropped.packets, books.queued.packets), (0, 3, 2));
}

/// fq-pie-flows
#[test]
fn saying_the_present_number_of_flows_of_fq_pie_again_changes_nothing() {
    let mut lane = Lane::new("fq_pie", "flows 64 quantum 300");
    lane.change(T0, Handle::ROOT, "flows 64 quantum 600").unwrap();
    let refused = lane.change(T0, Handle::ROOT, "flows 128").unwrap_err();
    assert!(refused.to_string().contains("cannot change while running"), "{refused}");
}

/// fq-pie-shrink
#[test]
fn what_a_smaller_limit_of_fq_pie_drops_is_counted_as_dropped() {
    let mut lane = Lane::new("fq_pie", "limit 10");
    lane.fill(T0, 0, 5, Meta::new(100));
    lane.change(T0, Handle::ROOT, "limit 2").unwrap();
    let books = lane.path.tree().root().books();
    assert_eq!((books.sent.packets, books.dropped.packets, books.queued.packets), (0, 3, 2));
}

/// fq-pie-memory
#[test]
fn memory_of_fq_pie_counts_frames_and_slots_and_bounds_nothing() {
    let mut lane = Lane::new("fq_pie", "memory_limit 900");
    // 36 bytes and a slot of 64 are 100. A packet is counted if those that wait are above the limit
    // and what it takes itself: from the twelfth on.
    lane.fill(T0, 0, 20, Meta::new(36));
    let counters = ["memory_used", "overmemory", "pkts_in", "dropped"].map(|key| lane.counter(key));
    assert_eq!(counters, [2000, 9, 20, 0]);
    // In Linux the sum has 32 bits, and the greatest limit counts every packet.
    let mut lane = Lane::new("fq_pie", "memory_limit 4294967295");
    lane.fill(T0, 0, 20, Meta::new(36));
    assert_eq!(lane.counter("overmemory"), 0);
}

/// fq-pie-reset
#[test]
fn a_purge_of_fq_pie_leaves_no_memory_in_use() {
    let mut lane = Lane::new("fq_pie", "");
    lane.fill(T0, 0, 20, Meta::new(1000));
    lane.path.purge(T0, &mut lane.dev);
    let counters = ["memory_used", "new_flows_len", "old_flows_len", "pkts_in"].map(|key| lane.counter(key));
    assert_eq!(counters, [0, 0, 0, 20]);
}

/// flow-hash
#[test]
fn a_tag_does_not_make_another_flow() {
    // Ethernet, IPv4 (header of 20 bytes, UDP), ports; and the same with a tag in front.
    let ip = [&[
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 3, 233, 7, 209, 0, 8, 0, 0,
    ][..]]
    .concat();
    let plain = [&[0; 12][..], &[8, 0], &ip].concat();
    let tagged = [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0], &ip].concat();
    let hash = |frame: &[u8]| FlowHasher::new(7).five_tuple(&Headers::parse_ethernet(frame));
    assert_eq!(Headers::parse_ethernet(&tagged).dst_port, 2001);
    assert_eq!(hash(&plain), hash(&tagged));
}

/// tbf-own-child
#[test]
fn a_shapers_limit_is_that_of_its_own_fifo_only() {
    let mut lane = Lane::new("tbf", "rate 1kbps burst 1000 limit 9000");
    lane.graft(T0, Handle::new(0x8001, 1), "bfifo", "limit 5000");
    lane.change(T0, Handle::ROOT, "rate 1kbps burst 1000 limit 2000").unwrap();
    lane.fill(T0, 0, 5, Meta::new(1000));
    assert_eq!(lane.put(T0, 5, Meta::new(1)), Admitted::Dropped(DropReason::Overlimit));
    // The shaper's own child follows.
    let mut lane = Lane::new("tbf", "rate 1kbps burst 1000 limit 9000");
    lane.fill(T0, 0, 5, Meta::new(1000));
    lane.change(T0, Handle::ROOT, "rate 1kbps burst 1000 limit 2000").unwrap();
    assert_eq!(lane.backlog(), 2);
}

/// fq-codel-range
#[test]
fn a_quantum_below_256_and_an_empty_batch_are_refused() {
    let built = |options: &[&str]| match kind("fq_codel")?.build(&mut Words::new(options), &Env::default()) {
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    };
    for (options, said) in [
        (["quantum", "255"], "fq_codel quantum: expected 256 to 1048576 bytes, given \"255\""),
        (["drop_batch", "0"], "fq_codel drop_batch: expected at least 1, given \"0\""),
    ] {
        assert_eq!(built(&options).unwrap_err().to_string(), said);
    }
    assert_eq!(built(&["quantum", "256", "drop_batch", "1"]), Ok(()));
}

/// fq-codel-memory
#[test]
fn memory_counts_frames_and_slots_and_is_kept_at_any_price() {
    let mut lane = Lane::new("fq_codel", "memory_limit 10000 drop_batch 1");
    // 36 bytes and a slot of 64 are 100; the limit is met exactly.
    lane.fill(T0, 0, 100, Meta::new(36));
    assert_eq!((lane.counter("memory_used"), lane.backlog()), (10_000, 100));
    // 1464 bytes more need the room of 15 packets, dropped in batches of one. All are in one flow,
    // whose oldest packets are dropped.
    assert_eq!(lane.put(T0, 100, Meta::new(1400)), Admitted::Queued);
    let expected: Vec<_> = (0..15).map(|id| (id, DropReason::Overmemory)).collect();
    assert_eq!(lane.drops(), expected);
    assert_eq!(lane.counter("memory_used"), 9_964);
}

/// codel-drop-next
#[test]
fn codel_tells_the_next_drop_as_seen_from_the_last_dequeue() {
    let mut lane = Lane::new("codel", "");
    lane.fill(T0, 0, 8, Meta::new(1000));
    assert_eq!(lane.take(Instant::from_millis(20)).id(), Some(0));
    // The delay is bad for an interval: packet 1 is dropped, and the next drop is an interval away.
    assert_eq!(lane.take(Instant::from_millis(130)).id(), Some(2));
    assert_eq!(lane.drops(), [(1, DropReason::Congested)]);
    assert_eq!(lane.counter("drop_next"), 99_997);
    // Time has passed without a dequeue: the shown value is unchanged.
    lane.path.configure(Instant::from_millis(500), &mut lane.dev, |_, _| ());
    assert_eq!(lane.counter("drop_next"), 99_997);
}

/// A row of PARITY.md: its section, its name, the tests that it names.
struct Row {
    section: String,
    name: String,
    tests: Vec<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the rows of all tables of PARITY.md.
fn rows() -> Vec<Row> {
    let (mut rows, mut section) = (Vec::new(), String::new());
    for line in read(&repository().join("PARITY.md")).lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.to_string();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, _, tests, _] = cells[..] else {
            assert!(!line.starts_with('|'), "not a row of four cells: {line}");
            continue;
        };
        if name != "name" && !name.starts_with("---") {
            let tests = quoted(tests).map(String::from).collect();
            rows.push(Row { section: section.clone(), name: name.to_string(), tests });
        }
    }
    rows
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the files under `dir` that end in `.rs`.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => sources(&path, found),
            path if path.extension().is_some_and(|e| e == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// Returns the names of all tests of the repository.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        let home = entry.unwrap().path();
        sources(&home.join("src"), &mut files);
        sources(&home.join("tests"), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = read(&file);
        for after in text.split("#[test]\n").skip(1) {
            let declared = after.lines().find_map(|l| l.trim().strip_prefix("fn "));
            names.extend(declared.and_then(|f| f.split('(').next()).map(String::from));
        }
        // Those that a macro defines for the files of transcripts.
        for list in text.split("\ncompared! {\n").skip(1).filter_map(|after| after.split("\n}").next()) {
            names.extend(list.lines().filter_map(|l| l.trim().split(": \"").next()).map(String::from));
        }
    }
    names
}

#[test]
fn every_row_of_parity_names_a_test_that_exists() {
    let (rows, tests) = (rows(), tests());
    assert!(rows.len() > 30 && tests.len() > 200, "{} rows, {} tests", rows.len(), tests.len());
    let mut seen = BTreeSet::new();
    for Row { name, tests: named, .. } in &rows {
        assert!(name.contains('-'), "{name}: names have a hyphen, by which they are told from options");
        assert!(seen.insert(name), "{name} is there twice");
        assert!(!named.is_empty(), "{name} names no test");
        for test in named {
            assert!(tests.contains(test), "{name}: there is no test {test}");
        }
    }
}

#[test]
fn every_law_of_the_architecture_names_a_test_that_exists() {
    let text = read(&repository().join("ARCHITECTURE.md"));
    let laws = text.split("| law | test |").nth(1).and_then(|t| t.split("\n\n").next()).unwrap();
    let (tests, mut laws_seen) = (tests(), 0);
    for line in laws.lines().filter(|l| l.starts_with("| ") || l.starts_with("|`")) {
        let named: Vec<&str> = quoted(line.trim_end_matches('|').rsplit('|').next().unwrap()).collect();
        assert!(!named.is_empty(), "no test: {line}");
        for name in named {
            let exists = match name.ends_with(".rs") {
                true => repository().join("crates").join(name).exists(),
                false => tests.contains(name),
            };
            assert!(exists, "there is no {name}: {line}");
        }
        laws_seen += 1;
    }
    assert!(laws_seen >= 13, "{laws_seen} laws");
}

/// Every link of the comparison resolves, every test that it names exists, and no kind is left out.
#[test]
fn the_comparison_names_pages_and_tests_that_exist() {
    let file = repository().join("docs/COMPARE.md");
    let (text, tests) = (read(&file), tests());
    let links: Vec<&str> = text.split("](").skip(1).filter_map(|t| t.split([')', '#']).next()).collect();
    for link in &links {
        assert!(repository().join("docs").join(link).exists(), "docs/COMPARE.md: {link} is not there");
    }
    let mut named = 0;
    for line in text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| |")) {
        let cell = line.split(" | ").nth(1).unwrap();
        for name in quoted(cell).filter(|n| n.contains('_')) {
            assert!(tests.contains(name), "docs/COMPARE.md: there is no test {name}");
            named += 1;
        }
        let answered = cell.starts_with("no") || cell.contains("](") || cell.contains('`') || cell == "yes";
        assert!(answered, "docs/COMPARE.md: neither page nor test: {line}");
    }
    assert!(named > 25 && links.len() > 30, "{named} tests, {} links", links.len());
    for spec in KINDS {
        let page = ["bfifo"].contains(&spec.kind);
        assert!(
            page || text.contains(&format!("qdisc/{}.md", spec.kind)),
            "docs/COMPARE.md: no {}",
            spec.kind
        );
    }
}

/// A page about a kind, the module of that kind, and the table list the same differences.
#[test]
fn pages_and_modules_name_the_rows_that_there_are() {
    let rows = rows();
    let known = |name: &str, place: &Path| {
        assert!(rows.iter().any(|r| r.name == name), "{}: PARITY.md has no {name}", place.display());
    };
    let mut in_modules: BTreeSet<String> = BTreeSet::new();
    let mut files = Vec::new();
    sources(&repository().join("crates"), &mut files);
    for file in files.iter().filter(|f| !f.ends_with("tests/it/parity.rs")) {
        let text = read(file).replace("\n//! ", " ").replace("\n//!   ", " ");
        for list in text.split("(PARITY.md: ").skip(1).map(|t| t.split(')').next().unwrap()) {
            for name in list.split(',').map(|n| n.split_whitespace().collect::<String>()) {
                known(&name, file);
                in_modules.insert(name);
            }
        }
    }
    let mut on_pages: BTreeSet<String> = BTreeSet::new();
    let mut pages = vec![repository().join("docs/bql.md")];
    pages.extend(fs::read_dir(repository().join("docs/qdisc")).unwrap().map(|e| e.unwrap().path()));
    pages.extend(fs::read_dir(repository().join("docs/action")).unwrap().map(|e| e.unwrap().path()));
    for page in pages {
        let text = read(&page);
        let section = text.split("## Differences from Linux").nth(1).unwrap_or("");
        for name in quoted(section.split("\n## ").next().unwrap()).filter(|n| n.contains('-')) {
            known(name, &page);
            on_pages.insert(name.to_string());
        }
    }
    for Row { name, section, .. } in &rows {
        match section.as_str() {
            "Kinds" | "Kinds of actions" => {
                assert!(in_modules.contains(name) && on_pages.contains(name), "{name}")
            }
            "Byte queue limit" => assert!(on_pages.contains(name), "{name}: docs/bql.md is silent"),
            _ => {}
        }
    }
}

/// Returns a tbf on a link of this rate.
fn tbf_on(link: Option<Rate>, options: &str) -> Result<String, ConfigError> {
    let words: Vec<&str> = options.split(' ').collect();
    let env = Env { link_rate: link, ..Env::default() };
    let mut qdisc = kind("tbf")?.build(&mut Words::new(&words), &env)?;
    // A change reads the options as a creation does.
    qdisc.change(&mut Words::new(&words), &env, &mut Cx::new(1, 0))?;
    let mut shown = String::new();
    qdisc.options(&mut |s| {
        if s.value.is_set() {
            shown += &format!("{} {} ", s.param.key, exact_of(s.value));
        }
    });
    Ok(shown)
}

/// rate-percent
#[test]
fn a_rate_may_be_a_share_of_the_link() {
    let link = Some(Rate::from_bits(1_000_000_000));
    let shown = tbf_on(link, "rate 12.5% burst 6000 limit 9000 peakrate 100% mtu 2000").unwrap();
    assert_eq!(
        shown,
        "rate 15625000bps burst 6000b limit 9000b peakrate 125000000bps mtu 2000b mpu 0 overhead 0 linklayer ethernet "
    );
    let said = |link, rate: &str| {
        tbf_on(link, &format!("rate {rate} burst 6000 limit 9000")).unwrap_err().to_string()
    };
    assert_eq!(
        said(None, "50%"),
        "tbf rate: 50% of a link whose rate is not known (give an absolute rate, as in 10mbit, or give the rate of the link)"
    );
    assert_eq!(said(link, "100.5%"), "tbf rate: expected at most 100% of the link's rate, given \"100.5%\"");
    assert_eq!(said(link, "0%"), "tbf rate: expected at least 8bit, given \"0%\"");
    assert!(said(link, "x%").starts_with("tbf rate: expected a rate (10mbit"));
    // Options may set a rate of their own where the device knows none.
    let words = ["rate", "50%", "burst", "6000", "limit", "9000"];
    let mut words = Words::new(&words).link_rate(Rate(1000));
    assert!(kind("tbf").unwrap().build(&mut words, &Env::default()).is_ok());
}

/// rate-table-cell
#[test]
fn a_cell_after_a_size_has_no_effect() {
    let with = tbf_on(None, "rate 1mbit burst 5kb/8 limit 9000 peakrate 2mbit minburst 1514/8").unwrap();
    let without = tbf_on(None, "rate 1mbit burst 5kb limit 9000 peakrate 2mbit minburst 1514").unwrap();
    assert_eq!(with, without);
    for cell in ["5kb/3", "5kb/256", "5kb/", "5kb/0"] {
        let err = tbf_on(None, &format!("rate 1mbit burst {cell} limit 9000")).unwrap_err().to_string();
        let expected = "tbf burst: expected a cell that is a power of two from 1 to 128, given ";
        assert_eq!(err, format!("{expected}\"{cell}\""));
    }
    // Only for options that tc accepts.
    assert!(tbf_on(None, "rate 1mbit burst 5kb limit 9000/8").is_err());
}

/// ecn-pages
#[test]
fn a_frame_of_any_length_is_marked() {
    let mut lane = Lane::new("codel", "ecn ce_threshold 1ms");
    lane.fill(T0, 0, 1, Meta::new(9014).ecn(Ecn::Ect0));
    let Out::Sent(0, meta) = lane.take(T0 + Nanos::from_millis(2)) else { panic!("it leaves") };
    assert!(meta.marked);
}

/// pfifo-fast-batch
#[test]
fn the_place_of_a_packet_that_left_is_free_at_once() {
    let env = Env { tx_queue_len: 40, ..Env::default() };
    let mut lane = Lane::on(env, "pfifo_fast", "");
    lane.fill(T0, 0, 40, Meta::new(100));
    for id in 40..60 {
        let over = Admitted::Dropped(DropReason::Overlimit);
        assert_eq!(lane.put(T0, id, Meta::new(100)), over, "the band is full");
        assert_eq!(lane.take(T0).id(), Some(id - 40));
        lane.fill(T0, id, 1, Meta::new(100));
    }
}
