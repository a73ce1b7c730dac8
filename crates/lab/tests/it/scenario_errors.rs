//! Errors of scenario files: their words and their places.

use txweir_lab::scenario::Scenario;

const GOOD: &str = r#"title = "t"
duration = "1s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
policy = """
qdisc add root handle 1: tbf rate 5mbit burst 5kb latency 50ms
qdisc add parent 1:1 fq_codel limit 100
"""
[[traffic]]
name = "x"
from = "a"
to = "b"
kind = "stream"
"#;

/// Each entry: the replaced part of the good file, its replacement, the expected place and message,
/// and the marked text.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "rate = \"10",
        "rat = \"10",
        "10:1: unknown field `rat`, expected one of `from`, `to`, `one_way`, `rate`, `delay`, `jitter`, `loss`, \
         `reorder`, `reorder_by`, `receive_offload`, `queues`, `ring`, `descriptors`, `completion`, `handler_latency`, \
         `handler_latency_max`, `doorbell`, `bql`, `bql_limit_max`, `bql_hold_time`, `txqueuelen`, `role`, `policy`, \
         `step`",
        "rat",
    ),
    (
        "duration = \"1s\"",
        "duration = \"1s\"\nseeds = 1",
        "3:1: unknown field `seeds`, expected one of `title`, `seed`, `duration`, `warmup`, `measure`, `host`, `link`, `ifb`, \
         `traffic`",
        "seeds",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\nmtu = 9000",
        "5:1: unknown field `mtu`, expected one of `name`, `stack`, `tso`, `mss`, `congestion`, `ecn`, `send_buffer`, \
         `receive_buffer`, `ack_delay`, `initial_window`, `timestamps`, `sack`, `small_queues`, `size_by_rate`, \
         `cpu_per_message`, `cpu_per_kilobyte`",
        "mtu",
    ),
    (
        "kind =",
        "knd =",
        "19:1: unknown field `knd`, expected one of `name`, `from`, `to`, `kind`, `count`, `size`, \
         `request`, `response`, `rate`, `priority`, `dscp`, `mark`, `ipv6`, `start`, `stagger`, `congestion`, `ecn`, \
         `sizes`, `load`, `of`, `arrivals`, `arrivals_at`, `at_once`, `fps`, `key_every`, `deadline`, `txtime`, \
         `timeout`, `tries`",
        "knd",
    ),
    ("title = \"t\"\n", "", "1:1: missing field `title`", ""),
    (
        "\"10mbit\"",
        "\"10mbitt\"",
        "10:8: invalid value: string \"10mbitt\", expected a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s)",
        "\"10mbitt\"",
    ),
    (
        "\"10mbit\"",
        "\"5ms\"",
        "10:8: invalid value: string \"5ms\", expected a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s)",
        "\"5ms\"",
    ),
    (
        "\"1s\"",
        "\"1mbit\"",
        "2:12: invalid value: string \"1mbit\", expected a time (5ms, 100us, 2s; bare: microseconds)",
        "\"1mbit\"",
    ),
    (
        "\"10mbit\"",
        "10",
        "10:8: invalid type: integer `10`, expected a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s)",
        "10",
    ),
    (
        "\"1s\"",
        "\"1s\"\nwarmup = \"2s\"",
        "2:12: duration: expected more than warmup, which is 2s, given 1s",
        "\"1s\"",
    ),
    (
        "\"1s\"",
        "\"1s\"\nwarmup = \"1s\"",
        "2:12: duration: expected more than warmup, which is 1s, given 1s",
        "\"1s\"",
    ),
    ("to = \"b\"\nrate", "to = \"c\"\nrate", "9:6: host: expected one of a, b, given \"c\"", "\"c\""),
    ("to = \"b\"\nkind", "to = \"c\"\nkind", "18:6: host: expected one of a, b, given \"c\"", "\"c\""),
    ("to = \"b\"\nrate", "to = \"a\"\nrate", "9:6: to: expected another host than from", "\"a\""),
    ("to = \"b\"\nkind", "to = \"a\"\nkind", "18:6: to: no links lead from a to a", "\"a\""),
    (
        "[[traffic]]",
        "[[link]]\nfrom = \"b\"\nto = \"a\"\none_way = true\nrate = \"1gbit\"\n[[traffic]]",
        "17:6: to: expected at most one link from b to a, given another",
        "\"a\"",
    ),
    ("name = \"b\"", "name = \"a\"", "6:8: host name: expected one not in use, given \"a\"", "\"a\""),
    ("\"10mbit\"", "\"10mbit\"\none_way = true", "19:6: to: no links lead from b to a", "\"b\""),
    ("limit 100", "limt 100", "13:31: fq_codel has no parameter \"limt\" (did you mean \"limit\"?)", "limt"),
    (
        "fq_codel",
        "fq_codl",
        "13:22: there is no qdisc kind \"fq_codl\" (did you mean \"fq_codel\"?)",
        "fq_codl",
    ),
    ("parent 1:1", "parent 2:1", "13:18: there is no class 2:1 (there are: 1:1)", "2:1"),
    (
        "policy = \"\"\"\nqdisc add root handle 1: tbf rate 5mbit burst 5kb latency 50ms\nqdisc add parent 1:1 fq_codel \
         limit 100\n\"\"\"",
        "policy = \"qdisc add root pfifo\\nqdisc add root fq_cdel\\u0020ecn\"",
        "11:10: policy, line 2: there is no qdisc kind \"fq_cdel\" (did you mean \"fq_codel\"?)",
        "\"qdisc add root pfifo\\nqdisc add root fq_cdel\\u0020ecn\"",
    ),
    (
        "\"stream\"",
        "\"strem\"",
        "19:8: unknown variant `strem`, expected one of `stream`, `rr`, `cbr`, `short`, `voice`, `video`, \
         `dns`, `udprr`, `rrul`, `quic`",
        "\"strem\"",
    ),
    (
        "\"stream\"",
        "\"rr\"",
        "19:8: size, or request and response: must be given for this kind of traffic",
        "\"rr\"",
    ),
    (
        "\"stream\"",
        "\"rr\"\nrequest = \"1\"",
        "19:8: size, or request and response: must be given for this kind of traffic",
        "\"rr\"",
    ),
    ("\"stream\"", "\"rr\"\nsize = \"0\"", "20:8: size: expected 1 to 1000000000000 bytes, given 0", "\"0\""),
    (
        "\"stream\"",
        "\"rr\"\nsize = \"1\"\nrate = \"1mbit\"",
        "21:8: rate: not for this kind of traffic",
        "\"1mbit\"",
    ),
    ("\"stream\"", "\"stream\"\nsize = \"1\"", "20:8: size: not for this kind of traffic", "\"1\""),
    (
        "\"stream\"",
        "\"rr\"\nsize = \"1\"\nrequest = \"0\"",
        "21:11: request: expected 1 to 1000000000000 bytes, given 0",
        "\"0\"",
    ),
    (
        "\"stream\"",
        "\"udprr\"\nresponse = \"7\"",
        "20:12: response: expected 8 to 1472 bytes, what a packet of UDP holds",
        "\"7\"",
    ),
    (
        "\"stream\"",
        "\"short\"\nsize = \"1kb\"\nof = \"1mbit\"\nload = \"0%\"",
        "22:8: load: expected 0.001 to 1000000 each second, given 0",
        "\"0%\"",
    ),
    (
        "\"stream\"",
        "\"rr\"\nsize = \"1\"\nrequest = \"2\"\nresponse = \"3\"",
        "20:8: size: not beside both request and response",
        "\"1\"",
    ),
    (
        "\"stream\"",
        "\"cbr\"\nsize = \"100\"",
        "19:8: rate: must be given for this kind of traffic",
        "\"cbr\"",
    ),
    (
        "\"stream\"",
        "\"cbr\"\nrate = \"1mbit\"",
        "19:8: size: must be given for this kind of traffic",
        "\"cbr\"",
    ),
    (
        "\"stream\"",
        "\"cbr\"\nrate = \"1mbit\"\nsize = \"59\"",
        "21:8: size: expected 60 to 9018 bytes, Ethernet header included",
        "\"59\"",
    ),
    ("\"stream\"", "\"stream\"\nipv6 = 6", "20:8: invalid type: integer `6`, expected a boolean", "6"),
    (
        "\"stream\"",
        "\"cbr\"\nrate = \"1mbit\"\nsize = \"69\"\nipv6 = true",
        "21:8: size: expected 70 to 9018 bytes, Ethernet header included",
        "\"69\"",
    ),
    (
        "\"stream\"",
        "\"udprr\"\nsize = \"1453\"\nipv6 = true",
        "20:8: size: expected 8 to 1452 bytes, what a packet of UDP holds",
        "\"1453\"",
    ),
    ("\"stream\"", "\"stream\"\ncount = 0", "20:9: count: expected at least 1", "0"),
    (
        "\"stream\"",
        "\"stream\"\ncount = 60001",
        "15:1: group x: more than 60000 connections in all",
        "[[traffic]]",
    ),
    (
        "\"stream\"",
        "\"stream\"\ncount = 4294967295",
        "15:1: group x: more than 60000 connections in all",
        "[[traffic]]",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\ntso = \"65550b\"",
        "5:7: tso: expected at most 65549 bytes, the largest IP packet and its Ethernet header",
        "\"65550b\"",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\nreceive_buffer = \"2gb\"",
        "5:18: receive_buffer: expected at most 1073741824 bytes, given 2147483648",
        "\"2gb\"",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\nsend_buffer = \"1073741825\"",
        "5:15: send_buffer: expected at most 1073741824 bytes, given 1073741825",
        "\"1073741825\"",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\nmss = 65496",
        "5:7: mss: expected 64 to 65495 bytes, given 65496",
        "65496",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\ninitial_window = 0",
        "5:18: initial_window: expected 1 to 1000 segments, given 0",
        "0",
    ),
    (
        "name = \"a\"",
        "name = \"a\"\necn = \"on\"",
        "5:7: ecn: expected one of off, classic, accurate, given \"on\"",
        "\"on\"",
    ),
    ("name = \"a\"", "name = \"a\"\nmss = 63", "5:7: mss: expected 64 to 65495 bytes, given 63", "63"),
    (
        "\"10mbit\"",
        "\"10mbit\"\nloss = \"120%\"",
        "11:8: invalid value: string \"120%\", expected a percentage from 0% to 100%",
        "\"120%\"",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\nloss = \"0.00001%\"",
        "11:8: invalid value: string \"0.00001%\", expected 0%, 100%, or a percentage from 0.0001% to 99.9999%",
        "\"0.00001%\"",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\nloss = \"99.99999%\"",
        "11:8: invalid value: string \"99.99999%\", expected 0%, 100%, or a percentage from 0.0001% to 99.9999%",
        "\"99.99999%\"",
    ),
    ("\"10mbit\"", "\"7bit\"", "10:8: rate: expected at least 8bit", "\"7bit\""),
    ("\"10mbit\"", "\"10mbit\"\nqueues = 0", "11:10: queues: expected 1 to 4096, given 0", "0"),
    (
        "\"10mbit\"",
        "\"10mbit\"\ndescriptors = [[60, 0.5]]",
        "11:15: descriptors: expected one or more [bytes, descriptors] of distinct sizes, with 1 to 65000 descriptors \
         each",
        "[[60, 0.5]]",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\nhandler_latency = \"100us\"\nhandler_latency_max = \"50us\"",
        "12:23: handler_latency_max: expected at least handler_latency, which is 100us, given 50us",
        "\"50us\"",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\ncompletion = \"0us\"",
        "11:14: invalid value: string \"0us\", expected immediate, a period (250us), or packets and a time (64p/1ms)",
        "\"0us\"",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\nreorder = \"1%\"",
        "7:1: reorder: needs reorder_by, the time by which such packets are late",
        "[[link]]",
    ),
    (
        "\"10mbit\"",
        "\"10mbit\"\nstep = [{ at = \"1s\", rate = \"0bit\" }]",
        "11:29: rate: expected at least 8bit",
        "\"0bit\"",
    ),
    ("title = \"t\"", "title = \"t", "1:11: invalid basic string, expected `\"`", ""),
];

