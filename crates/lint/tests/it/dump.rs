//! Dumps of a machine as lines of tc: what Linux's tc printed in the recordings, what txweir's own
//! prints, refusals by their text, and dumps that are damaged.

mod classes;
mod live;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use txweir_core::Env;
use txweir_core::base::rng::Rng;
use txweir_lint::dump::{self, Counted, Dump};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Outcome, Request, run, save};

fn tc(devices: &mut Memory, line: &str) -> Outcome {
    let args = line.split_whitespace().map(String::from).collect();
    run(&Request { args, ..Request::default() }, devices)
}

/// Returns devices with these names and queues after these lines, all of which succeed.
fn made(names: &[&str], queues: u32, lines: &str) -> Memory {
    let queues_of = u16::try_from(queues).unwrap_or(1);
    // The recordings of several queues are of an interface that tells its speed.
    let link_rate = (queues > 1).then_some(txweir_core::Rate(1_250_000_000));
    let env = Env { queues: queues_of, link_rate, ..Env::default() };
    let devices = names.iter().map(|name| MemoryDevice::new(name, queues, env));
    let mut memory = devices.fold(Memory::default(), Memory::with);
    let batch = Some(Source::new("dump", lines));
    let request = Request { args: vec!["-b".into(), "dump".into()], batch, ..Request::default() };
    let done = run(&request, &mut memory);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{lines}");
    memory
}

/// Returns the dump of a device as the tool prints it, with `flags`.
fn dumped(devices: &mut Memory, dev: &str, flags: &str) -> String {
    let mut out = format!("{{\"dev\":\"{dev}\"}}\n");
    for what in ["qdisc", "class", "filter"] {
        out.push_str(&tc(devices, &format!("{flags} -j {what} show dev {dev}")).stdout);
    }
    for end in ["ingress", "egress"] {
        let said = tc(devices, &format!("{flags} -j filter show dev {dev} {end}"));
        if said.status == 0 && said.stdout.trim() != "[]" && !said.stdout.is_empty() {
            out.push_str(&format!("{{\"{end}\":{}}}\n", said.stdout.trim()));
        }
    }
    out
}

fn read(text: &str) -> Result<Dump, String> {
    dump::read(text, "host.json", None).map_err(|refusal| refusal.to_string())
}

fn folder(under: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec").join(under)
}

/// Files below a folder, in order.
fn files(under: &str, end: &str) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    let mut left = vec![folder(under)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("a folder").map(|e| e.expect("an entry").path()));
        } else if path.extension().is_some_and(|e| e == end) {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// Returns the configuration in the list that `tc -j qdisc show` prints.
fn configured(qdiscs: &Value) -> Vec<String> {
    let one = |q: &Value| {
        let mut options = q["options"].clone();
        if let Some(all) = options.as_object_mut() {
            // A counter of htb stands among the options.
            all.remove("direct_packets_stat");
        }
        let queues = options.get_mut("vqs").and_then(Value::as_array_mut);
        for queue in queues.into_iter().flatten().filter_map(Value::as_object_mut) {
            // So do those of the queues of gred. A cell follows from the bandwidth, which is not
            // printed.
            let kept = ["vq", "prio", "limit", "min", "max", "ecn", "harddrop", "ewma", "probability"];
            queue.retain(|key, _| kept.contains(&key.as_str()));
        }
        format!("{} {} {} {} {options}", q["kind"], q["handle"], q["root"], q["parent"])
    };
    let mut all: Vec<String> = qdiscs.as_array().into_iter().flatten().map(one).collect();
    all.sort();
    all
}

fn class_lines(text: &str) -> Vec<&str> {
    let made = |line: &&str| line.starts_with("class htb ") || line.starts_with("class drr ");
    // The order of a listing is that of a hash, and of making.
    let mut all: Vec<&str> = text.lines().filter(made).collect();
    all.sort_unstable();
    all
}

/// True for the output of `tc -d`.
fn has_details(text: &str) -> bool {
    text.contains(" ver 3.17") || text.contains("/1 mpu ")
}

/// Returns the lines that only one of two lists has.
fn differing<T: PartialEq + std::fmt::Display>(told: &str, ours: &[T], linux: &[T]) -> String {
    let only = |sign: &str, these: &[T], those: &[T]| -> String {
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("{sign} {line}\n")).collect()
    };
    format!("{told}\n{}{}", only("-", linux, ours), only("+", ours, linux))
}

