//! The tool against the real tc (iproute2), line by line: the exit status, the lines of a refusal,
//! and the output of `show` afterwards, byte for byte. The test needs root, `tc`, `ip` and
//! `unshare`; if one of them is missing, the test prints the reason and passes.

use std::process::{Command, Output};

use proptest::prelude::RngExt as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use txweir_core::Env;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Request, run};

const DEV: &str = "t0";

/// Flags whose output is compared after every line.
const SHOWS: [&str; 9] = [
    "qdisc show dev t0",
    "-s qdisc show",
    "-d qdisc show dev t0",
    "-s -d -r qdisc show dev t0",
    "-iec qdisc show dev t0",
    "-j qdisc show dev t0",
    "-s -d -j -p qdisc show dev t0",
    "-o qdisc show dev t0",
    "qdisc show dev t0 invisible",
];

/// Lines that test more than options.
const CHOSEN: &[&str] = &[
    "qdisc",
    "class",
    "qdisc show",
    "qdisc list dev t0",
    "q s dev t0",
    "qdisc show dev nodev",
    "class show dev t0",
    "class show dev nodev",
    "class show",
    "filter show dev t0",
    "-j filter show dev t0",
    "-j -p filter show dev t0",
    "-j class show dev t0",
    "chain show dev t0",
    "actions ls action gact",
    "-j actions ls action gact",
    "qdisc foo",
    "qdisc show foo",
    "class show foo",
    "filter show foo",
    "class get dev t0",
    "qdisc get dev t0 root",
    "qdisc change dev t0 root pfifo limit 3",
    "qdisc del dev t0 root",
    "qdisc add dev t0 root handle 1: pfifo limit 7",
    "qdisc add dev t0 root pfifo",
    "qdisc add dev t0 root handle 2: pfifo",
    "qdisc show dev t0 root",
    "qdisc show dev t0 parent 1:1",
    "qdisc show dev t0 handle 1:",
    "qdisc show dev t0 handle 7:",
    "qdisc show dev t0 ingress",
    "qdisc show dev t0 root parent 1:",
    "qdisc change dev t0 root pfifo limit 9",
    "qdisc change dev t0 handle 1: pfifo limit 10",
    "qdisc change dev t0 handle 9: pfifo limit 10",
    "qdisc change dev t0 root handle 6: pfifo limit 79",
    "qdisc link dev t0 root handle 9: pfifo limit 80",
    "qdisc add dev t0 parent 1:1 pfifo",
    "qdisc del dev t0 root handle 6:",
    "qdisc del dev t0 handle 6:",
    "qdisc del dev t0 handle 1:",
    "qdisc del dev t0",
    "qdisc del dev t0 root bfifo",
    "qdisc del dev t0 parent 7:1",
    "qdisc add dev t0 pfifo",
    "qdisc add dev t0 root",
    "qdisc add root pfifo",
    "qdisc add dev nodev root pfifo",
    "qdisc add dev t0 root nosuch",
    "qdisc add dev t0 root nosuch limit 5",
    "qdisc add dev t0 root root pfifo",
    "qdisc add dev t0 root parent 1: pfifo",
    "qdisc add dev t0 dev t0 root pfifo",
    "qdisc add dev t0 parent",
    "qdisc add dev t0 root handle zz: pfifo",
    "qdisc add dev t0 root handle 12345: pfifo",
    "qdisc add dev t0 root handle 1: handle 2: pfifo",
    "qdisc add dev t0 parent zz pfifo",
    "qdisc add dev",
    "qdisc add dev t0 handle root pfifo",
    "qdisc add dev t0 handle :1 root pfifo",
    "qdisc add dev t0 parent 1:2: pfifo",
    "qdisc add dev t0 root pfifo limit",
    "qdisc add dev t0 root pfifo limt 5",
    "qdisc add dev t0 root pfifo limit x",
    "qdisc add dev t0 root bfifo limit 99999999999",
    "qdisc add dev t0 root pfifo_fast limit 5",
    "qdisc add dev t0 root stab pfifo",
    "qdisc add dev t0 root stab overhead x pfifo",
    "qdisc add dev t0 root stab mpu -5 pfifo",
    "qdisc add dev t0 root stab linklayer foo pfifo",
    "qdisc replace dev t0 root handle 50: stab overhead 10 pfifo limit 9",
    "qdisc change dev t0 root handle 50: stab linklayer ethernet overhead -10 pfifo limit 9",
    "qdisc change dev t0 root handle 50: stab mpu 64 pfifo limit 9",
    "qdisc change dev t0 root handle 50: stab linklayer atm overhead 10 pfifo limit 9",
    "qdisc change dev t0 root handle 50: pfifo limit 9",
    "qdisc replace dev t0 root handle 51: stab linklayer adsl mtu 1000 tsize 128 mpu 7 tbf rate 1mbit burst 5kb limit 9kb",
    "qdisc add dev t0 parent 51:1 handle 52: stab overhead 4 pfifo",
    "qdisc del dev t0 root",
    "qdisc add dev t0 root estimator 1s pfifo",
    "qdisc add dev t0 root estimator 8s 1s pfifo",
    "qdisc add dev t0 root ingress_block 0 ingress",
    "qdisc add dev t0 ingress foo",
    "qdisc del dev t0 root pfifo limit 5",
    "qdisc del dev t0 root",
    "qdisc add dev t0 root tbf",
    "qdisc add dev t0 root tbf rate 1mbit",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb limit 5 latency 5",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb limit 9kb peakrate 500kbit mtu 1600",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb limit 9kb peakrate 5mbit",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb limit 9kb linklayer foo",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb limit 9kb linklayer atm overhead -5",
    "qdisc add dev t0 root tbf rate 0 burst 5kb limit 9kb",
    "qdisc add dev t0 root tbf rate 1mbit burst 0 limit 9kb",
    "qdisc add dev t0 root tbf rate 1mbit burst 5kb/7 limit 9kb",
    "qdisc add dev t0 root handle 1: tbf rate 1mbit burst 5kb latency 50ms",
    "class show dev t0",
    "-s class show dev t0",
    "class show dev t0 classid 1:1",
    "class show dev t0 classid 1:2",
    "class show dev t0 root",
    "class show dev t0 parent 1:",
    "class show dev t0 qdisc 1:",
    "class show dev t0 qdisc 2:",
    "qdisc add dev t0 parent 1:1 handle 2: pfifo",
    "class show dev t0",
    "-s class show dev t0",
    "-o class show dev t0",
    "class show dev t0 qdisc 1:",
    "qdisc show dev t0 parent 1:1",
    "qdisc show dev t0 handle 2:",
    "qdisc add dev t0 parent 1:1 pfifo",
    "qdisc add dev t0 parent 1:1 handle 1: pfifo",
    "qdisc replace dev t0 parent 1:1 handle 1: pfifo",
    "qdisc replace dev t0 parent 1:1 pfifo limit 7",
    "qdisc replace dev t0 parent 1:1 handle 2: pfifo limit 8",
    "qdisc change dev t0 parent 1:1 pfifo limit 9",
    "qdisc change dev t0 parent 1:1 handle 3: pfifo limit 9",
    "qdisc change dev t0 parent 1:1",
    "qdisc change dev t0 root tbf limit 5",
    "qdisc del dev t0 parent 9:2",
    "qdisc del dev t0 parent 1:1 handle 3:",
    "qdisc del dev t0 parent 1:1 bfifo",
    "qdisc replace dev t0 parent 1:1 handle 5: bfifo limit 12kb",
    "class add dev t0 parent 1: classid 1:2 tbf rate 1mbit",
    "class change dev t0 classid 1:1 tbf",
    "class add dev t0 parent zz classid 1:1",
    "class add dev t0 handle 1:1 tbf",
    "class add dev t0 root root tbf",
    "class add dev t0 parent 1: parent 1: tbf",
    "class del dev t0 classid 1:1",
    "class del dev t0",
    "filter add dev t0 root protocol nosuch prio 1",
    "filter add dev t0 root prio 99999",
    "filter add dev t0 root prio zz",
    "filter add dev t0 root parent 1:",
    "filter add dev t0 root handle 1 handle 2",
    "filter add dev t0 root prio 1 prio 2",
    "filter add dev t0 root chain 1 chain 2",
    "filter add dev t0 root chain zz",
    "filter add dev t0 block 2",
    "filter add block 2 dev t0",
    "filter add dev t0 ingress egress",
    "filter get dev t0 parent 1:",
    "filter foo",
    "filter add dev t0 parent 1: protocol ip nosuch foo",
    "filter add protocol ip",
    "filter add dev nodev root",
    "chain foo",
    "chain get dev t0",
    "actions foo",
    "actions list",
    "actions ls action",
    "actions add",
    "qdisc del dev t0 root",
    "qdisc add dev t0 ingress",
    "qdisc add dev t0 ingress",
    "qdisc add dev t0 clsact",
    "qdisc del dev t0 clsact",
    "qdisc show dev t0 ingress",
    "qdisc show dev t0 handle ffff:",
    "-r qdisc show dev t0",
    "qdisc show dev t0 parent ffff:fff1",
    "qdisc replace dev t0 ingress",
    "qdisc change dev t0 ingress",
    "qdisc del dev t0 ingress",
    "qdisc del dev t0 ingress",
    "qdisc change dev t0 clsact",
    "qdisc add dev t0 handle ffff: clsact",
    "qdisc add dev t0 root handle 3: pfifo",
    "qdisc del dev t0 ingress",
    "qdisc del dev t0 handle ffff: parent ffff:fff1",
    "qdisc del dev t0 root",
    "-x qdisc",
    "-sd qdisc",
    "-c names qdisc show dev t0",
    "-co names -col=never qdisc show dev t0",
    "-c qdisc show dev t0",
    "-c=auto qdisc show dev t0",
    "-c=no qdisc",
    "foo",
    "",
];