#[test]
fn each_mistake_is_said_at_its_place() {
    for (what, by, said, marked) in WRONG {
        let text = GOOD.replacen(what, by, 1);
        assert_ne!(text, GOOD, "{what:?} is not in the good file");
        let e = match Scenario::parse(&text, "s.toml") {
            Ok(_) => panic!("{by:?} was accepted"),
            Err(e) => e,
        };
        let shown = e.to_string();
        let first = shown.lines().next().unwrap_or("");
        assert_eq!(first, format!("s.toml:{said}"), "{by:?}");
        assert_eq!(&text[e.span.clone()], *marked, "{by:?}");
        // The diagnostic looks like every other error of the command.
        assert!(e.diagnostic().to_string().contains("s.toml:"), "{by:?}");
    }
}

#[test]
fn a_caret_stands_under_the_word() {
    let e = Scenario::parse(&GOOD.replace("limit 100", "limt 100"), "s.toml").unwrap_err();
    assert_eq!(
        e.to_string(),
        "s.toml:13:31: fq_codel has no parameter \"limt\" (did you mean \"limit\"?)\n  \
         qdisc add parent 1:1 fq_codel limt 100\n                                ^^^^"
    );
    assert_eq!(
        e.diagnostic().to_string(),
        "error[unknown-key]: fq_codel has no parameter \"limt\"\n  --> s.toml:13:31\n   |\n\
         13 | qdisc add parent 1:1 fq_codel limt 100\n   |                               ^^^^\n   \
         = help: did you mean \"limit\"?"
    );
}