/// The qdiscs of each recording as Linux's tc printed them, and its classes in text: the lines make
/// qdiscs and classes of which txweir prints the same.
#[test]
fn recordings_of_linux_are_carried_over() {
    let (mut carried, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for path in files("traces", "jsonl") {
        let text = std::fs::read_to_string(&path).expect("a trace");
        let mut shows = text.lines().filter(|line| line.contains("\"show\":"));
        let Some(show) = shows.next_back() else { continue };
        let show: Value = serde_json::from_str(show).expect("JSON");
        let show = &show["show"];
        if show["qdisc"].is_null() {
            continue;
        }
        let classes = show["class_text"].as_str().unwrap_or("");
        let told = path.display().to_string();
        let dump = match read(&format!("{}\n{classes}", show["qdisc"])) {
            Ok(dump) => dump,
            Err(said) => {
                let reason = said.rsplit(": ").next().unwrap_or("").to_string();
                *refused.entry(reason).or_insert(0) += 1;
                continue;
            }
        };
        let lines: String = dump
            .lines
            .replace("qdisc replace", "qdisc replace dev v0")
            .replace("class replace", "class replace dev v0");
        // A root with a class for each queue needs as many as there were.
        let head: Value = serde_json::from_str(text.lines().next().unwrap_or("")).expect("JSON");
        let by_queue = ["cake_mq", "mq", "mqprio", "taprio"].map(|kind| format!(" {kind}"));
        let by_queue = lines.lines().any(|line| {
            by_queue.iter().any(|kind| line.ends_with(kind) || line.contains(&format!("{kind} ")))
        });
        let queues = head["device"]["queues"].as_u64().filter(|_| by_queue);
        let queues = queues.map_or(1, |n| u32::try_from(n).expect("few queues"));
        let mut devices = made(&["v0"], queues, &lines);
        // Its bucket overflows the kernel's 32 bits of ticks: no size has the part that is left.
        // The queue that cbs makes is one that commands make here: it has another limit.
        // A class of mq never loses its qdisc here.
        let apart = ["pie/minutes-longer", "cbs/default-limit", "mq/delete-own", "mqprio/delete-own"];
        if apart.iter().any(|name| path.ends_with(format!("{name}.jsonl"))) {
            continue;
        }
        carried += 1;
        let details = if show["qdisc_text"].as_str().is_some_and(has_details) { "-d " } else { "" };
        let again = tc(&mut devices, &format!("{details}-j qdisc show dev v0")).stdout;
        let again: Value = serde_json::from_str(&again).expect("JSON");
        if configured(&again) != configured(&show["qdisc"]) {
            wrong.push(differing(&told, &configured(&again), &configured(&show["qdisc"])));
        }
        let again = tc(&mut devices, &format!("{details}class show dev v0")).stdout;
        if class_lines(&again) != class_lines(classes) {
            wrong.push(differing(&told, &class_lines(&again), &class_lines(classes)));
        }
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.concat());
    let expected = [
        // red, gred and choke without -d.
        ("expected that of tc -d", 69),
        ("its bucket is printed in cells", 1),
        // tbf with a peak rate.
        ("tc does not print it as JSON", 3),
        ("tc does not print redflowlimit, avpkt and burst", 11),
    ];
    let expected = expected.into_iter().map(|(reason, n)| (reason.to_string(), n)).collect();
    assert_eq!((carried, refused), (747, expected));
}

/// Filters as Linux's tc lists them, and the same after the lines of the dump.
#[test]
fn filters_of_linux_are_carried_over() {
    let (mut carried, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for path in files("tc/linux", "txt") {
        let text = std::fs::read_to_string(&path).expect("a transcript");
        let mut devices = Memory::new(&["lan", "wan"]);
        for command in text.split("\n$ ").map(|part| part.trim_start_matches("$ ")) {
            let (line, said) = command.split_once('\n').unwrap_or((command, ""));
            let Some(words) = line.strip_prefix("tc ") else { continue };
            if words != "-j filter show dev lan" || !said.starts_with("[{") {
                let args = quoted(words);
                run(&Request { args, ..Request::default() }, &mut devices);
                continue;
            }
            let listed = said.lines().next().unwrap_or("");
            let qdiscs = tc(&mut devices, "-j qdisc show dev lan").stdout;
            let classes = tc(&mut devices, "-j class show dev lan").stdout;
            let dump = match read(&format!("{{\"dev\":\"lan\"}}{qdiscs}{classes}{listed}")) {
                Ok(dump) => dump,
                Err(said) => {
                    let reason = said.rsplit(": ").next().unwrap_or("").to_string();
                    *refused.entry(reason).or_insert(0) += 1;
                    continue;
                }
            };
            carried += 1;
            let mut again = made(&["lan", "wan"], 1, &dump.lines);
            let again = tc(&mut again, "-j filter show dev lan").stdout;
            if filters(&again) != filters(listed) {
                let told = format!("{}\n{}", path.display(), dump.lines);
                wrong.push(differing(&told, &filters(&again), &filters(listed)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.concat());
    assert_eq!((carried, refused), (5, BTreeMap::new()));
}

/// After each command of the transcripts, which print what Linux's tc prints: the lines of the dump
/// of each device make devices with the same dump.
#[test]
fn the_dump_of_a_dump_is_the_same() {
    let (mut carried, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for path in files("tc/linux", "txt") {
        let text = std::fs::read_to_string(&path).expect("a transcript");
        let mut devices = Memory::new(&["lan", "wan"]);
        for line in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
            let done = run(&Request { args: quoted(line), ..Request::default() }, &mut devices);
            if done.status != 0 || line.contains(" show ") || line.contains(" ls ") {
                continue;
            }
            let given = dumped(&mut devices, "lan", "-d");
            let dump = match read(&given) {
                Ok(dump) => dump,
                Err(said) => {
                    let reason = said.rsplit(": ").next().unwrap_or("").to_string();
                    *refused.entry(reason).or_insert(0) += 1;
                    continue;
                }
            };
            carried += 1;
            let batch = Some(Source::new("dump", dump.lines.as_str()));
            let request = Request { args: vec!["-b".into(), "dump".into()], batch, ..Request::default() };
            let mut again = Memory::new(&["lan", "wan"]);
            let done = run(&request, &mut again);
            if done.stderr.contains("hash table not found") {
                // Linux lists no table whose priority is deleted.
                *refused.entry("a hidden table".into()).or_insert(0) += 1;
                continue;
            }
            if done.status != 0 {
                wrong.push(format!("{}: {line}\n{}{}", path.display(), dump.lines, done.stderr));
                continue;
            }
            let again = dumped(&mut again, "lan", "-d");
            let parts = |text: &str| text.lines().flat_map(filters).collect::<Vec<_>>();
            if parts(&again) != parts(&given) {
                let told = format!("{}: {line}\n{}", path.display(), dump.lines);
                wrong.push(differing(&told, &parts(&again), &parts(&given)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.concat());
    let expected = [
        ("\"ingress_block\" cannot be carried over, given 21", 23),
        ("\"ingress_block\" cannot be carried over, given 22", 4),
        ("a hidden table", 3),
        ("tc does not print its rate and burst as JSON", 1),
        ("tc prints prefixes of other lengths", 2),
    ];
    let expected = expected.into_iter().map(|(reason, n)| (reason.to_string(), n)).collect();
    assert_eq!((carried, refused), (1023, expected));
}

/// Policies of each kind whose values the dump tells without loss.
const POLICIES: &str = include_str!("../../../../spec/from/policies.txt");

/// Returns them, each with the queues that it needs.
fn policies() -> impl Iterator<Item = (&'static str, u32)> {
    let queues = |policy: &str| {
        if ["mq", "multiq", "taprio"].iter().any(|kind| policy.contains(kind)) { 3 } else { 1 }
    };
    POLICIES.split("\n\n").map(move |policy| (policy, queues(policy)))
}

/// The parts of them that tc prints with `-d` only.
const DETAILS: [&str; 5] = [
    " stab linklayer ethernet overhead 18 mpu 64 mtu 2047 tsize 512",
    " quantum 3000",
    " flows 60",
    " flows 128",
    " mpu 60",
];

/// The law of dumps: the lines of a dump make what was dumped, to the last digit that tc prints.
#[test]
fn a_policy_is_saved_as_it_was_before_its_dump() {
    for (policy, queues) in policies() {
        let policy = format!("{}\n", policy.trim_end());
        let mut devices = made(&["a", "b"], queues, &policy);
        let given = dumped(&mut devices, "a", "-d");
        let dump = read(&given).unwrap_or_else(|said| panic!("{policy}{given}{said}"));
        let counted = read(&dumped(&mut devices, "a", "-s -d")).map(|dump| dump.lines);
        assert_eq!(counted.as_ref(), Ok(&dump.lines), "{policy}");
        let plain = read(&dumped(&mut devices, "a", "-p")).map(|dump| dump.lines);
        let details = |lines: String, part| lines.replace(part, "");
        assert_eq!(plain, Ok(DETAILS.into_iter().fold(dump.lines.clone(), details)), "{policy}");
        let mut again = made(&["a", "b"], queues, &dump.lines);
        assert_eq!(dumped(&mut again, "a", "-d"), given, "{policy}{}", dump.lines);
        assert_eq!(save(&mut again), save(&mut devices), "{policy}{given}{}", dump.lines);
        assert_eq!((dump.dev.as_deref(), u32::from(dump.queues)), (Some("a"), queues), "{policy}");
    }
}

const CARD: &str = include_str!("../../../../spec/from/card.json");

/// The output of iproute2 6.1 on Linux 6.18 about a veth with four queues, read as it is.
#[test]
fn a_machine_is_carried_over() {
    let text = std::fs::read_to_string(folder("from/mq.json")).expect("a dump");
    let dump = read(&text).expect("it is carried over");
    let lines = "qdisc replace dev eth0 root handle 1: mq
qdisc replace dev eth0 parent 1:2 handle 20: pfifo limit 50
qdisc replace dev eth0 parent 1:4 handle 40: bfifo limit 30720b
qdisc replace dev eth0 clsact
filter replace dev eth0 egress protocol ip prio 1 handle 0x1 bpf bytecode '1,6 0 0 1,' classid 1:2
filter replace dev eth0 egress protocol ipv6 prio 2 handle 0x1 bpf bytecode '1,6 0 0 4294967295,' classid 1:4
";
    assert_eq!((dump.lines.as_str(), dump.queues, dump.notes.len()), (lines, 4, 1));
    assert!(dump.notes[0].contains("no filters of its ingress are in the dump"), "{:?}", dump.notes);
    let mut devices = made(&["eth0"], 4, &dump.lines);
    let again: Value = serde_json::from_str(&tc(&mut devices, "-j qdisc show").stdout).expect("JSON");
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or("")).expect("JSON");
    let of_eth0 =
        |lists: &Value| configured(lists).into_iter().filter(|q| !q.contains("noqueue")).collect::<Vec<_>>();
    assert_eq!(of_eth0(&again), of_eth0(&first));
}

/// A network card as the kernel sets it up: mq without a number, which the lines give it.
#[test]
fn a_root_of_the_kernel_gets_a_number() {
    let dump = read(CARD).expect("a dump");
    let leaf = "fq_codel limit 10240 flows 1024 quantum 1514 target 5000us interval 100000us \
                memory_limit 33554432b ecn drop_batch 64";
    let lines = format!(
        "qdisc replace dev eth0 root handle 1: mq\n\
         qdisc replace dev eth0 parent 1:1 {leaf}\nqdisc replace dev eth0 parent 1:2 {leaf}\n"
    );
    let counted = Some(Counted { bytes: 9000, packets: 12, drops: 1, backlog: 300 });
    assert_eq!(dump, Dump { lines, dev: Some("eth0".into()), queues: 2, notes: Vec::new(), counted });
    let mut devices = made(&["eth0"], 2, &dump.lines);
    let again = tc(&mut devices, "-j qdisc show dev eth0").stdout;
    assert_eq!(again.matches("\"kind\":\"fq_codel\"").count(), 2, "{again}");
    // The number is one that no other qdisc has.
    let taken = r#"[{"kind":"mq","handle":"0:","dev":"eth0","root":true,"options":{}},
        {"kind":"pfifo","handle":"1:","dev":"eth0","parent":":1","options":{"limit":5}}]"#;
    let lines = "qdisc replace dev eth0 root handle 2: mq\n\
                 qdisc replace dev eth0 parent 2:1 handle 1: pfifo limit 5\n";
    assert_eq!(read(taken).expect("a dump").lines, lines);
}

/// The device, its ifb, and those that have nothing to do with it.
#[test]
fn one_device_is_chosen() {
    let tbf = |dev: &str| {
        format!(r#"{{"kind":"pfifo","handle":"1:","dev":"{dev}","root":true,"options":{{"limit":5}}}}"#)
    };
    let lo = r#"{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"options":{}}"#;
    let text = include_str!("../../../../spec/from/ifb.json");
    let dump = read(text).expect("a dump");
    let lines = "qdisc replace dev eth0 root handle 1: pfifo limit 5\n\
                 qdisc replace dev eth0 ingress\n\
                 filter replace dev eth0 ingress protocol all prio 1 handle 0x1 matchall \
                 action mirred egress redirect dev ifb0 index 1\n\
                 qdisc replace dev ifb0 root handle 1: pfifo limit 5\n";
    assert_eq!((dump.lines.as_str(), dump.dev.as_deref(), dump.notes), (lines, Some("eth0"), Vec::new()));
    let two = format!("[{},{},{lo}]", tbf("eth1"), tbf("eth0"));
    assert_eq!(
        read(&two),
        Err("host.json: the dump is of eth0, eth1, lo: expected --dev with one, given nothing".into())
    );
    let of = |dev| dump::read(&two, "host.json", Some(dev)).map(|dump| dump.lines).map_err(|e| e.to_string());
    assert_eq!(of("eth1"), Ok("qdisc replace dev eth1 root handle 1: pfifo limit 5\n".into()));
    assert_eq!(
        of("eth7"),
        Err("host.json: --dev: expected a device of the dump (eth0, eth1, lo), given \"eth7\"".into())
    );
    assert_eq!(
        of("lo"),
        Err("host.json: lo: qdisc 0: noqueue: a device without a queue cannot be at the line".into())
    );
    let unnamed =
        read(r#"[{"kind":"pfifo","handle":"0:","root":true,"options":{"limit":5}}]"#).expect("a dump");
    assert_eq!((unnamed.lines.as_str(), unnamed.dev), ("qdisc replace root pfifo limit 5\n", None));
}

/// Nothing is left out unseen.
#[test]
fn refusals_name_the_object_the_key_and_the_value() {
    let blocks = include_str!("../../../../spec/from/refused.txt");
    for block in blocks.trim_end().split("\n\n") {
        let (text, said) = block.split_once("\n! ").expect("a refusal");
        assert_eq!(read(text).map(|dump| dump.lines), Err(said.to_string()), "{text}");
    }
    let nothing = "host.json: expected the output of tc -j qdisc show, given no qdisc";
    assert_eq!(read(""), Err(nothing.into()));
    let long = " ".repeat(dump::TEXT_MAX + 1);
    assert_eq!(read(&long), Err("host.json: expected at most 16777216 bytes, given 16777217".into()));
    let many = format!("[{}{{\"kind\":\"pfifo\"}}]", "{\"kind\":\"pfifo\"},".repeat(dump::OBJECTS_MAX));
    assert_eq!(read(&many), Err("host.json:1:1: expected at most 100000 objects, given more".into()));
}

/// Notes say what a dump cannot tell.
#[test]
fn notes_say_what_a_dump_lacks() {
    let hook = r#"[{"kind":"clsact","handle":"ffff:","dev":"eth0","parent":"ffff:fff1","options":{}},
        {"kind":"netem","handle":"1:","dev":"eth0","root":true,
        "options":{"limit":9,"delay":{"delay":0.01,"jitter":0.001,"correlation":0}}}]"#;
    let notes = read(hook).expect("a dump").notes;
    let lacks = |end: &str| {
        format!(
            "eth0 has a hook (clsact), and no filters of its {end} are in the dump: tc -j filter show dev eth0 {end} \
             prints them, for the key \"{end}\""
        )
    };
    let jitter = "eth0: qdisc 1: netem: tc does not print the distribution of the jitter".to_string();
    assert_eq!(notes, [jitter, lacks("ingress"), lacks("egress")]);
    let steady = r#"[{"kind":"netem","handle":"1:","dev":"eth0","root":true,
        "options":{"limit":9,"delay":{"delay":0.01,"jitter":0,"correlation":0},
        "loss-random":{"loss":0.01,"correlation":0}}}]"#;
    assert_eq!(read(steady).expect("a dump").notes, [""; 0]);
    let mut devices = made(&["a"], 1, "qdisc add dev a root handle 1: htb\nqdisc add dev a clsact\n");
    let plain = read(&dumped(&mut devices, "a", "")).expect("a dump").notes;
    let details = read(&dumped(&mut devices, "a", "-d")).expect("a dump").notes;
    let said = "a: qdisc 1: htb: the dump is without -d: size tables (stab), quantum and mpu of htb's classes, mpu of \
                tbf and flows of sfq are the defaults";
    assert_eq!((plain[0].as_str(), plain.len(), details.len()), (said, 3, 2));
}

/// Damaged dumps: an answer or a refusal, in bounded time, and lines that the parser reads without
/// a panic.
#[test]
fn no_text_causes_a_panic() {
    let mut samples: Vec<String> = vec![CARD.into()];
    for (policy, queues) in policies() {
        let lines = format!("{}\n", policy.trim_end());
        samples.push(dumped(&mut made(&["a", "b"], queues, &lines), "a", "-s -d"));
    }
    const PIECES: [&str; 14] = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "null",
        "-1",
        "1e30",
        "18446744073709551616",
        "\"0:\"",
        "\"ffff:ffff\"",
        "class htb ",
    ];
    let mut rng = Rng::new(7);
    let (mut carried, mut refused) = (0, 0);
    for run in 0..6000 {
        let sample = &samples[run % samples.len()];
        let mut bytes = sample.clone().into_bytes();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            let end = (at + rng.below(12) as usize).min(bytes.len());
            match rng.below(5) {
                0 => drop(bytes.drain(at..end)),
                1 => drop(bytes.splice(at..end, PIECES[rng.below(14) as usize].bytes())),
                2 => bytes.truncate(at.max(1)),
                3 => drop(bytes.splice(at..at, sample.bytes().skip(end).take(rng.below(200) as usize))),
                _ => drop(bytes.splice(at..end, rng.below(1000).to_string().bytes())),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match read(&text) {
            Ok(dump) => {
                carried += 1;
                let _ = txweir_tc::Policy::parse(&dump.lines, "damaged");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(carried > 100 && refused > 1000, "{carried} {refused}");
}

/// Returns the words of a command; single quotes join words.
fn quoted(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (part, text) in command.split('\'').enumerate() {
        for (at, piece) in text.split(' ').enumerate() {
            match words.last_mut() {
                Some(last) if at == 0 || part % 2 == 1 => {
                    last.push_str(if at == 0 { "" } else { " " });
                    last.push_str(piece);
                }
                _ => words.push(piece.into()),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the filters of a list, one a line, and their tables. A priority by itself, which may
/// have no filter, does nothing; the references to an action count commands of the past.
fn filters(list: &str) -> Vec<String> {
    let lines = list.replace("},{\"parent", "}\n{\"parent").replace("},{\"protocol", "}\n{\"protocol");
    let is_some = |line: &&str| line.contains("\"options\"") && !line.contains("\"ht_divisor\":1}");
    // The roots of priorities of u32 get their numbers in the order of making.
    let unnamed = |line: &str| {
        let mut line = line.to_string();
        for key in ["\"fh\":\"8", "\"key_ht\":\"8"] {
            if let Some(at) = line.find(key).map(|at| at + key.len()).filter(|at| line.len() > at + 2) {
                line.replace_range(at..at + 2, "..");
            }
        }
        line
    };
    let plain = |line: &str| {
        let line = unnamed(line);
        let mut parts = line.split("\"ref\":");
        let first = parts.next().unwrap_or("").to_string();
        parts.fold(first, |out, part| out + part.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    let mut all: Vec<String> = lines.lines().filter(is_some).map(plain).collect();
    all.iter_mut().for_each(|line| *line = line.trim_matches(['[', ']']).to_string());
    all.sort();
    all
}
