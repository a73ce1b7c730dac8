//! Rates, buckets and times, and the bound of the waiting time of each leaf.

use txweir_lint::check::{self, CheckOptions};
use txweir_tc::Severity;

use super::{htb, options, report, said};

/// Rates, ceilings, buckets and quanta of classes and of tbf.
#[test]
fn rates() {
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 45mbit ceil 40mbit quantum 1514\n\
         class add dev e parent 1: classid 1:2 htb rate 200mbit quantum 60000\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:30\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 2 0xffff flowid 1:2\n"),
        [
            "warning oversubscribed p:2:48: the 3 classes below 1:1 are promised 65Mbit, and it has 50Mbit: \
             none can count on its rate (lower the rates below it to 50Mbit in all; ceil is for the part that \
             they borrow)",
            "warning oversubscribed p:2:48: the 2 classes at the top are promised 250Mbit, and the link has \
             100Mbit (give them a class above, or lower rates, with ceil for the borrowed part)",
            "warning ceil-below-rate p:6:62: class 1:30 ceil 40Mbit is below its rate 45Mbit: it never gets its \
             rate (did you mean \"45mbit\"?)",
            "warning above-link p:7:48: class 1:2 rate 200Mbit is above the link's 100Mbit: the queue builds in \
             the device (did you mean \"100mbit\"?)",
        ]
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: tbf rate 200mbit burst 1000 latency 20ms\n"),
        [
            "warning above-link p:1:41: tbf 1: rate 200Mbit is above the link's 100Mbit: the queue builds in \
             the device (did you mean \"100mbit\"?)",
            "error small-burst p:1:55: tbf 1: burst 1000b holds no packet of 1514 bytes: such packets are \
             dropped (did you mean \"1514b\"?)",
        ]
    );
    // With high-resolution timers a small bucket is enough; without, a tick's bytes are needed.
    let small = "qdisc add dev e root handle 1: tbf rate 50mbit burst 5k latency 20ms\n";
    assert_eq!(said(small), [""; 0]);
    let ticks = CheckOptions { hz: Some(250), ..options() };
    assert_eq!(
        check::text(small, "p", &ticks).diagnostics[0].brief(),
        "p:1:54: tbf 1: burst 5Kb is less than 50Mbit brings in one tick of the clock (25000 bytes at 250 Hz): \
         the rate may not be reached (did you mean \"25000b\"?)"
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: tbf rate 10mbit burst 256mb latency 20ms\n"),
        ["warning large-burst p:1:54: tbf 1: burst 256Mb lets more than a second of 10Mbit through at once \
             (did you mean \"125000b\"?)",]
    );
    assert_eq!(
        htb("class change dev e parent 1:1 classid 1:10 htb rate 10mbit ceil 50mbit burst 1k cburst 2k\n\
         class change dev e parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit quantum 100\n"),
        [
            "warning small-burst p:6:78: class 1:10 burst 1Kb holds no packet of 1514 bytes (did you mean \"1514b\"?)",
            "warning quantum p:7:80: class 1:20 has a quantum of 100 bytes, which is small: classes of one \
             parent share unevenly (did you mean \"1514\"?)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: htb default 2 r2q 1\n\
         class add dev e parent 1: classid 1:2 htb rate 10mbit\n\
         class add dev e parent 1: classid 1:3 htb rate 8mbit\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:3\n"
        ),
        [
            "warning quantum p:2:43: class 1:2 has a quantum of 1250000 bytes (its rate in bytes/s by r2q 1), \
             which is big: classes of one parent share unevenly; the kernel takes 200000 (did you mean \"rate \
             10mbit quantum 60000\"?)",
            "warning quantum p:3:43: class 1:3 has a quantum of 1000000 bytes (its rate in bytes/s by r2q 1), \
             which is big: classes of one parent share unevenly; the kernel takes 200000 (did you mean \"rate \
             8mbit quantum 60000\"?)",
        ]
    );
}

