//! Rates that qdiscs of several devices share by name, through the tool: members and refusals.

use txweir_core::text::value::Name;
use txweir_core::{Env, Rate};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Devices, Outcome, Request, run, save};

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
fn wan(devices: &mut Memory) -> Option<(u32, Rate)> {
    let shared = devices.rates()?.lock().ok()?.find(&Name::new("wan")?)?;
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
    assert_eq!(wan(&mut all), Some((1, Rate(10 * MBIT))));
    good(&mut all, "qdisc add dev b root tbf rate 10mbit burst 5kb latency 50ms shared wan");
    good(&mut all, "qdisc add dev m root handle 1: mq");
    for queue in 1..=2 {
        good(
            &mut all,
            &format!("qdisc add dev m parent 1:{queue} tbf rate 10mbit burst 5kb latency 50ms shared wan"),
        );
    }
    assert_eq!(wan(&mut all), Some((4, Rate(10 * MBIT))));
    // A qdisc that names the rate no more has left it, and the last member removes the name.
    good(&mut all, "qdisc del dev m parent 1:1");
    good(&mut all, "qdisc change dev b root tbf rate 10mbit burst 5kb latency 70ms shared wan");
    assert_eq!(wan(&mut all), Some((3, Rate(10 * MBIT))));
    for device in ["a", "b", "m"] {
        good(&mut all, &format!("qdisc del dev {device} root"));
    }
    assert_eq!(wan(&mut all), None);
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
    assert_eq!(wan(&mut all), Some((1, Rate(10 * MBIT))));
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
    assert_eq!(wan(&mut all), Some((1, Rate(12 * MBIT))));
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
    assert_eq!(wan(&mut all), Some((2, Rate(12 * MBIT))));
    let done = batch(&mut all, "--atomic", &both);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert_eq!(wan(&mut all), Some((2, Rate(20 * MBIT))));
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
        assert_eq!(wan(&mut all), if flags.is_empty() { Some((1, Rate(MBIT))) } else { None });
        tc(&mut all, "qdisc del dev a root");
    }
}

/// A user that a line removes, or whose place it takes, does not count; others do.
#[test]
fn users_that_go_with_a_line_do_not_refuse_it() {
    let tbf = |rate: &str| format!("tbf rate {rate} burst 5kb latency 50ms shared wan\n");
    let below = "qdisc add dev a root handle 1: drr\nclass add dev a parent 1: classid 1:1 drr\n".to_string()
        + "qdisc add dev a parent 1:1 handle 2: "
        + &tbf("1mbit");
    let htb = "qdisc add dev a root handle 1: htb\nclass add dev a parent 1: classid 1:1 htb rate 1mbit\n"
        .to_string()
        + "qdisc add dev a parent 1:1 handle 2: "
        + &tbf("1mbit")
        + "class add dev a parent 1:1 classid 1:2 htb rate 2mbit shared wan\n";
    // Each text, the line of it that is refused if any, and the members with their rate at the end.
    let cases = [
        (below.clone() + "qdisc replace dev a root handle 3: " + &tbf("2mbit"), None, Some((1, 2))),
        (below.clone() + "qdisc change dev a parent 1:1 handle 2: " + &tbf("2mbit"), None, Some((1, 2))),
        (below.clone() + "qdisc replace dev a parent 1:1 handle 3: " + &tbf("2mbit"), None, Some((1, 2))),
        (below.clone() + "qdisc del dev a root\nqdisc add dev b root " + &tbf("2mbit"), None, Some((1, 2))),
        (below.clone() + "qdisc add dev b root handle 3: " + &tbf("2mbit"), Some(4), Some((1, 1))),
        (below + "qdisc add dev b root handle 3: " + &tbf("1mbit"), None, Some((2, 1))),
        // The class above loses its qdisc with the first class below it.
        (htb.clone(), None, Some((1, 2))),
        (
            htb.clone() + "class change dev a parent 1:1 classid 1:2 htb rate 3mbit shared wan\n",
            None,
            Some((1, 3)),
        ),
        (
            htb.clone() + "class add dev a parent 1:1 classid 1:3 htb rate 3mbit shared wan\n",
            Some(5),
            Some((1, 2)),
        ),
        (htb + "class del dev a classid 1:2\nqdisc add dev b root " + &tbf("1mbit"), None, Some((1, 1))),
    ];
    for (text, refused, end) in &cases {
        // A dry run comes to the same as the lines themselves.
        for flags in ["--dry-run", ""] {
            let mut all = Memory::new(&["a", "b"]);
            let done = batch(&mut all, flags, text);
            let at =
                done.stderr.lines().find_map(|l| l.split("b.tc:").nth(1)?.split(':').next()?.parse().ok());
            assert_eq!(at, *refused, "{flags} {text}{}", done.stderr);
            if flags.is_empty() {
                assert_eq!(wan(&mut all), end.map(|(n, mbit)| (n, Rate(mbit * MBIT))), "{text}");
            }
        }
    }
}

/// A dry run counts the users of devices that it does not touch, and changes nothing for them.
#[test]
fn a_dry_run_knows_the_users_of_other_devices() {
    let mut all = devices();
    let line = |dev: &str, rate: &str| {
        format!("qdisc replace dev {dev} root handle 1: tbf rate {rate} burst 5kb latency 50ms shared wan\n")
    };
    let (a, b) = (line("a", "20mbit"), line("b", "20mbit"));
    assert_eq!(batch(&mut all, "--dry-run", &b).status, 1);
    assert_eq!(batch(&mut all, "--dry-run", &a).status, 0);
    assert_eq!(batch(&mut all, "--dry-run", &(a.clone() + &b)).status, 0);
    assert_eq!(batch(&mut all, "--dry-run", &(b + &a)).status, 1);
    assert_eq!(wan(&mut all), Some((1, Rate(10 * MBIT))));
}