fn missing() -> Option<String> {
    let able = Command::new("unshare").args(["-n", "true"]).output();
    if !able.is_ok_and(|o| o.status.success()) {
        return Some("unshare -n is not allowed here".into());
    }
    ["tc", "ip"].iter().find(|tool| Command::new(tool).arg("-V").output().is_err()).map(|t| format!("no {t}"))
}

/// Returns the options of a random tbf, within the range in which the clock of the kernel does not
/// overflow.
fn random_tbf(rng: &mut TestRng) -> String {
    let mut pick = |from: u64, to: u64| rng.random_range(from..=to);
    // A rate may end in a fraction of a byte, which both tc and the engine truncate.
    let rate = pick(20_000, 5_000_000_000);
    let mut line = format!("tbf rate {rate} burst {}", pick(1600, 200_000));
    match pick(0, 2) {
        0 => line += &format!(" limit {}", pick(1, 2_000_000)),
        _ => line += &format!(" latency {}us", pick(1, 3_000_000)),
    }
    if pick(0, 2) == 0 {
        line += &format!(" peakrate {} mtu {}", rate + pick(8, 1_000_000_000), pick(1600, 9000));
    }
    for (key, max) in [("mpu", 3000), ("overhead", 300)] {
        if pick(0, 2) == 0 {
            line += &format!(" {key} {}", pick(0, max));
        }
    }
    line += ["", " linklayer atm", " linklayer adsl", " linklayer ethernet"][pick(0, 3) as usize];
    line
}

