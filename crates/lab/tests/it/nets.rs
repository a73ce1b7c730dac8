//! Whole nets against arithmetic and laws: latency on an idle path, a router with a policy, senders
//! that wait, forwarders that drop, the byte limit, and the place of every packet.

use txweir_lab::net::Totals;
use txweir_lab::{Instant, Nanos};

use crate::common::{MS, close, played, report, scenario, two_hosts};

const LOAD: &str = "[[traffic]]\nname = 's'\nfrom = 'a'\nto = 'b'\nkind = 'stream'\n";
const ASK: &str = "[[traffic]]\nname = 'r'\nfrom = 'a'\nto = 'b'\nkind = 'rr'\nsize = '100'\n";

/// Returns hosts `a` and `b` with a router between them; `far` is the link from the router to `b`.
fn routed(top: &str, host: &str, far: &str, traffic: &str) -> String {
    format!(
        "title = 't'\n{top}\n[[host]]\nname = 'a'\n{host}\n[[host]]\nname = 'router'\n[[host]]\nname = 'b'\n{host}\n\
         [[link]]\nfrom = 'a'\nto = 'router'\nrate = '100mbit'\ndelay = '1ms'\n\
         [[link]]\nfrom = 'router'\nto = 'b'\none_way = true\n{far}\n\
         [[link]]\nfrom = 'b'\nto = 'router'\none_way = true\nrate = '100mbit'\ndelay = '1ms'\n{traffic}"
    )
}

#[test]
fn a_transaction_on_an_idle_path_takes_what_the_wires_take() {
    let top = "duration = '3s'\nwarmup = '1s'";
    let r = report(&two_hosts(top, "", "rate = '10mbit'\ndelay = '5ms'", ASK));
    // 166 bytes of frame, 12 of them a time stamp, and 24 of preamble, FCS and gap, each way.
    let each_way = 5 * MS + 190 * 8 * 100;
    let (group, t) = (&r.traffic[0], r.traffic[0].latency.unwrap());
    close(t.p50_ns as f64, (2 * each_way) as f64, 0.1);
    close(t.max_ns as f64, (2 * each_way) as f64, 0.1);
    close(group.transactions_per_s.unwrap(), 1e9 / (2 * each_way) as f64, 0.6);
    close(group.throughput_bit_s as f64, 1600.0 * group.transactions_per_s.unwrap(), 0.2);
    // Processor time adds up on both sides: 100 us per message, and 200 bytes at 1 us each.
    let cpu = "cpu_per_message = '100us'\ncpu_per_kilobyte = '1ms'";
    let r = report(&two_hosts(top, cpu, "rate = '10mbit'\ndelay = '5ms'", ASK));
    let per_s = r.traffic[0].transactions_per_s.unwrap();
    close(per_s, 1e9 / (2 * each_way + 300_000 + 200_000) as f64, 0.6);
}

#[test]
fn a_router_passes_packets_on() {
    let call =
        "[[traffic]]\nname = 'c'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '214'\nrate = '85600bit'\n";
    let far = "rate = '10mbit'\ndelay = '3ms'";
    let r = report(&routed("duration = '5s'\nwarmup = '1s'", "", far, call));
    let t = r.traffic[0].delay.unwrap();
    // 238 bytes at 100 Mbit/s and 1 ms, then at 10 Mbit/s and 3 ms.
    close(t.max_ns as f64, (MS + 19_040 + 3 * MS + 190_400) as f64, 0.1);
    assert_eq!((r.traffic[0].packets.unwrap().lost, r.traffic[0].packets.unwrap().received), (0, 200));
    // A call needs no way back.
    let one_way = "rate = '10mbit'\none_way = true";
    assert_eq!(report(&two_hosts("duration = '1s'", "", one_way, call)).links.len(), 1);
}

