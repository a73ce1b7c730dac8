//! The law of agreement: `check` refuses the lines that the engine refuses, and no others.
//!
//! Lines of every object, kind and verb are drawn at random, from the declarations of the kinds and
//! from the lines recorded from tc (`spec/tc/linux`): legal ones, ends of ranges and numbers
//! beyond, wrong words and wrong parents, changes and deletions of objects that do not exist. Each
//! case is a file that begins with roots, hooks and an action, so that the objects of the machine
//! are known. The first line of a file, of whose device nothing is known, is compared by itself.
//! The engine runs it line by line, as `tc -force -b`; `check` reads it as a whole.
//!
//! `check` has findings about lines that tc takes, too: those of [`ADVICE`] do not count. A line
//! whose fate depends on the queues of the device is left out of its case. A line that Linux may
//! take and the engine cannot ends it, and so does one that only the engine takes (PARITY.md,
//! `replace-kind`, `htb-same-change`, `sfq-same-change`, `etf-same-change`).

use std::fmt::Write;
use std::path::Path;

use txweir_core::base::rng::Rng;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::spec::Spec;
use txweir_core::{Env, Rate};
use txweir_laws::options::{chance, illegal, legal, legal_class, pick, random, random_of};
use txweir_lint::check::{self, CheckOptions, Report};
use txweir_lint::code;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Request, run};
use txweir_tc::{Diagnostic, Severity, Source};

/// Codes of errors about lines that tc takes.
const ADVICE: [&str; 5] =
    [code::UNKNOWN_DEFAULT, code::DANGLING_FLOWID, code::BARE_RATE, code::SMALL_BURST, code::MQPRIO];

/// Files of a run of the test.
const CASES: u64 = 6000;
/// Lines of a file after those that make the roots.
const LINES: u64 = 14;

/// Queues of each device, as `check` takes them to be.
const QUEUES: u16 = 64;

const HANDLES: [&str; 9] = ["1:", "2:", "3:", "a:", "ffff:", "0:", "8001:", "fffe:", "1:1"];
const CLASSES: [&str; 16] = [
    "1:1",
    "1:2",
    "1:3",
    "1:4",
    "1:a",
    "1:10",
    "2:1",
    "2:2",
    "3:1",
    "a:1",
    "1:",
    "2:",
    "1:ffff",
    "7:1",
    "root",
    "ffff:fff1",
];
const WORDS: [&str; 22] = [
    "0",
    "1",
    "2",
    "-1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1:",
    "1:1",
    "1:2",
    "ffff:",
    "none",
    "nonsense",
    "0x10000",
    "10%",
    "101%",
    "1mbit",
    "0bit",
    "5ms",
    "parent",
];

/// The lines that the recordings from tc contain, with its devices named `a` and `b`.
fn recorded() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux");
    let mut all: Vec<String> = Vec::new();
    let mut files: Vec<_> =
        folder.read_dir().expect("recordings").map(|f| f.expect("a file").path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(file).expect("text");
        let lines = text.lines().filter_map(|line| line.strip_prefix("$ tc "));
        let lines = lines.filter(|l| !l.starts_with('-') && !l.contains(" show") && !l.contains(" ls "));
        all.extend(lines.map(|l| l.replace("dev lan", "dev a").replace("dev wan", "dev b")));
    }
    all.sort();
    all.dedup();
    all
}

struct Draw<'a> {
    rng: Rng,
    env: Env,
    recorded: &'a [String],
}