/// The bucket of a ceiling that is the rate, and that of a peak rate.
#[test]
fn second_buckets() {
    assert_eq!(
        htb("class change dev e parent 1:1 classid 1:10 htb rate 10mbit cburst 1k\n"),
        ["warning small-burst p:6:67: class 1:10 cburst 1Kb holds no packet of 1514 bytes (did you mean \
             \"1514b\"?)",]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: tbf rate 1mbit burst 20k latency 20ms peakrate 2mbit mtu 1500\n"
        ),
        [
            "error small-burst p:1:89: tbf 1: mtu 1500b holds no packet of 1514 bytes: such packets are dropped \
             (did you mean \"1514b\"?)",
        ]
    );
}

/// Long FIFOs are one finding for those of a qdisc; AQMs, short FIFOs and unknown rates are none.
#[test]
fn long_fifos() {
    let classes = |leaf: &str| {
        format!(
            "qdisc add dev e root handle 1: htb default 2\n\
             class add dev e parent 1: classid 1:2 htb rate 1mbit\n\
             class add dev e parent 1: classid 1:3 htb rate 2mbit\n\
             qdisc add dev e parent 1:3 {leaf}\n\
             filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:3\n"
        )
    };
    let long = |text: &str| {
        let all = said(text).into_iter().filter(|d| d.contains("long-wait") || d.contains("netem-limit"));
        all.collect::<Vec<_>>()
    };
    assert_eq!(
        long(&classes("pfifo limit 1000")),
        [
            "warning long-wait p:2:35: a packet waits up to 12.1s in the pfifo of 1:2, and more than 3s in 1 other \
          (fq_codel keeps it short: qdisc replace dev e parent 1:2 fq_codel)"
        ]
    );
    for leaf in ["pfifo limit 100", "fq_codel", "codel"] {
        assert_eq!(long(&classes(leaf)).len(), 1, "{leaf}");
        assert!(!long(&classes(leaf))[0].contains("other"), "{leaf}");
    }
    assert_eq!(long("qdisc add dev e root pfifo limit 24000\n"), [""; 0]);
    let limit = "qdisc add dev e root pfifo limit 25000\n";
    assert_eq!(
        long(limit),
        [
            "warning long-wait p:1:22: a packet waits up to 3.03s in the pfifo of root (fq_codel keeps it short: \
          qdisc replace dev e root fq_codel)"
        ]
    );
    let unknown = check::text(limit, "p", &CheckOptions::default());
    assert_eq!(unknown.count(Severity::Warning), 0);
}

/// netem's limit against the packets that its delay holds at the rate of the link, of the class or
/// of its own.
#[test]
fn limits_of_netem() {
    let of = |words: &str| said(&format!("qdisc add dev e root netem {words}\n"));
    assert_eq!(
        of("delay 200ms"),
        [
            "warning netem-limit p:1:34: netem 8001: holds 1000 packets: with a delay of 200ms at most 60560Kbit pass, \
          of 100Mbit (limit 2065)"
        ]
    );
    for words in ["delay 100ms", "delay 200ms limit 1652", "delay 200ms rate 60mbit", "loss 1%"] {
        assert_eq!(of(words), [""; 0], "{words}");
    }
    assert_eq!(of("delay 200ms limit 1651").len(), 1);
}