#[test]
fn a_policy_at_the_router_shapes_and_is_fair() {
    let far = "rate = '100mbit'\ndelay = '3ms'\npolicy = '''\nqdisc add root handle 1: tbf rate 10mbit burst 6kb latency 100ms\n\
               qdisc add parent 1:1 fq_codel\n'''";
    let streams = format!("{LOAD}count = 5\n{ASK}");
    let r = report(&routed("duration = '12s'\nwarmup = '2s'", "", far, &streams));
    let uplink = r.links.iter().find(|l| l.from == "router" && l.to == "b").unwrap();
    // tbf counts frames: 1460 of 1514 bytes are payload.
    let [s, a] = &r.traffic[..] else { panic!("two groups") };
    close((s.throughput_bit_s + a.throughput_bit_s) as f64, 1e7 * 1460.0 / 1514.0, 2.0);
    close(uplink.tx_bytes as f64 * 8.0 / 10.0, 1e7, 1.0);
    assert!(s.jain > 0.98, "{s:?}");
    assert!(uplink.drops["congested"] > 10 && uplink.full == 0, "{uplink:?}");
    // The path itself takes 10.2 ms. The request waits for a few packets, not for the 100 ms of the
    // queue.
    assert!(a.latency.unwrap().p95_ns < 20 * MS, "{a:?}");
    let queue = r.queues.iter().find(|q| q.from == "router" && q.to == "b").unwrap();
    assert_eq!(queue.qdisc, "tbf/fq_codel");
}

/// Fifty senders and room for ten packets: no packet is dropped, all senders progress, the line
/// stays full.
#[test]
fn senders_wait_instead_of_being_dropped() {
    for tso in ["0", "65226"] {
        let host = format!("tso = '{tso}'");
        let link = "rate = '1gbit'\ndelay = '50us'\npolicy = 'qdisc add root pfifo limit 10'";
        let streams = format!("{LOAD}count = 50\nstagger = '50ms'");
        let r = report(&two_hosts("duration = '3s'\nwarmup = '1s'", &host, link, &streams));
        for l in &r.links {
            assert!(l.drops.is_empty() && l.lost == 0, "tso {tso}: {l:?}");
        }
        let (l, s) = (&r.links[0], &r.traffic[0]);
        assert!(l.full > 1000, "tso {tso}: {l:?}");
        assert!(l.utilisation >= 0.95 && s.jain > 0.5, "tso {tso}: {l:?} {s:?}");
        assert_eq!(s.retransmitted_bytes, 0, "tso {tso}");
    }
}

#[test]
fn a_forwarder_drops_what_does_not_fit() {
    let far = "rate = '10mbit'\ndelay = '3ms'\npolicy = 'qdisc add root pfifo limit 10'";
    let r = report(&routed("duration = '8s'\nwarmup = '2s'", "", far, &format!("{LOAD}count = 20")));
    let uplink = r.links.iter().find(|l| l.from == "router" && l.to == "b").unwrap();
    assert!(uplink.drops["overlimit"] > 100 && uplink.full == 0, "{uplink:?}");
    assert!(uplink.utilisation > 0.9 && r.traffic[0].retransmitted_bytes > 100_000, "{uplink:?}");
    // The same queue at the senders' own host holds them back.
    let link = "rate = '10mbit'\ndelay = '3ms'\npolicy = 'qdisc add root pfifo limit 10'";
    let r = report(&two_hosts("duration = '8s'\nwarmup = '2s'", "", link, &format!("{LOAD}count = 20")));
    assert!(r.links[0].drops.is_empty() && r.links[0].full > 100, "{:?}", r.links[0]);
    // A host in the role of a forwarder drops. One stream alone never fills the queue: small queues
    // let a sender have two segments or a millisecond's worth below its socket.
    let forwarder = |streams: u32| {
        let link = format!("{link}\nrole = 'forwarder'");
        report(&two_hosts("duration = '8s'\nwarmup = '2s'", "", &link, &format!("{LOAD}count = {streams}")))
    };
    let r = forwarder(1);
    assert!(r.links[0].drops.is_empty() && r.links[0].utilisation > 0.99, "{:?}", r.links[0]);
    let r = forwarder(20);
    assert!(r.links[0].drops["overlimit"] > 10 && r.links[0].full == 0, "{:?}", r.links[0]);
}