impl Draw<'_> {
    fn chance(&mut self, n: u64, of: u64) -> bool {
        chance(&mut self.rng, n, of)
    }
    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        pick::<&'static str>(&mut self.rng, words)
    }
    fn dev(&mut self) -> &'static str {
        if self.chance(1, 8) { "b" } else { "a" }
    }
    fn verb(&mut self) -> &'static str {
        self.pick(&[
            "add", "add", "add", "add", "replace", "replace", "change", "change", "del", "del", "link",
        ])
    }
    fn kind(&mut self) -> &'static Spec {
        // Kinds with classes are as frequent as the others.
        let classful = self.chance(1, 2);
        loop {
            let spec = *pick(&mut self.rng, KINDS);
            if !classful || spec.classes.is_some() || ["prio", "ets", "tbf", "netem"].contains(&spec.kind) {
                return spec;
            }
        }
    }

    fn options(&mut self, spec: &Spec) -> Vec<String> {
        match self.rng.below(10) {
            0..=2 => Vec::new(),
            // No random words of mqprio are legal on a device without the means for them.
            _ if spec.root_only => random(spec, &mut self.rng),
            3..=6 => legal(spec, &self.env, &mut self.rng),
            7 | 8 => random(spec, &mut self.rng),
            _ => illegal(spec, &self.env, &mut self.rng),
        }
    }

    fn qdisc(&mut self) -> String {
        let (verb, dev, spec) = (self.verb(), self.dev(), self.kind());
        let mut line = format!("qdisc {verb} dev {dev}");
        if self.chance(1, 10) {
            let hook = self.pick(&["ingress", "clsact", "ingress_block 7 ingress", "parent ffff:fff1"]);
            return format!("{line} {hook}");
        }
        match self.rng.below(12) {
            0 => {}
            1 | 2 => line.push_str(" root"),
            _ => write!(line, " parent {}", self.pick(&CLASSES)).expect("text"),
        }
        if self.chance(1, 2) {
            write!(line, " handle {}", self.pick(&HANDLES)).expect("text");
        }
        if self.chance(1, 16) {
            line.push_str(self.pick(&[
                " stab overhead 4",
                " stab mtu 2047 tsize 512 linklayer atm",
                " stab mpu 64",
            ]));
        }
        if verb == "del" && self.chance(3, 4) {
            return line;
        }
        if !self.chance(1, 30) {
            write!(line, " {} {}", spec.kind, self.options(spec).join(" ")).expect("text");
        }
        line
    }

    fn class(&mut self) -> String {
        let (verb, dev) = (self.verb(), self.dev());
        let spec = loop {
            let spec = self.kind();
            if spec.classes.is_some() || self.chance(1, 20) {
                break spec;
            }
        };
        let mut line = format!("class {verb} dev {dev}");
        if !self.chance(1, 8) {
            write!(line, " parent {}", self.pick(&CLASSES)).expect("text");
        }
        if !self.chance(1, 20) {
            write!(line, " classid {}", self.pick(&CLASSES)).expect("text");
        }
        if verb == "del" && self.chance(3, 4) {
            return line;
        }
        if !self.chance(1, 30) {
            let options = match spec.classes {
                Some(classes) if self.chance(4, 5) => legal_class(classes, &self.env, &mut self.rng),
                Some(classes) => random_of(classes.params, &mut self.rng),
                None => Vec::new(),
            };
            write!(line, " {} {}", spec.kind, options.join(" ")).expect("text");
        }
        line
    }

    fn filter(&mut self) -> String {
        let (verb, dev) = (self.verb(), self.dev());
        let place = match self.rng.below(8) {
            0 => "ingress".to_string(),
            1 => "egress".to_string(),
            2 => "root".to_string(),
            3 | 4 => format!("parent {}", self.pick(&CLASSES)),
            _ => format!("parent {}", self.pick(&["1:", "2:", "3:"])),
        };
        let target = if self.chance(1, 12) { "block 7".to_string() } else { format!("dev {dev} {place}") };
        let mut line = format!("filter {verb} {target}");
        if self.chance(2, 3) {
            write!(line, " protocol {}", self.pick(&["ip", "ip", "ipv6", "all", "arp", "802.1q"]))
                .expect("text");
        }
        if self.chance(2, 3) {
            write!(line, " prio {}", self.pick(&["1", "2", "3", "0", "65535", "65536"])).expect("text");
        }
        if self.chance(1, 8) {
            write!(line, " chain {}", self.pick(&["0", "1", "268435455", "268435456"])).expect("text");
        }
        if self.chance(1, 4) {
            write!(line, " handle {}", self.pick(&["1", "5", "0x10", "800::1", "1:", "800:", "1:1:1", "0"]))
                .expect("text");
        }
        if verb == "del" && self.chance(1, 2) {
            return line;
        }
        let kinds = [
            " matchall",
            " matchall",
            " fw",
            " fw classid 1:1",
            " u32 match ip dst 10.0.0.0/8 flowid 1:1",
            " u32 divisor 16",
            " u32 ht 1: match ip src 1.2.3.4 flowid 1:2",
            " u32 match u32 0 0 link 1:",
            " flower dst_ip 10.0.0.0/8 classid 1:1",
            " flower ip_proto tcp dst_port 80",
            " flower",
            " basic",
            " basic match 'meta(priority eq 3)' flowid 1:1",
            " flow hash keys src,dst divisor 4",
            " flow map key mark",
            " bpf bytecode '1,6 0 0 4294967295,' flowid 1:1",
            " tcpctl",
            "",
        ];
        line.push_str(self.pick(&kinds));
        if self.chance(1, 3) {
            let actions = [
                " action drop",
                " action pass",
                " action gact drop index 9",
                " action gact index 9",
                " action gact index 77",
                " action mirred egress redirect dev b",
                " action goto chain 1",
                " action police rate 1mbit burst 10k conform-exceed drop",
                " action skbedit priority 1:1",
                " action vlan push id 5",
                " action pedit munge offset 0 u8 set 1",
                " action csum ip",
                " action nat",
                " action simple sdata x index 3",
                " action police index 4",
            ];
            line.push_str(self.pick(&actions));
        }
        line
    }

    fn actions(&mut self) -> String {
        let kind = self.pick(&["gact", "police", "skbedit", "simple", "mirred", "vlan"]);
        let index = self.pick(&["9", "3", "4", "77", "0", "4294967295", "4294967296"]);
        match self.rng.below(4) {
            0 => format!("actions del action {kind} index {index}"),
            1 => format!("actions flush action {kind}"),
            2 => format!("actions get action {kind} index {index}"),
            _ => {
                let verb = self.pick(&["add", "replace", "change"]);
                let what = self.pick(&[
                    "gact drop",
                    "gact pass random determ drop 4",
                    "police rate 1mbit burst 10k",
                    "simple sdata y",
                    "skbedit mark 3",
                    "mirred egress mirror dev a",
                    "vlan pop",
                    "gact goto chain 3",
                    "gact",
                ]);
                format!("actions {verb} action {what} index {index}")
            }
        }
    }

    fn line(&mut self) -> String {
        let line = match self.rng.below(16) {
            0..=4 => self.qdisc(),
            5..=7 => self.class(),
            8..=11 => self.filter(),
            12 => self.actions(),
            13 => {
                let place = self.pick(&["parent 1:", "ingress", "root", "parent 2:"]);
                let verb = self.pick(&["add", "del", "get"]);
                format!("chain {verb} dev {} {place} chain {}", self.dev(), self.rng.below(3))
            }
            _ => pick(&mut self.rng, self.recorded).clone(),
        };
        if self.chance(5, 6) { line } else { self.changed(&line) }
    }

    /// Changes one word of a line, behind the first.
    fn changed(&mut self, line: &str) -> String {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 2 {
            return line.to_owned();
        }
        let at = 1 + self.rng.below(words.len() as u64 - 1) as usize;
        match self.rng.below(4) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at]),
            _ => words[at] = self.pick(&WORDS),
        }
        words.join(" ")
    }
}

