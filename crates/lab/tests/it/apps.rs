//! Applications against arithmetic on idle links, and against their bounds on busy ones: short
//! flows, calls, video, questions, flent's mix, and QUIC.

use txweir_lab::report::Report;
use txweir_lab::run::{Options, run};
use txweir_lab::scenario::Scenario;

use crate::common::{self, MS, US, close, played, report, scenario, two_hosts};

/// Returns the scenario of `traffic` from `a` to `b` over 10 Mbit/s and 5 ms.
fn over(seconds: u32, host: &str, link: &str, traffic: &str) -> String {
    let link = format!("rate = '10mbit'\ndelay = '5ms'\ncompletion = 'immediate'\n{link}");
    let traffic = format!("[[traffic]]\nname = 't'\nfrom = 'a'\nto = 'b'\nstagger = '0'\n{traffic}");
    two_hosts(&format!("duration = '{seconds}s'"), host, &link, &traffic)
}

/// Returns the time that a frame of `bytes` has on the line.
const fn line(bytes: u64) -> u64 {
    (bytes + 24) * 800
}

#[track_caller]
fn refused(text: &str) -> String {
    Scenario::parse(text, "t").map(|_| ()).unwrap_err().message
}

#[test]
fn a_short_flow_takes_a_handshake_and_its_bytes() {
    let text = over(4, "", "", "kind = 'short'\nsize = '14480'\narrivals_at = ['0', '1s', '2s']");
    let r = report(&text);
    let flows = r.traffic[0].flows.clone().unwrap();
    assert_eq!((flows.opened, flows.finished, flows.failed, flows.open), (3, 3, 0, 0));
    // The way of a SYN and its answer of 74 bytes, of an acknowledgement of 66 before the data, and
    // of ten segments.
    let took = 2 * (line(74) + 5 * MS) + line(66) + 10 * line(1514) + 5 * MS;
    let t = flows.completion.unwrap();
    close(t.mean_ns as f64, took as f64, 0.01);
    assert_eq!(t.count, 3);
    // 14480 bytes belong to the second class.
    assert_eq!(flows.by_size.iter().map(|c| c.up_to_bytes).collect::<Vec<_>>(), [Some(100_000)]);
    assert_eq!(r.traffic[0].throughput_bit_s, 3 * 14_480 * 8 / 4);
    assert!(r.to_string().contains("t: 3 flows opened, 3 finished\n"), "{r}");
}

#[test]
fn flows_come_at_their_load_and_leave_their_places() {
    let flows =
        "kind = 'short'\nsizes = [['4000', 3], ['28000', 1]]\nload = '50%'\nof = '10mbit'\nat_once = 40";
    let built = played(&over(100, "", "", flows));
    let f = built.net.traffic().counted(0).short_flows().unwrap();
    let c = f.counts();
    // 625000 bytes a second in flows of 10000 in the mean are 62.5; the tolerance is five standard
    // deviations.
    assert!(c.opened.abs_diff(6_250) < 5 * 79, "{c:?}");
    assert_eq!((c.turned_away, c.failed), (0, 0), "{c:?}");
    assert!(c.finished + 40 >= c.opened && f.open() < 20, "{c:?} {}", f.open());
    let by_size: Vec<u64> = f.by_size().map(|(_, d)| d.count()).collect();
    close(by_size[0] as f64, 3.0 * by_size[1] as f64, 6.0);
    close(built.net.traffic().counted(0).delivered()[0] as f64, c.opened as f64 * 10_000.0, 6.0);
    let t = built.net.links().totals();
    let found = [t.delivered, t.dropped, t.refused, t.lost, t.backlog, t.in_devices, t.in_links];
    assert_eq!(t.submitted.bytes, found.iter().map(|t| t.bytes).sum::<u64>());
}

#[test]
fn more_flows_than_there_are_places_are_turned_away() {
    let flows = "kind = 'short'\nsizes = 'pareto'\nsize = '30kb'\nload = '100%'\nof = '40mbit'\nat_once = 20";
    let built = played(&over(20, "", "loss = '1%'\nrole = 'forwarder'\ntxqueuelen = 20", flows));
    let f = built.net.traffic().counted(0).short_flows().unwrap();
    let c = f.counts();
    assert!(c.turned_away > 100 && c.finished > 200 && f.open() <= 20, "{c:?} {}", f.open());
    // A flow that is over has left its place; a flow that was read may still be closing.
    let ended = c.finished + c.failed;
    assert!((ended..=ended + f.open() as u64).contains(&c.opened), "{c:?} {}", f.open());
    let one = "kind = 'short'\nsizes = 'web'\narrivals = 3\nat_once = 6000";
    let two = format!(
        "{}[[traffic]]\nname = 'u'\nfrom = 'a'\nto = 'b'\n{one}",
        over(1, "", "", &format!("{one}\n"))
    );
    assert_eq!(refused(&two), "group u: more than 10000 short flows at once in all groups");
}