#[test]
fn segmentation_at_the_device_carries_the_same() {
    let run = |tso: &str, policy: &str| {
        let link = format!("rate = '1gbit'\ndelay = '100us'\n{policy}");
        report(&two_hosts("duration = '1500ms'\nwarmup = '500ms'", &format!("tso = '{tso}'"), &link, LOAD))
    };
    let (without, with) = (run("0", ""), run("65226", ""));
    for r in [&without, &with] {
        close(r.traffic[0].throughput_bit_s as f64, 1e9 * 1460.0 / 1538.0, 1.0);
        assert_eq!(r.traffic[0].retransmitted_bytes, 0);
    }
    let packets = |r: &txweir_lab::report::Report| r.links[0].tx_packets as f64;
    assert!(packets(&without) / packets(&with) > 30.0, "{} {}", packets(&without), packets(&with));
    // A shaper whose bucket is smaller than a unit has units cut before they enter.
    let shaped = run("65226", "policy = 'qdisc add root tbf rate 500mbit burst 20kb latency 5ms'");
    close(shaped.traffic[0].throughput_bit_s as f64, 5e8 * 1460.0 / 1514.0, 2.0);
    assert_eq!(shaped.traffic[0].retransmitted_bytes, 0);
    assert!(packets(&shaped) > 35_000.0 && shaped.links[0].drops.is_empty());
}

/// Without a byte limit the ring fills up, and a request waits for all of it; with a limit it waits
/// for very little.
#[test]
fn the_byte_limit_empties_the_ring_and_keeps_the_rate() {
    let run = |bql: bool| {
        let link =
            format!("rate = '100mbit'\ndelay = '100us'\nring = 256\ncompletion = '100us'\nbql = {bql}");
        let top = "duration = '6s'\nwarmup = '2s'";
        report(&two_hosts(
            top,
            "small_queues = false",
            &link,
            &format!("{LOAD}count = 10\n{ASK}priority = 6\nstart = '100ms'"),
        ))
    };
    let (off, on) = (run(false), run(true));
    let ring = |r: &txweir_lab::report::Report| r.queues[0].ring_bytes.mean as f64;
    // 256 descriptors of one full frame each; the RR's small frames take their share of them.
    close(ring(&off), 256.0 * 1514.0, 3.0);
    assert!(ring(&on) < ring(&off) / 30.0, "{} {}", ring(&on), ring(&off));
    assert_eq!((off.queues[0].bql_limit, off.links[0].stops_bql), (None, 0));
    assert!(on.links[0].stops_bql > 1000 && on.queues[0].bql_limit.unwrap() < 10_000);
    for r in [&off, &on] {
        assert!(r.links[0].utilisation > 0.999, "{:?}", r.links[0]);
    }
    let wait = |r: &txweir_lab::report::Report| r.traffic[1].latency.unwrap().p50_ns as f64;
    // The frames in the ring take 31.5 ms at 100 Mbit/s.
    close(wait(&off), 256.0 * 1538.0 * 80.0, 5.0);
    assert!(wait(&on) < wait(&off) / 20.0, "{} {}", wait(&on), wait(&off));
}