fn env() -> Env {
    Env {
        link_rate: Some(Rate::from_bits(1_000_000_000)),
        memory: 64 << 20,
        queues: QUEUES,
        ..Env::default()
    }
}

/// Runs a line in the engine; returns true if it is taken.
fn taken(devices: &mut Memory, line: &str) -> bool {
    refused(devices, line).is_none()
}

/// Runs a line in the engine; returns the text of a refusal.
fn refused(devices: &mut Memory, line: &str) -> Option<String> {
    let args = ["-b", "-"].map(String::from).to_vec();
    let request = Request { args, batch: Some(Source::new("-", line)), ..Request::default() };
    let reply = run(&request, devices);
    (reply.status != 0).then_some(reply.stderr)
}

/// A file, and for each line true if the engine takes it.
struct Case {
    text: String,
    taken: Vec<bool>,
}

fn push(case: &mut Case, line: &str, taken: bool) {
    case.text.push_str(line);
    case.text.push('\n');
    case.taken.push(taken);
}

/// True if the fate of a line depends on the queues of the device.
fn depends_on_queues(line: &str) -> bool {
    let for_queues = line.contains(" root")
        && [" mq ", "cake_mq", "mqprio", "taprio"].iter().any(|kind| line.contains(kind));
    let below = [" parent 1:ffff", " parent ffff:fff1"];
    for_queues || line.starts_with("qdisc ") && below.iter().any(|place| line.contains(place))
}