#[test]
fn keys_of_short_flows_are_checked() {
    let of = |keys: &str| refused(&over(1, "", "", &format!("kind = 'short'\n{keys}")));
    assert_eq!(of("arrivals = 1"), "size or sizes: must be given for this kind of traffic");
    assert_eq!(
        of("sizes = 'web'"),
        "load, arrivals or arrivals_at: expected one of them for this kind of traffic"
    );
    assert_eq!(of("sizes = 'web'\nload = '50%'"), "load: needs of, a rate");
    assert_eq!(of("sizes = 'web'\narrivals = 0"), "arrivals: expected 0.001 to 1000000 each second, given 0");
    assert_eq!(
        of("sizes = 'web'\narrivals_at = ['2s', '1s']"),
        "arrivals_at: expected 1 to 100000 times in order"
    );
    assert_eq!(of("sizes = 'web'\narrivals = 1\nat_once = 0"), "at_once: expected 1 to 10000, given 0");
    assert_eq!(of("sizes = 'web'\narrivals = 1\ncount = 2"), "count: not for this kind of traffic");
    assert!(
        of("sizes = 'wide'\narrivals = 1")
            .starts_with("invalid value: string \"wide\", expected web, pareto")
    );
    assert!(of("sizes = []\narrivals = 1").starts_with("sizes: expected web, pareto with size"));
}

#[test]
fn a_call_on_an_idle_link_is_as_good_as_calls_are() {
    let r = report(&over(60, "", "", "kind = 'voice'\ncount = 4"));
    let (t, v) = (&r.traffic[0], r.traffic[0].voice.unwrap());
    let p = t.packets.unwrap();
    assert_eq!((p.lost, v.late, v.unplayed), (0, 0, 0.0));
    close(t.delay.unwrap().p50_ns as f64, (line(214) + 5 * MS) as f64, 0.1);
    // Packets of two calls may meet.
    assert!(v.jitter_ns < 10 * US && t.delay.unwrap().max_ns < 5 * MS + 5 * line(214), "{v:?}");
    // Of the 3000 packets of a minute two fifths are speech: 1200 for each call, and spurts of 60
    // make a spread of 30 %.
    assert!((3_600..6_000).contains(&p.sent), "{p:?}");
    // 20 ms, the way, and at most 20 ms of waiting, which shrinks as the listener learns.
    let way = 20 * MS + line(214) + 5 * MS;
    assert!(v.mouth_to_ear_ns > way && v.mouth_to_ear_ns < way + 20 * MS, "{v:?}");
    // Less than 45 ms cost less than 1.1 of 93.2.
    assert!(v.r >= 92.1 && v.mos >= 4.37, "{v:?}");
    assert!(r.to_string().contains("t: not played 0.00 %, jitter 89 ns, mouth to ear "), "{r}");
}

#[test]
fn a_call_that_loses_packets_sounds_like_it() {
    let r = report(&over(200, "", "loss = '5%'\njitter = '3ms'", "kind = 'voice'\ncount = 4"));
    let (p, v) = (r.traffic[0].packets.unwrap(), r.traffic[0].voice.unwrap());
    close(p.lost as f64 / p.sent as f64, 0.05, 10.0);
    assert!(v.unplayed >= 0.045 && v.unplayed < 0.065, "{v:?}");
    // 95 * 5 / 30.1 is 15.8.
    assert!((74.0..78.5).contains(&v.r) && (3.7..4.0).contains(&v.mos), "{v:?}");
    // Neighbours differ by a third of 3 ms on average.
    close(v.jitter_ns as f64, MS as f64, 50.0);
}

#[test]
fn frames_of_video_take_their_packets() {
    let r = report(&over(20, "", "", "kind = 'video'\nrate = '2400kbit'"));
    let (v, p) = (r.traffic[0].video.unwrap(), r.traffic[0].packets.unwrap());
    // The 601st frame is made at the last instant.
    assert_eq!((v.frames, v.delivered, p.lost), (601, 600, 0));
    let t = v.frame_delay.unwrap();
    // 9375 bytes are in eight packets, each with 42 bytes of headers; 46875 in forty.
    let frame = |bytes: u64, packets: u64| 5 * MS + (bytes + packets * (42 + 24)) * 800;
    close(t.p50_ns as f64, frame(9_375, 8) as f64, 0.1);
    close(t.max_ns as f64, frame(46_875, 40) as f64, 0.1);
    assert_eq!(v.frames_late, 0);
    // A key frame takes 45 ms here.
    let late = report(&over(20, "", "", "kind = 'video'\nrate = '2400kbit'\ndeadline = '30ms'"));
    assert_eq!(late.traffic[0].video.unwrap().frames_late, 10);
    assert_eq!(
        refused(&over(1, "", "", "kind = 'video'\nrate = '1mbit'\nfps = 24")),
        "fps: expected 25 to 60, given 24"
    );
    assert!(
        refused(&over(1, "", "", "kind = 'video'\nrate = '1gbit'")).starts_with("rate: expected 8000 to ")
    );
}