/// At any time, every packet is counted in one place.
#[test]
fn nothing_is_lost_that_is_not_counted() {
    let everything = format!(
        "{LOAD}count = 8\n{ASK}count = 3\n[[traffic]]\nname = 'c'\nfrom = 'b'\nto = 'a'\nkind = 'cbr'\nsize = '1000'\n\
         rate = '8mbit'\nstagger = '0'\n"
    );
    let top = "duration = '3s'";
    let bad = "loss = '1%'\nreorder = '1%'\nreorder_by = '2ms'\njitter = '1ms'";
    let tbf = "policy = 'qdisc add root tbf rate 9mbit burst 20kb latency 50ms'";
    for (name, text) in [
        (
            "host",
            two_hosts(
                top,
                "",
                &format!("rate = '10mbit'\n{bad}\npolicy = 'qdisc add root pfifo limit 5'"),
                &everything,
            ),
        ),
        (
            "one qdisc for four rings",
            two_hosts(
                top,
                "tso = '65226'",
                &format!("rate = '10mbit'\nqueues = 4\n{bad}\npolicy = 'qdisc add root pfifo limit 2'"),
                &everything,
            ),
        ),
        (
            "a qdisc for each of four rings",
            two_hosts(
                top,
                "tso = '65226'",
                &format!("rate = '10mbit'\nqueues = 4\n{bad}\n{}", below_mq("pfifo limit 2")),
                &everything,
            ),
        ),
        (
            "multiq over four rings",
            two_hosts(
                top,
                "tso = '65226'",
                &format!(
                    "rate = '10mbit'\nqueues = 4\nring = 8\nbql = false\n{bad}\n\
                     policy = 'qdisc add root multiq'"
                ),
                &everything,
            ),
        ),
        ("router", routed(top, "", &format!("rate = '10mbit'\n{bad}\n{tbf}"), &everything)),
        ("tso", routed(top, "tso = '65226'", &format!("rate = '10mbit'\n{bad}\n{tbf}"), &everything)),
        (
            "origin in between",
            routed(top, "", &format!("rate = '10mbit'\nrole = 'origin'\n{bad}\n{tbf}"), &everything),
        ),
        (
            "whole units",
            two_hosts(
                top,
                "tso = '65226'",
                &format!("rate = '10mbit'\nreceive_offload = true\n{bad}"),
                &everything,
            ),
        ),
    ] {
        let s = scenario(&text);
        let mut built = s.build(1).unwrap();
        for step in 1..=300 {
            built.net.run(Instant::ZERO + Nanos(step * s.duration().0 / 300));
            let t = built.net.links().totals();
            let Totals {
                submitted,
                delivered,
                ended,
                dropped,
                stolen,
                refused,
                lost,
                backlog,
                in_devices,
                in_links,
            } = t;
            assert_eq!(stolen.packets, 0, "no action takes packets");
            assert_eq!(ended.packets, 0, "no action makes copies");
            let parts = [delivered, dropped, refused, lost, backlog, in_devices, in_links];
            assert_eq!(
                submitted.bytes,
                parts.iter().map(|p| p.bytes).sum::<u64>(),
                "{name} at {step}: {t:?}"
            );
            if !text.contains("tso =") {
                assert_eq!(
                    submitted.packets,
                    parts.iter().map(|p| p.packets).sum::<u64>(),
                    "{name} at {step}"
                );
            }
            // Each NIC separately, with the device's own account of the packets that it holds.
            let mut held = 0;
            for n in 0..built.ends.len() as u32 {
                let (nic, c) = (built.net.links().nic(n), built.net.links().nic(n).counts());
                let queued = nic.port().totals().backlog();
                assert_eq!(
                    c.taken.bytes,
                    c.tx.bytes + c.dropped.bytes + queued.bytes,
                    "{name} at {step}, nic {n}"
                );
                assert_eq!(c.departed.bytes, c.link.carried.bytes, "{name} at {step}, nic {n}");
                held += nic.wire().held().bytes;
            }
            assert!(in_devices.bytes <= held, "{name} at {step}: {in_devices:?} in devices that hold {held}");
        }
        let t = built.net.links().totals();
        assert!(t.delivered.packets > 3000 && t.lost.packets > 5, "{name}: {t:?}");
        assert_eq!(t.refused.packets > 0, name == "origin in between", "{t:?}");
    }
}