fn draw(draw: &mut Draw<'_>) -> Case {
    let mut devices = Memory::of_any_name(u32::from(QUEUES), env());
    let mut case = Case { text: String::new(), taken: Vec::new() };
    for (dev, handle) in [("a", "1:"), ("b", "1:")] {
        loop {
            let spec = draw.kind();
            let options = draw.options(spec);
            let line =
                format!("qdisc add dev {dev} root handle {handle} {} {}", spec.kind, options.join(" "));
            if taken(&mut devices, &line) {
                push(&mut case, &line, true);
                break;
            }
        }
    }
    let hooks = ["qdisc add dev a clsact", "qdisc add dev b ingress_block 7 ingress"];
    for line in hooks.into_iter().chain(["actions add action gact drop index 9"]) {
        let done = taken(&mut devices, line);
        push(&mut case, line, done);
    }
    for _ in 0..LINES {
        let line = draw.line();
        let taken = taken(&mut devices, &line);
        if !taken && (depends_on_queues(&line) || is_elsewhere(&line) || unreadable(&line)) {
            continue;
        }
        push(&mut case, &line, taken);
    }
    case
}

/// True if a line is about a device of which nothing is known.
fn is_elsewhere(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| *word != "dev").skip(1);
    words.next().is_some_and(|dev| dev != "a" && dev != "b") || !line.contains(" dev ")
}

/// True if a line has no command, and `check` says so.
fn unreadable(line: &str) -> bool {
    use std::sync::Arc;
    let source = Arc::new(Source::new("one", line));
    let read = txweir_tc::lex::lines(&source, 0..line.len())
        .into_iter()
        .all(|l| l.is_ok_and(|l| txweir_tc::command::parse(&source, &l).is_ok()));
    let report = check::text(line, "one", &CheckOptions::default());
    assert!(read || report.count(Severity::Error) > 0, "check reads what tc cannot: {line}");
    !read
}