#[test]
fn look_ups_take_a_round_trip_or_a_timeout() {
    let r = report(&over(100, "", "", "kind = 'dns'\narrivals = 10\ncount = 2"));
    let q = r.traffic[0].questions.unwrap();
    assert!(q.asked.abs_diff(2_000) < 5 * 45 && q.failed + q.again == 0, "{q:?}");
    let t = r.traffic[0].latency.unwrap();
    close(t.p50_ns as f64, (10 * MS + line(56 + 42) + line(72 + 42)) as f64, 0.2);
    let r = report(&over(400, "", "loss = '30%'", "kind = 'dns'\narrivals = 10"));
    let q = r.traffic[0].questions.unwrap();
    // 0.7 * 0.7 of all tries are answered: 0.51 twice is 0.26.
    close(q.failed as f64 / q.asked as f64, 0.2601, 12.0);
    close(q.again as f64 / q.asked as f64, 0.51, 6.0);
    assert!(r.traffic[0].latency.unwrap().p95_ns > 5_000 * MS);
}

#[test]
fn udp_rr_asks_when_it_is_answered() {
    let r = report(&over(10, "", "", "kind = 'udprr'"));
    // 50 bytes of frame count as 60, and 84 with preamble, FCS and gap.
    let took = 10 * MS + 2 * 84 * 800;
    close(r.traffic[0].latency.unwrap().max_ns as f64, took as f64, 0.1);
    close(r.traffic[0].transactions_per_s.unwrap(), 1e9 / took as f64, 0.2);
}

#[test]
fn rrul_is_eight_streams_and_three_pings() {
    let fair = "policy = 'qdisc add root fq_codel'";
    let r = report(&over(3, "", fair, "kind = 'rrul'\ncongestion = 'reno'"));
    let names: Vec<&str> = r.traffic.iter().map(|g| g.name.as_str()).collect();
    let expected = "t up be, t up bk, t up cs5, t up ef, t down be, t down bk, t down cs5, t down ef, t udp be, t udp bk, \
                    t udp ef";
    assert_eq!(names.join(", "), expected);
    assert_eq!(r.traffic[4].from, "b");
    assert!(r.links.iter().all(|l| l.utilisation > 0.9), "{:?}", r.links);
    assert!(r.traffic[8..].iter().all(|g| g.transactions.is_some_and(|n| n > 10)), "{r}");
}

#[test]
fn a_timeout_is_not_too_short() {
    let text = over(1, "", "", "kind = 'udprr'\ntimeout = '999us'");
    assert_eq!(refused(&text), "timeout: expected at least 1ms, given 999us");
}

/// Each group uses the TCP of its own keys, whatever the TCP of its hosts.
#[test]
fn a_group_chooses_its_tcp() {
    let two = |own: &str| {
        let stream = "kind = 'stream'\n";
        let second =
            format!("[[traffic]]\nname = 'u'\nfrom = 'a'\nto = 'b'\nstagger = '0'\nkind = 'stream'\n{own}\n");
        let link = "role = 'forwarder'\npolicy = 'qdisc add root fq_codel'";
        report(&over(10, "", link, &format!("{stream}{second}")))
    };
    let marks = |r: &Report| r.links[0].marks.values().sum::<u64>();
    let (same, marked) = (two(""), two("ecn = 'classic'"));
    assert!(marks(&same) == 0 && marks(&marked) > 5, "{:?}", marked.links[0]);
    assert_eq!(marked.traffic[1].retransmitted_bytes, 0);
    assert_ne!(two("congestion = 'reno'").traffic, same.traffic);
    let wrong = over(1, "", "", "kind = 'stream'\ncongestion = 'vegas'");
    assert_eq!(
        refused(&wrong),
        "congestion: expected one of reno, cubic, cubic+, dctcp, bbr, bbr3, prague, given \"vegas\""
    );
    let other = "kind = 'cbr'\nsize = '100'\nrate = '1mbit'\necn = 'classic'";
    assert_eq!(refused(&over(1, "", "", other)), "ecn: not for this kind of traffic");
}

