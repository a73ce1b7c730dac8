//! Rates that qdiscs of several devices share by name, through the tool: members and refusals.

use txweir_core::text::value::Name;
use txweir_core::{Env, Rate};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Outcome, Request, run, save};

fn tc(devices: &mut Memory, line: &str) -> Outcome {
    run(&Request { args: line.split_whitespace().map(String::from).collect(), ..Request::default() }, devices)
}

fn good(devices: &mut Memory, line: &str) -> String {
    let done = tc(devices, line);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
    done.stdout
}

fn batch(devices: &mut Memory, flags: &str, text: &str) -> Outcome {
    let args = flags.split_whitespace().chain(["-b", "b.tc"]).map(String::from).collect();
    run(&Request { args, batch: Some(Source::new("b.tc", text)), ..Request::default() }, devices)
}

/// Returns the number of members and their common rate.
fn wan(devices: &Memory) -> Option<(u32, Rate)> {
    let shared = devices.rates().find(&Name::new("wan")?)?;
    Some((shared.queues(), shared.rate()?.0))
}

const MBIT: u64 = 125_000;

/// Returns two devices with one queue and one with four.
fn devices() -> Memory {
    let env = Env::default();
    let mut all = Memory::new(&["a", "b"]).with(MemoryDevice::new("m", 4, env));
    good(&mut all, "qdisc add dev a root handle 1: tbf rate 10mbit burst 5kb latency 50ms shared wan");
    all
}

#[test]
fn two_devices_and_two_queues_have_one_rate() {
    let mut all = devices();
    assert_eq!(wan(&all), Some((1, Rate(10 * MBIT))));
    good(&mut all, "qdisc add dev b root tbf rate 10mbit burst 5kb latency 50ms shared wan");
    good(&mut all, "qdisc add dev m root handle 1: mq");
    for queue in 1..=2 {
        good(
            &mut all,
            &format!("qdisc add dev m parent 1:{queue} tbf rate 10mbit burst 5kb latency 50ms shared wan"),
        );
    }
    assert_eq!(wan(&all), Some((4, Rate(10 * MBIT))));
    // A qdisc that names the rate no more has left it, and the last member removes the name.
    good(&mut all, "qdisc del dev m parent 1:1");
    good(&mut all, "qdisc change dev b root tbf rate 10mbit burst 5kb latency 70ms shared wan");
    assert_eq!(wan(&all), Some((3, Rate(10 * MBIT))));
    for device in ["a", "b", "m"] {
        good(&mut all, &format!("qdisc del dev {device} root"));
    }
    assert_eq!(wan(&all), None);
}

#[test]
fn another_rate_under_the_same_name_is_refused() {
    let mut all = devices();
    let before = save(&mut all);
    let line = "qdisc add dev b root tbf rate 20mbit burst 5kb latency 50ms shared wan";
    let done = tc(&mut all, line);
    assert_eq!(done.status, 2);
    assert_eq!(
        done.stderr,
        "error[conflict]: qdisc 8001: cannot share: it has rate 20Mbit and a bucket of 5120 bytes\n --> tc:1:71\n  |\n\
         1 | tc qdisc add dev b root tbf rate 20mbit burst 5kb latency 50ms shared wan\n  \
         |                                                                       ^^^ expected rate 10Mbit and a bucket \
         of 5120 bytes, as others have that share wan\n  = help: change all of them in one step, or take another name\n"
    );
    assert_eq!(save(&mut all), before);
    assert_eq!(wan(&all), Some((1, Rate(10 * MBIT))));
    // A dry run refuses the line too, and a class of htb is refused like a qdisc.
    let dry = tc(&mut all, &format!("--dry-run {line}"));
    assert_eq!((dry.status, dry.stderr.lines().next()), (2, done.stderr.lines().next()));
    good(&mut all, "qdisc add dev b root handle 1: htb");
    let class = "class add dev b parent 1: classid 1:1 htb rate 1mbit ceil 5mbit shared wan";
    let done = tc(&mut all, class);
    assert_eq!(done.status, 2);
    assert!(
        done.stderr.starts_with("error[conflict]: class 1:1 cannot share: it has rate 5Mbit"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_rate_changes_for_all_that_share_it_in_one_step() {
    let mut all = devices();
    // The only member may change the rate.
    good(&mut all, "qdisc change dev a root tbf rate 12mbit burst 5kb latency 50ms shared wan");
    assert_eq!(wan(&all), Some((1, Rate(12 * MBIT))));
    good(&mut all, "qdisc add dev b root tbf rate 12mbit burst 5kb latency 50ms shared wan");
    let change = |device: &str| {
        format!("qdisc change dev {device} root tbf rate 20mbit burst 5kb latency 50ms shared wan\n")
    };
    let both = change("a") + &change("b");
    let before = save(&mut all);
    for flags in ["", "--dry-run"] {
        let done = batch(&mut all, flags, &both);
        assert_ne!(done.status, 0, "{flags}");
        assert!(done.stderr.starts_with("error[conflict]: qdisc 1: cannot share"), "{}", done.stderr);
    }
    for flags in ["--atomic", "--atomic --dry-run"] {
        let done = batch(&mut all, flags, &change("a"));
        assert_eq!(done.status, 2, "{flags}");
        assert!(done.stderr.contains("b.tc:1:71"), "{}", done.stderr);
    }
    assert_eq!(save(&mut all), before);
    assert_eq!(batch(&mut all, "--atomic --dry-run", &both).status, 0);
    assert_eq!(wan(&all), Some((2, Rate(12 * MBIT))));
    let done = batch(&mut all, "--atomic", &both);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert_eq!(wan(&all), Some((2, Rate(20 * MBIT))));
}

/// A dry run of a batch, line by line, refuses the line that the batch itself would refuse.
#[test]
fn lines_of_a_dry_run_are_checked_with_those_before_them() {
    let mut all = Memory::new(&["a", "b"]);
    let lines = "qdisc add dev a root tbf rate 1mbit burst 5kb latency 50ms shared wan\n\
                 qdisc add dev b root tbf rate 2mbit burst 5kb latency 50ms shared wan\n";
    for flags in ["--dry-run", "", "--atomic"] {
        let done = batch(&mut all, flags, lines);
        assert_ne!(done.status, 0, "{flags}");
        assert!(done.stderr.contains("b.tc:2:67"), "{flags}: {}", done.stderr);
        assert_eq!(wan(&all), if flags.is_empty() { Some((1, Rate(MBIT))) } else { None });
        tc(&mut all, "qdisc del dev a root");
    }
}
