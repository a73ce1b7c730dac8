//! Effects of a link on packets, against arithmetic: delay, jitter, loss, reordering, the time on
//! the line.

use crate::common::{self, MS, US, close, played, report, two_hosts};

/// 100 packets of 1000 bytes per second, from `a` to `b`.
const CALL: &str = "[[traffic]]\nname = 'call'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '1000'\nrate = '800kbit'\n\
                    stagger = '0'";

fn call(seconds: u32, link: &str) -> String {
    let top = format!("duration = '{seconds}s'");
    two_hosts(&top, "", &format!("rate = '10mbit'\ncompletion = 'immediate'\n{link}"), CALL)
}

#[test]
fn a_packet_arrives_after_its_time_on_the_line_and_the_delay() {
    // 1024 bytes with preamble, FCS and gap at 10 Mbit/s are 819.2 us.
    for (delay, expected) in [("0", 819_200), ("5ms", 5 * MS + 819_200), ("1s", 1_000 * MS + 819_200)] {
        let r = report(&call(10, &format!("delay = '{delay}'")));
        let t = r.traffic[0].delay.unwrap();
        close(t.max_ns as f64, expected as f64, 0.1);
        close(t.p50_ns as f64, expected as f64, 0.1);
        let p = r.traffic[0].packets.unwrap();
        let on_the_way = if delay == "1s" { 100 } else { 1 };
        assert_eq!((p.lost, p.refused, p.reordered), (0, 0, 0));
        assert!(p.sent == 1001 && p.sent - p.received <= on_the_way + 1, "{delay}: {p:?}");
    }
}

/// A histogram ends at an hour: the report says how many times are longer.
#[test]
fn the_report_says_which_times_are_beyond_an_hour() {
    let slow = CALL.replace("rate = '800kbit'", "rate = '8kbit'");
    let said = |link: &str| {
        let link = format!("rate = '100kbit'\ncompletion = 'immediate'\none_way = true\n{link}");
        let r = report(&two_hosts("duration = '5100s'", "", &link, &slow));
        let times = r.traffic[0].delay.expect("a packet");
        let (text, json) = (r.to_string(), r.json());
        (times.count, times.hour_or_more, text.contains("an hour"), json.contains("hour_or_more"))
    };
    let (count, late, text, json) = said("delay = '5000s'");
    assert!(count > 90 && late == count && text && json, "{count} {late} {text} {json}");
    let (count, late, text, json) = said("delay = '500s'");
    assert!(count > 4_000 && late == 0 && !text && !json, "{count} {late} {text} {json}");
}

#[test]
fn each_direction_has_its_own_delay() {
    let link = "rate = '10mbit'\none_way = true\ndelay = '5ms'\n[[link]]\nfrom = 'b'\nto = 'a'\nrate = '20mbit'\n\
                one_way = true\ndelay = '20ms'";
    let rr = "[[traffic]]\nname = 'r'\nfrom = 'a'\nto = 'b'\nkind = 'rr'\nrequest = '100'\nresponse = '1000'";
    let r = report(&two_hosts("duration = '5s'\nwarmup = '1s'", "", link, rr));
    // 190 bytes at 10 Mbit/s in one direction, 1090 at 20 Mbit/s in the other.
    let expected = 5 * MS + 152_000 + 20 * MS + 436_000;
    close(r.traffic[0].latency.unwrap().max_ns as f64, expected as f64, 0.1);
}

#[test]
fn jitter_delays_up_to_its_bound_and_keeps_the_order() {
    let r = report(&call(100, "delay = '5ms'\njitter = '40ms'"));
    let (t, p) = (r.traffic[0].delay.unwrap(), r.traffic[0].packets.unwrap());
    let line = 5 * MS + 819_200;
    assert!(t.max_ns <= (line + 40 * MS) * 1001 / 1000 && t.max_ns > line + 39 * MS, "{t:?}");
    // Packets are 10 ms apart: with 40 ms of jitter many would overtake without the rule of order.
    assert_eq!((p.reordered, p.lost), (0, 0));
    let r = report(&call(100, "delay = '5ms'\njitter = '4ms'"));
    // Here no packet waits for the one before: the jitter is uniform, so the mean is half.
    close(r.traffic[0].delay.unwrap().mean_ns as f64, (line + 2 * MS) as f64, 2.0);
}

