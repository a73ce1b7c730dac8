//! The budget of a scenario: what it makes is bounded before anything is made, and each part takes
//! about the memory that it is counted with.

use txweir_core::Env;
use txweir_counted::{calls, peak};
use txweir_lab::scenario::{MEMORY, Scenario, ScenarioError};
use txweir_tc::Policy;

/// Returns a scenario of hosts around the first one, with these keys in each link and one table of
/// traffic for each of the last.
fn scenario(hosts: usize, links: usize, link: &str, traffic: &[&str]) -> String {
    let mut text = String::from("title = \"t\"\nduration = \"1s\"\n");
    if traffic.is_empty() {
        text += "traffic = []\n";
    }
    for n in 0..hosts {
        text += &format!("[[host]]\nname = \"h{n}\"\n");
    }
    for n in 1..=links {
        text += &format!("[[link]]\nfrom = \"h0\"\nto = \"h{n}\"\nrate = \"10mbit\"\n{link}\n");
    }
    for (n, keys) in traffic.iter().enumerate() {
        text += &format!("[[traffic]]\nname = \"t{n}\"\nfrom = \"h0\"\nto = \"h1\"\n{keys}\n");
    }
    text
}

/// Reads a scenario, and returns the most bytes that this took.
fn read(text: &str) -> (Result<(), ScenarioError>, u64) {
    peak(|| Scenario::parse(text, "s").map(|_| ()))
}

/// Checks that a scenario is refused at an object whose name begins so, and that nothing was made
/// before.
fn refused(text: &str, object: &str) {
    let (done, bytes) = read(text);
    let error = done.expect_err("a refusal");
    let said = format!(": memory: expected at most {MEMORY} bytes of all hosts, links and traffic");
    assert!(error.message.starts_with(object) && error.message.contains(&said), "{}", error.message);
    assert!(error.message.contains(" more beside ") && error.hint.is_some(), "{error}");
    assert!(bytes < 100 << 20, "{object}: {bytes} bytes before the refusal");
}

#[test]
fn a_scenario_beyond_the_budget_is_refused_before_anything_is_made() {
    let (done, bytes) = read(&scenario(240_000, 1, "", &[]));
    let message = done.expect_err("a refusal").message;
    assert!(message.starts_with("scenario: text: expected at most 4194304 bytes, given "), "{message}");
    assert!(bytes < 1 << 20, "{bytes}");
    refused(&scenario(3001, 3000, "", &[]), "link h0 -> h153");
    refused(&scenario(3001, 3000, "one_way = true", &[]), "link h0 -> h306");
    refused(&scenario(2, 1, "ring = 1024\nqueues = 4096", &[]), "link h0 -> h1");
    refused(&scenario(2, 1, "", &["kind = \"voice\"\ncount = 10000"]), "traffic t0");
    refused(&scenario(2, 1, "", &["kind = \"voice\""; 4000]), "traffic t1");
    let short = "kind = \"short\"\nsize = \"10kb\"\narrivals = 1.0\nat_once = 10000";
    refused(&scenario(2, 1, "", &[short; 30]), "traffic t2");
}

/// The packets that links carry at a time are the rate times the delay: a product of terabytes is
/// refused, and one of a gigabyte is not.
#[test]
fn packets_on_the_way_have_a_budget() {
    let said = |keys: &str, traffic: &[&str]| {
        let text = scenario(2, 1, keys, traffic).replace("10mbit", "100gbit").replace("\"1s\"", "\"200s\"");
        let (done, bytes) = read(&text);
        assert!(bytes < 100 << 20, "{bytes}");
        done.map_err(|error| format!("{} ({})", error.message, error.hint.unwrap_or_default()))
    };
    assert_eq!(said("delay = \"100ms\"", &[]), Ok(()));
    let hint = "fewer are on the way with a lower rate, delay, jitter or reorder_by, or in a shorter run";
    let expected =
        "expected packets on the way that take at most 1073741824 bytes of memory on all links together";
    for (keys, packets) in [
        ("delay = \"100s\"", 3_250_975_200_u64),
        ("delay = \"50s\"\njitter = \"50s\"", 3_250_975_200),
        ("one_way = true\nreorder = \"1%\"\nreorder_by = \"100s\"", 1_625_487_600),
        ("one_way = true\ndelay = \"3600s\"", 3_250_975_200),
    ] {
        let bytes = packets * 144;
        let given = format!("given {packets} packets of {bytes} bytes beside 0 ({hint})");
        assert_eq!(said(keys, &[]), Err(format!("link h0 -> h1: delay: {expected}, {given}")), "{keys}");
    }
    // Small packets of a rate of their own are more, and never more than the line carries.
    let small = "kind = \"cbr\"\nsize = \"60b\"\nrate = \"100gbit\"";
    assert_eq!(said("one_way = true\ndelay = \"40ms\"", &[small]), Ok(()));
    let given = "given 14880952 packets of 2142857088 bytes beside 0";
    let refused = said("one_way = true\ndelay = \"100ms\"", &[small]).expect_err("a refusal");
    assert!(refused.contains(given), "{refused}");
}

