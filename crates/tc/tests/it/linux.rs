//! The output, the refusals and the exit status of tc on Linux: `spec/tc/linux/*.txt`, recorded by
//! `oracle/transcribe`. The tests run the commands in order and compare text, JSON and status, and
//! the first line of each refusal. The lines after it are txweir's own.

use std::path::Path;

use txweir_core::{Env, Instant};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Request, run, save};

/// Commands whose answer differs from that of Linux on purpose, each with its row of PARITY.md.
const MEANT: &[(&str, &str)] = &[
    ("tc chain get dev lan root chain 2", "filter-root"),
    ("tc actions add action ife encode allow mark goto chain 3", "ife-line"),
    ("tc actions add action ife encode allow mark index 1", "ife-line"),
    ("tc actions get action nat index 60", "nat-prefix"),
    ("tc actions get action nat index 61", "nat-prefix"),
    ("tc actions get action nat index 62", "nat-prefix"),
    ("tc actions get action nat index 63", "nat-prefix"),
    ("tc actions add action nat egress 10.0.0.0/0 1.2.3.4", "nat-prefix"),
];

/// Returns the commands of a file whose answer differs from that of Linux, one a line behind its
/// row of PARITY.md.
fn meant(name: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc").join(name);
    let text = std::fs::read_to_string(file).expect("a list");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once(' ')?.1.to_string())).collect()
}

/// A command of a transcript, with the answer of Linux.
struct Answered<'a> {
    command: &'a str,
    stdout: String,
    /// The first line on standard error of a refusal.
    refusal: &'a str,
    status: u8,
}

/// Returns the commands, each with its answer.
fn commands(text: &str) -> Vec<Answered<'_>> {
    let mut all: Vec<Answered<'_>> = Vec::new();
    for line in text.split_inclusive('\n') {
        let rest = line.get(2..).unwrap_or("").trim_end();
        match (line.get(..2), all.last_mut()) {
            (Some("$ "), _) => {
                all.push(Answered { command: rest, stdout: String::new(), refusal: "", status: 0 });
            }
            (Some("? "), Some(last)) => last.status = rest.parse().expect("a status"),
            (Some("! "), Some(last)) if last.refusal.is_empty() => last.refusal = rest,
            (Some("! "), Some(_)) => {}
            (_, Some(last)) => last.stdout.push_str(line),
            (_, None) => panic!("text before the first command"),
        }
    }
    all
}

/// Returns the words of a command; single quotes join words.
fn words(command: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for (part, text) in command.split('\'').enumerate() {
        let mut pieces = if part % 2 == 0 { text.split(' ').collect() } else { vec![text] }.into_iter();
        let last = words.last_mut().expect("one word at least");
        last.push_str(pieces.next().unwrap_or(""));
        words.extend(pieces.map(String::from));
    }
    words.into_iter().filter(|word| !word.is_empty())
}

fn differences(file: &Path, also_meant: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("a transcript");
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let mut devices = Memory::default().with(device("lan")).with(device("wan"));
    let mut now = 0;
    let mut wrong = Vec::new();
    for Answered { command, stdout, refusal, status } in commands(&text) {
        if let Some(seconds) = command.strip_prefix("sleep ") {
            now += seconds.parse::<u64>().expect("seconds");
            devices.set_now(Instant::from_secs(now));
            continue;
        }
        let args = words(command).skip(1).collect();
        let ours = run(&Request { args, ..Request::default() }, &mut devices);
        let meant = MEANT.iter().map(|(said, _)| *said).chain(also_meant.iter().map(String::as_str));
        let meant = meant.into_iter().any(|said| said == command);
        let same = (ours.stdout.as_str(), ours.status) == (&stdout, status);
        let first = ours.stderr.lines().next().unwrap_or("");
        if (same && (status == 0 || first == refusal)) == meant {
            wrong.push(format!(
                "{command}\nLinux [{status}]\n{stdout}{refusal}\nours [{}]\n{}{}",
                ours.status, ours.stdout, ours.stderr
            ));
        }
    }
    wrong
}

fn compare(name: &str) {
    compare_but_for(name, &[]);
}