#[test]
fn losses_are_as_many_as_a_binomial_draw_gives() {
    for (text, p) in [("0.1%", 0.001), ("2%", 0.02), ("50%", 0.5), ("0%", 0.0), ("100%", 1.0)] {
        let r = report(&call(200, &format!("loss = '{text}'")));
        let (packets, link) = (r.traffic[0].packets.unwrap(), &r.links[0]);
        let n = link.tx_packets as f64;
        let sigma = (n * p * (1.0 - p)).sqrt();
        assert!(
            n > 19_990.0 && (link.lost as f64 - n * p).abs() <= 5.0 * sigma + 1.0,
            "{text}: {} of {n}",
            link.lost
        );
        // The other direction carries no packets and loses none.
        assert_eq!((r.links[1].tx_packets, r.links[1].lost), (0, 0));
        assert!(packets.received + link.lost + 1 >= packets.sent, "{packets:?}");
        if p < 1.0 {
            // A packet missing at the end is noticed only when a later one arrives.
            assert!(link.lost - packets.lost <= 20, "{packets:?} {link:?}");
        }
    }
}

#[test]
fn late_packets_are_overtaken() {
    let r = report(&call(100, "delay = '5ms'\nreorder = '3%'\nreorder_by = '25ms'"));
    let (t, p, link) = (r.traffic[0].delay.unwrap(), r.traffic[0].packets.unwrap(), &r.links[0]);
    let sigma = (10_000.0_f64 * 0.03 * 0.97).sqrt();
    assert!((link.late as f64 - 300.0).abs() <= 5.0 * sigma, "{link:?}");
    // Two later packets come first, unless they are late as well.
    assert!(p.reordered <= link.late && p.reordered >= link.late * 9 / 10, "{p:?} {link:?}");
    close(t.max_ns as f64, (30 * MS + 819_200) as f64, 0.1);
    assert_eq!(p.lost, 0);
    // The delay is less than the distance between packets: no packet overtakes.
    let r = report(&call(100, "delay = '5ms'\nreorder = '3%'\nreorder_by = '9ms'"));
    assert_eq!((r.traffic[0].packets.unwrap().reordered, r.links[0].late > 200), (0, true));
}

/// A response of ten full segments arrives with its last bit, whether the host or the device cuts
/// it, and whether the receiver sees segments or the unit.
#[test]
fn a_unit_takes_the_time_of_its_segments() {
    let rr =
        "[[traffic]]\nname = 'r'\nfrom = 'a'\nto = 'b'\nkind = 'rr'\nrequest = '100'\nresponse = '14480'";
    // A request of 100 bytes is a frame of 166 and takes 190 on the line. Each host acknowledges
    // before its application answers, so an acknowledgement of 90 bytes goes ahead each way.
    let expected = 2 * 5 * MS + 152_000 + 10 * 1538 * 8 * 100 + 2 * 72_000;
    for (tso, offload) in [("0", false), ("65226", false), ("65226", true)] {
        let link =
            format!("rate = '10mbit'\ndelay = '5ms'\ncompletion = 'immediate'\nreceive_offload = {offload}");
        let top = "duration = '4s'\nwarmup = '2s'";
        let r = report(&two_hosts(top, &format!("tso = '{tso}'\nack_delay = '0'"), &link, rr));
        close(r.traffic[0].latency.unwrap().p50_ns as f64, expected as f64, 0.1);
        // At this rate a sender makes units of two segments.
        let response_packets = if tso == "0" { 11.0 } else { 6.0 };
        let per_transaction = r.links[1].tx_packets as f64 / r.traffic[0].transactions.unwrap() as f64;
        assert!((per_transaction - response_packets).abs() < 0.6, "tso {tso}: {per_transaction}");
    }
}

#[test]
fn the_line_is_busy_for_the_bytes_it_carries() {
    let r = report(&call(10, "delay = '1ms'"));
    // 100 packets per second of 819.2 us, and one more at the last instant.
    close(r.links[0].utilisation, 0.08192, 0.3);
    assert_eq!((r.links[0].direct, r.links[0].queued, r.links[0].tx_bytes), (1001, 0, 1_001_000));
}