/// A packet that a full queue gives back has not left: what is under way is timed all the same.
#[test]
fn a_full_queue_does_not_hide_round_trips() {
    let link = "rate = '10mbit'\npolicy = 'qdisc add root pfifo limit 3'";
    let s = scenario(&two_hosts("duration = '2s'", "small_queues = false", link, LOAD));
    let mut built = s.build(1).unwrap();
    built.net.watch();
    built.net.run(Instant::ZERO + s.duration());
    let full = built.net.links().nic(0).counts().full;
    let timed = built.net.meters().watched()[0].whole.count();
    assert!(full > 100 && timed > 500, "{full} {timed}");
}

/// A launch time is for the devices of the host that sets it: a router does not learn of it.
#[test]
fn launch_times_stay_at_their_host() {
    let call = "[[traffic]]\nname = 'c'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '1000'\nrate = '1mbit'\n\
                txtime = '100ms'\n";
    let far = "rate = '100mbit'\ndelay = '1ms'\npolicy = 'qdisc add root fq'";
    let delay = report(&routed("duration = '1s'", "", far, call)).traffic[0].delay.unwrap();
    assert!(delay.count > 100 && delay.max_ns < 10 * MS, "{delay:?}");
}

/// mq with a qdisc like this in each of four queues.
fn below_mq(qdisc: &str) -> String {
    let below = (1..=4).map(|queue| format!("\nqdisc add parent 1:{queue} {qdisc}"));
    format!("policy = \"\"\"\nqdisc add root handle 1: mq{}\"\"\"", below.collect::<String>())
}

/// Rings take turns, so each has a quarter of the line; who waits for room in one is not woken by
/// another, nor forgotten.
#[test]
fn every_ring_serves_its_senders() {
    for policy in ["pfifo limit 2", "tbf rate 200mbit burst 64kb latency 2ms"] {
        let link = format!(
            "one_way = true\nrate = '100mbit'\nring = 8\nqueues = 4\n{}\n\
             [[link]]\nfrom = 'b'\nto = 'a'\none_way = true\nrate = '1gbit'",
            below_mq(policy)
        );
        let load = format!("{LOAD}count = 40\nstagger = '10ms'\n");
        let built = played(&two_hosts("duration = '8s'\nwarmup = '2s'", "", &link, &load));
        let nic = built.net.links().nic(0);
        assert_eq!(nic.port().paths().len(), 4);
        let sent: Vec<u64> = (0..4).map(|ring| nic.wire().ring_stats(ring).sent.bytes).collect();
        let bytes: u64 = sent.iter().sum();
        assert!(bytes > 98_000_000, "{policy}: {sent:?}");
        assert!(sent.iter().all(|n| (n * 4).abs_diff(bytes) < bytes / 20), "{policy}: {sent:?}");
        let members = built.net.traffic().counted(0).bytes();
        assert!(members.iter().all(|n| *n > 200_000), "{policy}: {members:?}");
    }
}

/// When the senders stop, every queue drains: no part waits for an event that does not come.
#[test]
fn every_queue_drains_when_the_senders_fall_silent() {
    // No packet comes back, so TCP falls silent after its window; then only timeouts send, one
    // segment each.
    let link = "one_way = true\nrate = '100mbit'\npolicy = 'qdisc add root pfifo limit 3'\n\
                [[link]]\nfrom = 'b'\nto = 'a'\none_way = true\nrate = '100mbit'\nloss = '100%'";
    let built =
        played(&two_hosts("duration = '900ms'", "", link, &format!("{LOAD}count = 100\nstagger = '0'")));
    let t = built.net.links().totals();
    assert_eq!((t.backlog.packets, t.in_devices.packets, t.in_links.packets), (0, 0, 0), "{t:?}");
    // A SYN from each client, and a SYN-ACK to each.
    assert_eq!((t.submitted.packets, t.delivered.packets, t.lost.packets), (200, 100, 100));
}