/// Times and rates that mean something else than they seem to.
#[test]
fn units_that_mislead() {
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: cake bandwidth 300mbit rtt 300\n\
             qdisc add dev f root netem delay 100 loss 0\n\
             qdisc add dev g root fq_codel target 5 interval 0\n\
             qdisc add dev h root tbf rate 1mbps burst 10k latency 20ms\n"
        ),
        [
            "warning above-link p:1:47: cake 1: rate 300Mbit is above the link's 100Mbit: the queue builds in the \
             device (did you mean \"100mbit\"?)",
            "warning bare-time p:1:59: cake rtt 300 means 300 microseconds (write the unit: 300ms, or 300us if it \
             is meant)",
            "warning bare-time p:2:34: netem delay 100 means 100 microseconds (write the unit: 100ms, or 100us if \
             it is meant)",
            "warning bare-time p:3:38: fq_codel target 5 means 5 microseconds (write the unit: 5ms, or 5us if it \
             is meant)",
            "error out-of-range p:3:49: fq_codel interval: 0 is out of range (expected 1024ns to 137s)",
            "warning byte-rate p:4:31: rate 1mbps means 8Mbit: bps is bytes per second (write 8mbit if bytes are \
             meant, or 1mbit)",
        ]
    );
    // The target of cake in the table: a twentieth of the round trip, or one and a half packets.
    for (words, target) in [
        ("bandwidth 1gbit rtt 10ms", "about 500us (its target)"),
        ("bandwidth 128kbit", "about 142ms (its target)"),
        ("bandwidth 100mbit satellite", "about 50ms (its target)"),
    ] {
        let facts = report(&format!("qdisc add dev e root cake {words}\n")).facts;
        assert!(facts[0].text().starts_with(target), "{words}: {}", facts[0].text());
    }
    // Its memory: of its rate and its round trip, 4 MiB at least and 10240 frames at most.
    for (words, holds) in [
        ("bandwidth 20mbit", "4Mb of packets"),
        ("bandwidth 100mbit rtt 300ms", "15000000b of packets"),
        ("bandwidth 1gbit", "15140Kb of packets"),
        ("unlimited", "15140Kb of packets"),
        ("bandwidth 1gbit memlimit 32mb", "32Mb of packets"),
    ] {
        let facts = report(&format!("qdisc add dev e root cake {words}\n")).facts;
        assert_eq!(facts[0].holds, holds, "{words}");
    }
}

/// Returns the bounds of the waiting time in text: device, place, kind and bound.
fn facts(text: &str, options: &CheckOptions) -> Vec<String> {
    let line = |f: &check::Fact| format!("{} {} {}: {}", f.dev, f.place, f.kind, f.text());
    check::text(text, "p", options).facts.iter().map(line).collect()
}

#[test]
fn bounds_of_leaves() {
    let text = "qdisc add dev e root handle 1: htb default 10\n\
         class add dev e parent 1: classid 1:10 htb rate 8mbit\n\
         class add dev e parent 1: classid 1:20 htb rate 16mbit\n\
         qdisc add dev e parent 1:20 handle 20: fq_codel limit 1000 target 2ms\n\
         qdisc add dev f root handle 1: tbf rate 10mbit burst 20k latency 25ms\n\
         qdisc add dev g root bfifo limit 100000\n\
         qdisc add dev h root handle 1: prio\n\
         qdisc add dev i root handle 1: tbf rate 10mbit burst 20k limit 100k\n\
         qdisc add dev i parent 1:1 handle 2: pfifo limit 10\n\
         qdisc add dev j root netem delay 100ms limit 10\n";
    let options = CheckOptions { txqueuelen: 100, ..options() };
    assert_eq!(
        facts(text, &options),
        [
            "e 1:10 pfifo: at most 151ms (100 packets of 1514 bytes at 8Mbit, its class's rate)",
            "e 1:20 fq_codel: about 2ms (its target), at most 757ms (1000 packets of 1514 bytes at 16Mbit, its class's rate)",
            "f root tbf: at most 25ms (its latency)",
            "g root bfifo: at most 8ms (100000b of packets at 100Mbit, the link's rate)",
            "h 1:1 pfifo: at most 12.1ms (100 packets of 1514 bytes at 100Mbit, the link's rate)",
            "h 1:2 pfifo: unknown (served after the bands before it in prio 1:)",
            "h 1:3 pfifo: unknown (served after the bands before it in prio 1:)",
            "i 1:1 pfifo: at most 12.1ms (10 packets of 1514 bytes at 10Mbit, the rate of the tbf above)",
            "j root netem: at most 101ms (10 packets of 1514 bytes at 100Mbit, the link's rate, and a delay of 100ms)",
        ]
    );
    let unknown = CheckOptions { mtu: 9000, ..CheckOptions::default() };
    assert_eq!(
        facts("qdisc add root pfifo limit 5", &unknown),
        [" root pfifo: unknown (5 packets of 9014 bytes, no rate is known: give --link)"]
    );
}