/// A frame that others interrupt is not on the line for their time.
#[test]
fn the_line_is_busy_once_for_frames_that_interrupt_others() {
    let link = "rate = '10mbit'\none_way = true\nqueues = 2\ncompletion = 'immediate'\n\
                policy = 'qdisc add root mqprio num_tc 2 map 0 0 0 0 0 0 1 queues 1@0 1@1 hw 1 fp P E'";
    let cbr = |name: &str, size: u32, rate: &str, priority: u32| {
        format!(
            "[[traffic]]\nname = '{name}'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '{size}'\nrate = '{rate}'\n\
             priority = {priority}\n"
        )
    };
    let traffic = cbr("bulk", 1514, "4mbit", 0) + &cbr("calls", 200, "2mbit", 6);
    let r = report(&two_hosts("duration = '10s'", "", link, &traffic));
    // A call waits for the end of a fragment, and not for the 1230 us of a frame of 1538 bytes.
    let wait = r.traffic[1].delay.unwrap().max_ns;
    assert!(wait < 500 * US, "{wait}");
    // 330 frames of 1538 bytes a second, 1250 of 224, and 24 bytes for each of about two further
    // fragments of a frame.
    let busy = r.links[0].utilisation;
    assert!((0.625..0.65).contains(&busy), "{busy}");
}

#[test]
fn the_rate_steps_when_it_is_told_to() {
    let top = "duration = '6s'\nwarmup = '2s'";
    let link = "rate = '100mbit'\ndelay = '100us'\nstep = [{ at = '3s', rate = '10mbit' }, { at = '5s', rate = '50mbit' }]";
    let stream = "[[traffic]]\nname = 's'\nfrom = 'a'\nto = 'b'\nkind = 'stream'";
    let s = common::scenario(&two_hosts(top, "", link, stream));
    let mut built = s.build(1).unwrap();
    let mut rates = Vec::new();
    for second in 1..=6_u64 {
        let before = built.net.links().nic(0).counts().departed.bytes;
        built.net.run(txweir_lab::Instant::from_secs(second));
        rates.push((built.net.links().nic(0).counts().departed.bytes - before) as f64 * 8.0 / 1e6);
    }
    // 1514 of 1538 bytes on the line are frames.
    let share = 1514.0 / 1538.0;
    for (second, line) in [(1, 100.0), (2, 100.0), (3, 10.0), (4, 10.0), (5, 50.0)] {
        close(rates[second], line * share, 1.5);
    }
}

/// Between a doorbell and the device's first look at the ring, no packet leaves.
#[test]
fn the_doorbell_delays_the_first_packet_only() {
    let t = report(&call(10, "doorbell = '300us'")).traffic[0].delay.unwrap();
    close(t.max_ns as f64, (819_200 + 300 * US) as f64, 0.1);
    let built = played(&call(2, "doorbell = '300us'"));
    assert_eq!(built.net.links().nic(0).wire().doorbells(), 201);
}

/// Requests of netem to the owner of the frames: a copy of a frame, or a wrong bit in it.
#[test]
fn an_emulated_link_copies_frames_and_makes_bits_wrong() {
    let netem = |options: &str| {
        let r = report(&call(
            20,
            &format!(
                "one_way = true\npolicy = 'qdisc add root netem {options}'\n\
                 [[link]]\nfrom = 'b'\nto = 'a'\none_way = true\nrate = '10mbit'"
            ),
        ));
        let packets = r.traffic[0].packets.unwrap();
        (packets.sent, packets.received, r.links[0].tx_packets, r.links[0].lost)
    };
    let (sent, received, tx, lost) = netem("delay 1ms duplicate 100%");
    assert!(sent == 2001 && received >= 4000 && tx >= 4000, "{sent} {received} {tx}");
    assert_eq!(lost, 0);
    let (sent, received, tx, lost) = netem("delay 1ms corrupt 100%");
    assert!(sent == 2001 && tx >= 2000 && lost >= 2000, "{sent} {tx} {lost}");
    assert_eq!(received, 0);
    // A quarter, within five standard deviations.
    let (sent, received, _, lost) = netem("delay 1ms corrupt 25%");
    assert!(lost.abs_diff(500) < 100 && sent - received - lost <= 1, "{sent} {received} {lost}");
}