fn lines() -> Vec<String> {
    let mut lines: Vec<String> = CHOSEN.iter().map(|l| (*l).to_string()).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for n in 0..120 {
        let rng = runner.rng();
        let options = match n % 6 {
            0 => format!("pfifo limit {}", rng.random_range(0..5000u32)),
            1 => format!("bfifo limit {}", rng.random_range(0..5_000_000u32)),
            2 => ["pfifo_fast", "pfifo", "bfifo", "pfifo_head_drop"][rng.random_range(0..4usize)].into(),
            _ => random_tbf(rng),
        };
        lines.push(format!(
            "qdisc replace dev {DEV} root handle {:x}: {options}",
            rng.random_range(1..0x8000u32)
        ));
    }
    lines
}

/// Returns a shell script that runs all lines with the real tc and marks the parts of the output.
fn script(lines: &[String]) -> String {
    let mut s = String::from("ip link add t0 numtxqueues 1 type veth peer name t1 numtxqueues 1\n");
    s += "ip link del lo 2>/dev/null\ntc qdisc add dev t0 root pfifo_fast\n";
    s += "tc qdisc del dev t0 root\nsaid=$(mktemp)\ntrap 'rm -f $said' EXIT\n";
    s += "run() { tc \"$@\" 2>$said; printf '\\1%s\\3' $?; cat $said; printf '\\2'; }\n";
    for line in lines {
        s += &format!("run {line}\n");
        for show in SHOWS {
            s += &format!("run {show}\n");
        }
    }
    s
}