/// Small segments of TCP and questions are more packets than full ones, and are counted.
#[test]
fn small_packets_on_the_way_are_in_the_budget() {
    let said = |host: &str, traffic: &[&str]| {
        let text = scenario(2, 1, "one_way = true\ndelay = \"100ms\"", traffic)
            .replace("10mbit", "100gbit")
            .replace("name = \"h1\"\n", &format!("name = \"h1\"\n{host}\n"));
        read(&text).0.map_err(|error| error.message)
    };
    assert_eq!(said("", &[]), Ok(()));
    assert_eq!(said("mss = 536", &[]), Ok(()));
    let questions = "kind = \"dns\"\narrivals = 1000000\ncount = 30";
    for (host, traffic, given) in [
        ("mss = 64", &[][..], "given 14880952 packets of 2142857088 bytes beside 0"),
        ("", &[questions][..], "given 7625487 packets of 1098070128 bytes beside 0"),
    ] {
        let refused = said(host, traffic).expect_err("a refusal");
        assert!(refused.ends_with(given), "{refused}");
    }
}

/// Questions at random times wait for their answers side by side, up to 256 of a member; of those
/// that follow one another, one waits.
#[test]
fn questions_that_wait_are_in_the_budget() {
    let large = "kind = \"video\"\nrate = \"1mbit\"\ncount = 60000";
    let counted = |questions: &str| {
        let questions = format!("{questions}\ncount = 20000");
        let (done, _) = read(&scenario(2, 1, "", &[questions.as_str(), large]));
        let message = done.expect_err("a refusal").message;
        let used = message.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        used.unwrap_or_else(|| panic!("{message}"))
    };
    let waiting = counted("kind = \"dns\"\narrivals = 1.0") - counted("kind = \"udprr\"");
    assert_eq!(waiting, 20_000 * 256 * 32);
}

/// Returns the lines of forty classes, whose qdiscs have 189 MB of tables.
fn large_lines(dev: &str) -> String {
    let mut lines = format!("qdisc add {dev}root handle 1: drr\n");
    for n in 1..=40 {
        lines += &format!("class add {dev}parent 1: classid 1:{n:x} drr\n");
        lines += &format!("qdisc add {dev}parent 1:{n:x} fq_codel flows 65536\n");
    }
    lines
}

/// Returns these lines as the policy of a device.
fn large_policy() -> String {
    format!("policy = \"\"\"\n{}\"\"\"", large_lines(""))
}

/// The qdiscs of all policies share what the other parts leave.
#[test]
fn the_tables_of_all_policies_have_one_budget() {
    let policy = format!("one_way = true\n{}", large_policy());
    // A link has 3.3 MB, and 189 MB of tables.
    let (done, _) = read(&scenario(2, 1, &policy, &[]));
    done.expect("one fits");
    let (done, most) = read(&scenario(9, 8, &policy, &[]));
    let error = done.expect_err("a refusal");
    let hint = error.hint.unwrap_or_default();
    assert!(error.message.contains(" more beside ") && hint.contains("smaller tables"), "{hint}");
    assert!(most < MEMORY + (512 << 20), "{most}");
}