/// Compares a transcript; the commands of `also_meant` must differ.
fn compare_but_for(name: &str, also_meant: &[String]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux").join(name);
    let wrong = differences(&file, also_meant);
    assert!(wrong.is_empty(), "{} differences\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn matchall_is_what_linux_says() {
    compare("matchall.txt");
}

#[test]
fn actions_are_what_linux_says() {
    compare("actions.txt");
}

/// The words for the devices of a block, which tc 6.1 does not have: by Linux 7.2 and its tc.
#[test]
fn mirred_to_a_block_is_what_linux_says() {
    compare("../linux-7.2/mirred-block.txt");
    saved("../linux-7.2/mirred-block.txt");
}

/// Defines a test for each file.
macro_rules! compared {
    ($($test:ident: $file:literal,)*) => {$(
        #[test]
        fn $test() {
            compare($file);
            saved($file);
        }
    )*};
}

#[test]
fn bpf_is_what_linux_says() {
    compare("bpf.txt");
}

#[test]
fn the_action_bpf_is_what_linux_says() {
    compare("action-bpf.txt");
}

/// Each way in which tc refuses words before it asks the kernel.
#[test]
fn refused_words_are_what_linux_says() {
    compare("words.txt");
}

/// The words after the kinds of qdiscs and classes that tc refuses before it asks the kernel: for
/// each kind unknown words, and for each key no value, wrong values and a second value.
#[test]
fn refused_options_are_what_linux_says() {
    compare_but_for("options.txt", &meant("options-differ.txt"));
}

/// Mistakes in each kind of action of a filter, in the `police` of one, and behind them.
#[test]
fn refused_words_of_actions_are_what_linux_says() {
    compare_but_for("action-words.txt", &meant("options-differ.txt"));
}

#[test]
fn fw_is_what_linux_says() {
    compare("fw.txt");
}

#[test]
fn u32_is_what_linux_says() {
    compare("u32.txt");
}

compared! {
    csum_is_what_linux_says: "csum.txt",
    gate_is_what_linux_says: "gate.txt",
    ife_is_what_linux_says: "ife.txt",
    mirred_is_what_linux_says: "mirred.txt",
    mpls_is_what_linux_says: "mpls.txt",
    nat_is_what_linux_says: "nat.txt",
    pedit_is_what_linux_says: "pedit.txt",
    police_is_what_linux_says: "police.txt",
    sample_is_what_linux_says: "sample.txt",
    simple_is_what_linux_says: "simple.txt",
    skbmod_is_what_linux_says: "skbmod.txt",
    vlan_is_what_linux_says: "vlan.txt",
}

/// Checks that the saved lines make the same actions.
fn saved(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux").join(name);
    let text = std::fs::read_to_string(file).expect("a transcript");
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let ask = |devices: &mut Memory, line: &str| {
        run(&Request { args: line.split(' ').map(String::from).collect(), ..Request::default() }, devices)
    };
    let fresh = || Memory::default().with(device("lan")).with(device("wan"));
    let (mut devices, mut compared) = (fresh(), 0);
    for Answered { command, .. } in commands(&text) {
        let Some(line) = command.strip_prefix("tc ") else { continue };
        if line.starts_with("actions ls") {
            let saved = save(&mut devices);
            let mut again = fresh();
            for made in saved.lines().filter(|made| made.starts_with("actions ")) {
                let done = ask(&mut again, &made.replace('"', ""));
                assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{made}");
            }
            assert_eq!(ask(&mut again, line).stdout, ask(&mut devices, line).stdout, "{saved}");
            assert_eq!(save(&mut again), saved);
            compared += saved.lines().filter(|made| made.starts_with("actions ")).count();
        }
        ask(&mut devices, line);
    }
    assert!(compared > 0);
}

/// Checks that the saved lines make the same filters.
fn saved_filters(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux").join(name);
    let text = std::fs::read_to_string(file).expect("a transcript");
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let fresh = || Memory::default().with(device("lan")).with(device("wan"));
    let (mut devices, mut compared) = (fresh(), 0);
    for Answered { command, .. } in commands(&text) {
        let args: Vec<String> = command.split(' ').skip(1).map(String::from).collect();
        let done = run(&Request { args: args.clone(), ..Request::default() }, &mut devices);
        if !command.starts_with("tc filter show") {
            continue;
        }
        let saved = save(&mut devices);
        let mut again = fresh();
        let batch = Some(Source::new("saved", saved.clone()));
        let made = run(
            &Request { args: vec!["-b".into(), "saved".into()], batch, ..Request::default() },
            &mut again,
        );
        assert_eq!((made.status, made.stderr.as_str()), (0, ""));
        let shown = run(&Request { args, ..Request::default() }, &mut again).stdout;
        assert_eq!((shown.as_str(), save(&mut again)), (done.stdout.as_str(), saved));
        compared += shown.len();
    }
    assert!(compared > 0);
}

macro_rules! compared_filters {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            compare($name);
            saved_filters($name);
        }
    )*};
}

compared_filters! {
    basic_is_what_linux_says: "basic.txt",
    block_is_what_linux_says: "block.txt",
    chain_is_what_linux_says: "chain.txt",
    flow_is_what_linux_says: "flow.txt",
    flower_is_what_linux_says: "flower.txt",
    police_average_is_what_linux_says: "police-average.txt",
}