#[test]
fn values_can_be_set_before_reading() {
    let set = [("link.0.bql", "false"), ("duration", "\"2s\""), ("host.1.tso", "\"64kb\"")];
    let s = Scenario::parse_with(GOOD, "s.toml", &set).unwrap();
    assert_eq!(s.duration(), txweir_lab::Nanos::from_secs(2));
    assert!(s.build(1).unwrap().net.links().nic(0).port().totals().byte_limit().is_none());
    let e = Scenario::parse_with(GOOD, "s.toml", &[("link.7.bql", "false")]).unwrap_err();
    assert_eq!(e.message, "link.7.bql: no such place in the file");
}

/// Whatever the numbers, reading ends in a net or in an error, and a net runs.
#[test]
fn extremes_neither_panic_nor_hang() {
    let extremes = [
        ("\"10mbit\"", "\"8bit\""),
        ("\"10mbit\"", "\"100tbit\""),
        ("\"10mbit\"", "\"10mbit\"\ndelay = \"4000000s\""),
        ("\"10mbit\"", "\"10mbit\"\njitter = \"18446744073s\""),
        ("\"10mbit\"", "\"10mbit\"\nring = 1\ntxqueuelen = 0"),
        ("\"10mbit\"", "\"10mbit\"\nring = 1048576"),
        ("\"10mbit\"", "\"10mbit\"\nbql_limit_max = \"0\""),
        ("\"10mbit\"", "\"10mbit\"\nloss = \"100%\""),
        ("\"10mbit\"", "\"10mbit\"\nreorder = \"100%\"\nreorder_by = \"1ns\""),
        ("\"10mbit\"", "\"10mbit\"\nhandler_latency_max = \"18446744073709551615ns\""),
        ("\"10mbit\"", "\"10mbit\"\ncompletion = \"1p/1ns\"\ndoorbell = \"1s\"\nhandler_latency = \"1s\""),
        ("name = \"a\"", "name = \"a\"\nsend_buffer = \"0\"\nreceive_buffer = \"0\""),
        ("name = \"a\"", "name = \"a\"\nmss = 64\ntso = \"65549b\""),
        ("name = \"a\"", "name = \"a\"\nmss = 65495\ntso = \"65549b\""),
        (
            "name = \"a\"",
            "name = \"a\"\nack_delay = \"0\"\ncpu_per_message = \"9s\"\ncpu_per_kilobyte = \"9s\"",
        ),
        ("\"stream\"", "\"rr\"\nrequest = \"931gb\"\nresponse = \"1\""),
        (
            "name = \"a\"",
            "name = \"a\"\nsack = false\ntimestamps = false\nsmall_queues = false\ninitial_window = 1000",
        ),
        ("\"stream\"", "\"short\"\nsizes = \"web\"\narrivals = 1000000\nat_once = 10"),
        ("\"stream\"", "\"short\"\nsize = \"931gb\"\narrivals_at = [\"0\", \"0\", \"999999s\"]"),
        ("\"stream\"", "\"short\"\nsizes = \"pareto\"\nsize = \"1\"\nload = \"100%\"\nof = \"1kbit\""),
        ("\"stream\"", "\"voice\"\ncount = 100\nstart = \"999s\""),
        ("\"stream\"", "\"video\"\nrate = \"250mbit\"\nfps = 60\nkey_every = 1\ndeadline = \"0\""),
        ("\"stream\"", "\"dns\"\narrivals = 1000000\ntimeout = \"1ms\"\ntries = 100"),
        ("\"stream\"", "\"udprr\"\ntimeout = \"1ms\"\ntries = 1"),
        ("\"stream\"", "\"quic\"\ncount = 3\nstart = \"999999us\""),
        ("\"stream\"", "\"cbr\"\nsize = \"9018b\"\nrate = \"0bit\""),
        ("\"stream\"", "\"cbr\"\nsize = \"60b\"\nrate = \"1tbit\"\nstart = \"999999us\""),
        ("\"stream\"", "\"stream\"\npriority = 4294967295\nstart = \"2s\"\nstagger = \"0\""),
    ];
    for (what, by) in extremes {
        let text = GOOD.replacen(what, by, 1);
        match Scenario::parse(&text, "s.toml") {
            Ok(s) => {
                let mut built = s.build(1).unwrap();
                txweir_lab::run::play(&s, &mut built, &mut |_| {});
            }
            Err(e) => assert!(!e.message.is_empty()),
        }
    }
}