fn quic(host: &str, link: &str, keys: &str) -> Report {
    report(&over(10, host, link, &format!("kind = 'quic'\n{keys}")))
}

#[test]
fn quic_fills_a_link_with_each_control() {
    for control in ["newreno", "cubic", "bbr"] {
        let r = quic("", "role = 'forwarder'\ntxqueuelen = 60", &format!("congestion = '{control}'"));
        let mbit = r.traffic[0].throughput_bit_s as f64 / 1e6;
        // 1420 of the 1518 bytes on the line are payload; the start costs some.
        assert!((7.9..9.4).contains(&mbit), "{control}: {mbit}");
        if control != "bbr" {
            assert!(r.links[0].drops["overlimit"] > 0, "{control}: {:?}", r.links[0]);
            assert!(r.traffic[0].retransmitted_bytes > 0, "{control}");
        }
    }
    let wrong = over(1, "", "", "kind = 'quic'\ncongestion = 'reno'");
    assert_eq!(refused(&wrong), "congestion: expected one of newreno, cubic, bbr, given \"reno\"");
    let wrong = over(1, "", "", "kind = 'quic'\necn = 'accurate'");
    assert_eq!(refused(&wrong), "ecn: expected one of off, classic, given \"accurate\"");
}

#[test]
fn quic_takes_marks_in_place_of_drops() {
    let codel = "role = 'forwarder'\npolicy = 'qdisc add root codel ecn'";
    let (off, on) = (quic("", codel, ""), quic("", codel, "ecn = 'classic'"));
    assert!(off.links[0].marks.is_empty() && off.links[0].drops["congested"] > 5, "{:?}", off.links[0]);
    assert!(on.links[0].marks["congested"] > 5 && on.links[0].drops.is_empty(), "{:?}", on.links[0]);
    assert_eq!(on.traffic[0].retransmitted_bytes, 0);
    // Marks keep the queue as short as drops do: the sender reacts to them.
    let queue = |r: &Report| r.queues[0].backlog_bytes.mean;
    assert!(queue(&on) < 2 * queue(&off).max(5_000), "{} {}", queue(&on), queue(&off));
}

#[test]
fn quic_sends_units_and_waits_for_room() {
    let link = "ring = 8\ntxqueuelen = 20";
    let (cut, units) = (quic("", link, ""), quic("tso = '65226'", link, ""));
    for r in [&cut, &units] {
        assert!(r.links[0].full > 10 && r.links[0].drops.is_empty(), "{:?}", r.links[0]);
        assert_eq!(r.traffic[0].retransmitted_bytes, 0);
        assert!(r.links[0].utilisation > 0.95, "{:?}", r.links[0]);
    }
    let per_packet = |r: &Report| r.links[0].tx_bytes / r.links[0].tx_packets;
    assert!(
        per_packet(&cut) < 1_500 && per_packet(&units) > 2_000,
        "{} {}",
        per_packet(&cut),
        per_packet(&units)
    );
}

/// Bytes, wire and times equal those of the first run, to the last event.
#[test]
fn quic_runs_twice_alike() {
    let link = "role = 'forwarder'\nloss = '0.5%'\nreorder = '1%'\nreorder_by = '3ms'\npolicy = 'qdisc add root fq_codel'";
    let s = scenario(&over(5, "tso = '65226'", link, "kind = 'quic'\ncount = 3\necn = 'classic'"));
    let go = |seed| {
        let log = common::Log::default();
        let options = Options { seed: Some(seed), log: Some(Box::new(log.clone())), ..Options::default() };
        (run(&s, options, |_| {}).unwrap(), log.0.take())
    };
    let (first, again, other) = (go(1), go(1), go(2));
    assert!(first.1.len() > 32 * 5_000);
    assert!(first == again, "two runs with one seed differ");
    assert!(first.1 != other.1, "two seeds have one log");
    assert!(
        first.0.traffic[0].jain > 0.7 && first.0.traffic[0].throughput_bit_s > 3_000_000,
        "{:?}",
        first.0.traffic
    );
}

/// QUIC beside TCP in one queue: both get a fair share if the queue is fair.
#[test]
fn quic_and_tcp_share_a_link() {
    let link = "role = 'forwarder'\npolicy = 'qdisc add root fq_codel'";
    let tcp = "kind = 'quic'\n[[traffic]]\nname = 'u'\nfrom = 'a'\nto = 'b'\nkind = 'stream'\n";
    let r = report(&over(10, "", link, tcp));
    let rate = |i: usize| r.traffic[i].throughput_bit_s as f64;
    close(rate(0), rate(1), 15.0);
    assert!(r.traffic[0].kind == "quic" && rate(0) + rate(1) > 8.5e6);
}