/// Returns the lines about which the two disagree.
fn disagreements(case: &Case, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((n, taken), line) in (1..).zip(&case.taken).zip(case.text.lines()) {
        let here = || report.diagnostics.iter().filter(|d| d.line() == n);
        if here().any(|d| d.code == code::NOT_IN_ENGINE) {
            assert!(!taken, "a note that the engine cannot, and it can: {line}");
            break;
        }
        // tc puts a class without its parent at the top, and the classes of mqprio are the queues.
        let silent = |d: &Diagnostic| {
            d.code == code::DANGLING_PARENT
                && (line.starts_with("class ") || d.message.starts_with("mqprio "))
        };
        let refusal = here()
            .find(|d| d.severity == Severity::Error && !ADVICE.contains(&d.code) && !(*taken && silent(d)));
        let by_linux = |d: &Diagnostic| match d.code {
            code::CONFLICT => line.starts_with("qdisc replace "),
            code::CANNOT_CHANGE => ["htb ", "sfq ", "etf "].iter().any(|kind| d.message.starts_with(kind)),
            _ => false,
        };
        if *taken && refusal.is_some_and(by_linux) {
            // Only Linux refuses it (`replace-kind`, `htb-same-change` and its like of PARITY.md).
            break;
        }
        match (taken, refusal) {
            (true, Some(d)) => {
                wrong.push(format!("engine takes, check: {} {}\n    {n}: {line}", d.code, d.brief()))
            }
            (false, None) => wrong.push(format!("engine refuses, check is silent\n    {n}: {line}")),
            _ => {}
        }
    }
    wrong
}

/// A root that a file begins with is refused for its own words, although the qdiscs of the machine
/// are not known.
#[test]
fn the_first_root_of_a_file_is_refused_as_the_engine_does() {
    let recorded = recorded();
    let mut of = Draw { rng: Rng::new(1), env: env(), recorded: &recorded };
    let (mut refusals, mut wrong) = (0, Vec::new());
    for _ in 0..20_000 {
        let spec = of.kind();
        let line = format!("qdisc add dev a root handle 1: {} {}", spec.kind, of.options(spec).join(" "));
        if depends_on_queues(&line) {
            continue;
        }
        let refusal = refused(&mut Memory::of_any_name(u32::from(QUEUES), env()), &line);
        // Linux may be able to do what the engine cannot.
        if refusal.as_ref().is_some_and(|text| text.contains("error[unsupported]")) {
            continue;
        }
        refusals += u64::from(refusal.is_some());
        let report = check::text(&line, "one", &CheckOptions { link: env().link_rate, ..Default::default() });
        let is_error = |d: &&Diagnostic| d.severity == Severity::Error && !ADVICE.contains(&d.code);
        if report.diagnostics.iter().find(is_error).is_some() != refusal.is_some() {
            wrong.push(format!("{line}\n    {}", refusal.unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{} lines\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    assert!(refusals > 2000, "{refusals}");
}

/// Runs the cases of a seed.
fn cases(seed: u64, count: u64) -> (u64, u64) {
    let recorded = recorded();
    assert!(recorded.len() > 400, "{} recorded lines", recorded.len());
    let (mut lines, mut refused, mut failures) = (0, 0, Vec::new());
    for n in 0..count {
        let mut of = Draw { rng: Rng::new(seed.wrapping_add(n)), env: env(), recorded: &recorded };
        let case = draw(&mut of);
        let report =
            check::text(&case.text, "case", &CheckOptions { link: env().link_rate, ..Default::default() });
        lines += case.taken.len() as u64;
        refused += case.taken.iter().filter(|taken| !**taken).count() as u64;
        let wrong = disagreements(&case, &report);
        if !wrong.is_empty() {
            failures.push(format!("seed {}: {}\n{}", seed.wrapping_add(n), wrong.join("\n  "), case.text));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} files: TXWEIR_SEED=... TXWEIR_RUNS=1 repeats one\n{}",
        failures.len(),
        failures.iter().take(6).map(String::as_str).collect::<Vec<_>>().join("\n")
    );
    (lines, refused)
}

#[test]
fn check_refuses_the_lines_that_the_engine_refuses() {
    let of = |name: &str, default: u64| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let (lines, refused) = cases(of("TXWEIR_SEED", 1), of("TXWEIR_RUNS", CASES));
    println!("{lines} lines, {refused} refused");
    assert!(refused * 5 > lines && refused * 5 < lines * 4, "{refused} of {lines} lines are refused");
}