/// A policy for several devices is refused before they have more than is left to all of them.
#[test]
fn the_tables_of_a_policy_for_several_devices_are_in_the_budget() {
    let mut lines = String::from("qdisc add dev h1 clsact\n");
    lines += "filter add dev h1 egress matchall action mirred egress redirect dev ifb0\n";
    let mut ifbs = String::new();
    for n in 0..12 {
        ifbs += &format!("[[ifb]]\nhost = \"h0\"\nname = \"ifb{n}\"\n");
        lines += &large_lines(&format!("dev ifb{n} "));
    }
    let text = scenario(2, 1, &format!("one_way = true\npolicy = \"\"\"\n{lines}\"\"\""), &[]);
    let (done, most) = read(&(text + &ifbs));
    let error = done.expect_err("a refusal");
    assert!(error.message.contains(" more beside "), "{}", error.message);
    assert!(most < MEMORY + (512 << 20), "{most}");
}

/// The qdiscs of ifbs share it too.
#[test]
fn the_tables_of_ifbs_are_in_the_budget() {
    let ifbs = |count: usize| {
        let policy = large_policy();
        let mut text = scenario(2, 1, "", &[]);
        for n in 0..count {
            text += &format!("[[ifb]]\nhost = \"h0\"\nname = \"ifb{n}\"\n{policy}\n");
        }
        read(&text)
    };
    ifbs(2).0.expect("two fit");
    let (done, most) = ifbs(8);
    let error = done.expect_err("a refusal");
    assert!(error.message.contains(" more beside "), "{}", error.message);
    assert!(most < MEMORY + (512 << 20), "{most}");
}

/// A part is counted with at least the bytes that it takes, and at most the double.
#[test]
fn a_part_takes_what_it_is_counted_with() {
    let budget = |text: &str, more: &str| {
        // The figure of the refusal is the only one that a user sees.
        let (done, _) = read(&format!("{text}{more}"));
        let message = done.expect_err("a refusal").message;
        let used = message.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        used.unwrap_or_else(|| panic!("{message}"))
    };
    let large = "[[traffic]]\nname = \"large\"\nfrom = \"h0\"\nto = \"h1\"\nkind = \"video\"\nrate = \"1mbit\"\n\
                 count = 60000\n";
    let t = |keys: &'static str, n: usize| scenario(2, 1, "one_way = false", &vec![keys; n]);
    let cases = [
        ("hosts", scenario(20_000, 1, "", &["kind = \"stream\""])),
        ("links", scenario(21, 20, "", &["kind = \"stream\""])),
        ("queues", scenario(2, 1, "queues = 512", &["kind = \"stream\""])),
        ("ring", scenario(2, 1, "ring = 262144", &["kind = \"stream\""])),
        ("rr", t("kind = \"rr\"\nsize = \"100b\"\ncount = 20000", 1)),
        ("cbr", t("kind = \"cbr\"\nsize = \"100b\"\nrate = \"1mbit\"\ncount = 100", 1)),
        ("voice", t("kind = \"voice\"\ncount = 100", 1)),
        ("video", t("kind = \"video\"\nrate = \"1mbit\"\ncount = 100", 1)),
        ("udprr", t("kind = \"udprr\"\ncount = 20000", 1)),
        ("quic", t("kind = \"quic\"\ncount = 1000", 1)),
        ("short", t("kind = \"short\"\nsize = \"10kb\"\narrivals = 1.0\nat_once = 1", 50)),
        ("rrul", t("kind = \"rrul\"", 20)),
    ];
    for (name, text) in cases {
        let counted = budget(&text, large);
        let (done, took) = read(&text);
        done.unwrap_or_else(|e| panic!("{name}: {e}"));
        println!("{name}: counted {counted}, took {took}");
        assert!(
            took <= counted && counted <= 2 * took + (1 << 20),
            "{name}: {counted} counted, {took} taken"
        );
    }
}

/// A policy of twice the lines costs twice the calls of the allocator, before it is tried.
#[test]
fn the_search_for_vain_deletions_costs_the_same_for_each_line() {
    let cost = |classes: u32| {
        let mut text = String::from("qdisc replace dev x root handle 1: htb default 2\n");
        for minor in 2..2 + classes {
            text += &format!("class replace dev x parent 1: classid 1:{minor:x} htb rate 1mbit\n");
        }
        let policy = Policy::parse(&text, "p").unwrap_or_else(|e| panic!("{e}"));
        calls(|| drop(policy.without_vain_deletions(1, &Env::default())))
    };
    let [few, many] = [400, 800].map(cost);
    assert!(many < 3 * few, "{few} calls, then {many}");
}