/// Lines that the tool refuses before it looks at the device, so that it does not know which of
/// two lines the kernel would say.
const CHECKED_FIRST: [&str; 2] = ["qdisc del dev t0 handle 6:", "qdisc add dev t0 root"];

/// True if the tool prints tc's lines for a refusal of the kernel before its own.
fn told(ours: &str, refusal: &str) -> bool {
    ours.strip_prefix(refusal)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("error[") || rest.starts_with("warning["))
}

#[test]
fn status_and_text_are_those_of_tc() {
    if let Some(why) = missing() {
        println!("skipped, because {why}");
        return;
    }
    let lines = lines();
    let Output { stdout, stderr, .. } =
        Command::new("unshare").args(["-n", "sh", "-c", &script(&lines)]).output().expect("a shell");
    let real = String::from_utf8(stdout).expect("text");
    let mut real = real.split_terminator('\u{2}').map(|part| {
        let (text, rest) = part.split_once('\u{1}').expect("a status");
        let (status, said) = rest.split_once('\u{3}').expect("an error");
        (text, status, said)
    });
    let mut devices = Memory::default().with(MemoryDevice::new(DEV, 1, Env::default()));
    let mut wrong = Vec::new();
    for line in &lines {
        for (n, words) in std::iter::once(line.as_str()).chain(SHOWS).enumerate() {
            let args = words.split_whitespace().map(String::from).collect();
            let ours = run(&Request { args, ..Request::default() }, &mut devices);
            let (text, status, refusal) =
                real.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&stderr)));
            // A new veth has no qdisc of its own, and neither has the loopback device.
            let clean = |t: &str| {
                let mut default = false;
                let mut known = |l: &&str| {
                    let head = l.starts_with("qdisc ");
                    default =
                        if head { l.contains("noqueue") || l.contains("pfifo_fast 0:") } else { default };
                    !default
                };
                t.split_inclusive('\n').filter(|l| known(l)).collect::<String>()
            };
            let default = text.contains("noqueue")
                || (ours.stdout.contains("\"0:\"") || ours.stdout.contains(" 0: "))
                    && ours.stdout.contains("pfifo_fast");
            let json = default && (words.contains("-j") || words.contains("-o"));
            // tc prints classes as text even if the command asks for JSON.
            let json = json || words.starts_with("-j class");
            if status == "2" && !CHECKED_FIRST.contains(&words) && !told(&ours.stderr, refusal) {
                wrong.push(format!("tc {words}\n  real {refusal:?}\n  ours {:?}", ours.stderr));
            }
            if ours.status.to_string() != status || !json && clean(&ours.stdout) != clean(text) {
                let said = if n == 0 { String::new() } else { format!(" after {line}") };
                wrong.push(format!(
                    "tc {words}{said}\n  real [{status}] {text:?}\n  ours [{}] {:?}\n  {}",
                    ours.status,
                    ours.stdout,
                    ours.stderr.lines().next().unwrap_or("")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}
