//! TCP in virtual time, against literal values and laws: bytes arrive once and in order, latency is
//! that of the link, losses of a window are repaired in a round trip, the same seed gives the same
//! log, no end spins.

use std::collections::BTreeMap;

use txweir_lab::app::App;
use txweir_lab::cpu::Cpu;
use txweir_lab::dumbbell::{Dumbbell, DumbbellConfig};
use txweir_lab::engine::Trace;
use txweir_lab::frame::{FIN, Frame, SYN};
use txweir_lab::tcp::{Addr, Algorithm, Conn, Label, More, TcpConfig};
use txweir_lab::{Instant, Nanos};

use crate::common::Log;

const TSO: u32 = 65_226;
/// Payload of a full segment: 1460 bytes less the 12 of a time stamp.
const SEGMENT: u64 = 1448;
/// Bytes of its frame, without and with preamble, FCS and gap.
const FRAME: u64 = 1514;
const ON_THE_LINE: u64 = 1538;

fn streams(n: usize, total: Option<u64>) -> impl Iterator<Item = (App, App)> {
    (0..n).map(move |_| (App::stream(total), App::sink()))
}

/// Returns the bytes that the sink of a connection has read, and whether it has seen the end.
fn read(net: &Dumbbell, n: usize) -> (u64, bool) {
    match net.server(n).app() {
        App::Sink(s) => (s.read, s.finished),
        _ => unreachable!("a stream ends in a sink"),
    }
}

fn with_tso(tso_max: u32) -> TcpConfig {
    TcpConfig { tso_max, ..TcpConfig::default() }
}

/// The data that reaches a receiver, by the sequence numbers of the packets: the bytes that TCP may
/// hand to its reader.
#[derive(Default)]
struct Stream {
    /// The number of the SYN, once it has come.
    start: Option<u32>,
    /// Ends of the ranges received, by their starts, not joined.
    ranges: BTreeMap<u64, u64>,
}

impl Stream {
    fn saw(&mut self, f: &Frame) {
        if f.head().tcp_flags() & SYN != 0 {
            self.start = Some(f.head().tcp_seq().wrapping_add(1));
        }
        let Some(start) = self.start.filter(|_| f.payload_len() > 0) else { return };
        // The streams of these tests are shorter than 4 GB.
        let from = u64::from(f.head().tcp_seq().wrapping_sub(start));
        let end = self.ranges.entry(from).or_default();
        *end = (*end).max(from + u64::from(f.payload_len()));
    }
    /// Returns the number of bytes from the first on without a gap.
    fn in_order(&self) -> u64 {
        self.ranges.iter().fold(0, |next, (from, to)| if *from <= next { next.max(*to) } else { next })
    }
}

#[test]
fn the_same_seed_gives_the_same_log_and_another_seed_another() {
    let run = |seed| {
        let log = Log::default();
        let config = DumbbellConfig { seed, limit: 50, lose_every: 1000, ..DumbbellConfig::default() };
        let apps = streams(5, None).chain([(App::client(1, 1), App::server(1, 1))]);
        let mut net = Dumbbell::new(&config, apps).with_trace(Trace::to(Box::new(log.clone())));
        net.run(Instant::from_millis(1500));
        let trace = net.engine().trace().unwrap();
        let (hash, records, bytes) = (trace.hash(), trace.records(), log.0.take());
        assert_eq!(bytes.len() as u64, records * 32);
        assert!(records > 30_000, "{records}");
        (hash, bytes)
    };
    let (hash, log) = run(1);
    let (again, same) = run(1);
    assert_eq!(hash, again);
    assert!(log == same, "the logs differ in their bytes");
    assert_ne!(run(2).0, hash);
}

#[test]
fn tracing_changes_nothing() {
    let run = |trace: bool| {
        let mut net =
            Dumbbell::new(&DumbbellConfig { limit: 50, ..DumbbellConfig::default() }, streams(5, None));
        if trace {
            net = net.with_trace(Trace::new());
        }
        net.run(Instant::from_millis(300));
        (net.engine().dispatched(), net.bottleneck(), (0..5).map(|n| read(&net, n)).collect::<Vec<_>>())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn every_byte_arrives_once_with_tso_and_without() {
    const TOTAL: u64 = 3_000_017;
    for (tso, segments) in [(0, true), (TSO, true), (TSO, false), (6000, true)] {
        let tcp = with_tso(tso);
        let config =
            DumbbellConfig { client: tcp.clone(), server: tcp, segments, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(2, Some(TOTAL)));
        net.run(Instant::from_secs(2));
        for n in 0..2 {
            assert_eq!(read(&net, n), (TOTAL, true), "tso {tso}, segments {segments}");
            assert_eq!(net.client(n).stats().retransmitted, 0);
            assert_eq!(net.client(n).tcp().unacknowledged(), 0);
            assert!(net.client(n).is_over() && net.server(n).is_over(), "tso {tso}, segments {segments}");
        }
    }
}

/// One loss in 97 packets, or in 23 units: every loss is repaired without a timeout. At the tail of
/// the data loss probes repair it.
#[test]
fn losses_are_repaired_without_a_timeout() {
    const TOTAL: u64 = 2_000_000;
    let cases = [(Algorithm::Cubic, 0, 97), (Algorithm::Reno, 0, 97), (Algorithm::Cubic, TSO, 23)];
    for (congestion, tso, lose_every) in cases {
        let tcp = TcpConfig { congestion, ..with_tso(tso) };
        let config =
            DumbbellConfig { client: tcp.clone(), server: tcp, lose_every, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(1, Some(TOTAL)));
        net.run(Instant::from_secs(60));
        assert_eq!(read(&net, 0), (TOTAL, true), "{congestion:?} {tso}");
        let (lost, counters) = (net.bottleneck().lost, net.client(0).tcp().counters());
        assert!(lost > 0 && counters.retransmitted > 0, "{congestion:?} {tso}: {lost} lost, {counters:?}");
        assert_eq!(counters.timeouts, 0, "{congestion:?} {tso}: {lost} lost, {counters:?}");
    }
}

/// Two ends over a wire of 10 ms each way on which packets are 100 us apart, driven by hand.
struct Pair {
    ends: [Conn; 2],
    now: Instant,
    flying: Vec<(Instant, Frame)>,
    /// Data of the first end, by its own sequence numbers: departure time, place in the stream,
    /// true if it was lost.
    data: Vec<(Instant, u64, bool)>,
    got: Stream,
    /// Times at which the wire is free, in each direction.
    free: [Instant; 2],
}

const APART: Nanos = Nanos::from_micros(100);
const WAY: Nanos = Nanos::from_millis(10);

impl Pair {
    fn new(tcp: &TcpConfig, total: u64) -> Self {
        let tcp = TcpConfig { more: More { small_queues: false, ..tcp.more }, ..tcp.clone() };
        let (a, b) = (Addr { ip: [10, 0, 0, 1], port: 1 }, Addr { ip: [10, 0, 0, 2], port: 2 });
        let to = |to| Label { to, ..Label::default() };
        let ends = [
            Conn::connect(&tcp, (a, b), Instant::ZERO, App::stream(Some(total)), to(1), 1),
            Conn::listen(&tcp, (b, a), App::sink(), to(0), 2),
        ];
        let (now, flying, data) = (Instant::ZERO, Vec::new(), Vec::new());
        Self { ends, now, flying, data, got: Stream::default(), free: [Instant::ZERO; 2] }
    }

    /// Lets an end send. `lose` decides for each segment with data, by its place in the stream,
    /// when it first leaves.
    fn poll(&mut self, n: usize, lose: &impl Fn(u64) -> bool) {
        let Self { ends, now, flying, data, free, .. } = self;
        ends[n].poll(*now, &mut Cpu::default(), |f| {
            free[n] = free[n].max(*now) + APART;
            if n == 0 && f.payload_len() > 0 {
                // The number of the SYN is the upper half of the seed: zero.
                let place = u64::from(f.head().tcp_seq() - 1) / SEGMENT;
                let lost = lose(place) && !data.iter().any(|(_, p, _)| *p == place);
                data.push((*now, place, lost));
                if lost {
                    return Ok(());
                }
            }
            flying.push((free[n] + WAY, f));
            Ok(())
        });
    }

    /// Runs until no work is left, or until `until`.
    fn run(&mut self, until: Instant, lose: impl Fn(u64) -> bool) {
        while self.now < until {
            (0..2).for_each(|n| self.poll(n, &lose));
            let due = self.ends.each_ref().map(|e| e.poll_at(self.now));
            let next = due.into_iter().flatten().chain(self.flying.iter().map(|f| f.0)).min();
            let Some(next) = next else { return };
            self.now = next;
            let arrived: Vec<_> = self.flying.extract_if(.., |f| f.0 <= next).collect();
            for (_, f) in arrived {
                if f.to == 1 {
                    self.got.saw(&f);
                }
                self.ends[f.to as usize].deliver(next, &f);
                self.poll(f.to as usize, &lose);
            }
        }
    }

    fn read(&self) -> u64 {
        match self.ends[1].app() {
            App::Sink(s) => s.read,
            _ => unreachable!("a sink"),
        }
    }
}

/// Every second segment of a window is lost: selective acknowledgements name all of them, so within
/// a round trip of the first repair all are sent again, and none twice.
#[test]
fn many_losses_of_a_window_are_repaired_in_a_round_trip() {
    const SEGMENTS: u64 = 300;
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let tcp = TcpConfig { congestion, ..TcpConfig::default() };
        let mut pair = Pair::new(&tcp, SEGMENTS * SEGMENT);
        // Segments 70 to 149 are one window of slow start: 10, 20, 40, 80.
        let lose = |place: u64| (70..150).contains(&place) && place % 2 == 1;
        pair.run(Instant::from_secs(10), lose);
        assert_eq!((pair.read(), pair.got.in_order()), (SEGMENTS * SEGMENT, SEGMENTS * SEGMENT));
        let lost = pair.data.iter().filter(|d| d.2).count();
        assert_eq!(lost, 40, "{congestion:?}");
        let again: Vec<_> = pair
            .data
            .iter()
            .enumerate()
            .filter(|(i, d)| pair.data[..*i].iter().any(|e| e.1 == d.1))
            .collect();
        assert_eq!(again.len(), 40, "{congestion:?}: each once, and nothing else");
        let took = again[39].1.0.saturating_since(again[0].1.0);
        // A round trip, and the time of a packet each way.
        assert!(took <= WAY + WAY + APART + APART, "{congestion:?}: {took}");
        let counters = pair.ends[0].tcp().counters();
        assert_eq!((counters.timeouts, counters.recoveries), (0, 1), "{congestion:?}: {counters:?}");
    }
}

/// Without selective acknowledgements one loss is repaired for each round trip (RFC 6582).
#[test]
fn without_sack_each_loss_takes_a_round_trip() {
    let more = More { sack: false, ..More::default() };
    let tcp = TcpConfig { congestion: Algorithm::Reno, more, ..TcpConfig::default() };
    let mut pair = Pair::new(&tcp, 300 * SEGMENT);
    pair.run(Instant::from_secs(10), |place| [75, 85, 95, 105].contains(&place));
    assert_eq!((pair.read(), pair.got.in_order()), (300 * SEGMENT, 300 * SEGMENT));
    let repaired: Vec<_> = [75, 85, 95, 105]
        .map(|place| pair.data.iter().find(|d| d.1 == place && !d.2).unwrap().0)
        .windows(2)
        .map(|w| w[1].saturating_since(w[0]))
        .collect();
    assert!(repaired.iter().all(|took| *took >= WAY + WAY), "{repaired:?}");
}

/// No segment behind the last one of a stream can reveal its loss: the sender sends a probe (RFC
/// 8985 section 7), whose acknowledgement saves the timeout.
#[test]
fn a_lost_tail_is_probed_for() {
    let mut pair = Pair::new(&TcpConfig::default(), 60 * SEGMENT);
    pair.run(Instant::from_secs(10), |place| place == 59);
    assert_eq!(pair.read(), 60 * SEGMENT);
    let counters = pair.ends[0].tcp().counters();
    assert_eq!((counters.timeouts, counters.probes), (0, 1), "{counters:?}");
    let of_last: Vec<_> = pair.data.iter().filter(|d| d.1 == 59).map(|d| d.0).collect();
    let took = of_last[1].saturating_since(of_last[0]);
    // One segment is in flight, whose acknowledgement may be delayed: the probe waits as long as
    // the timeout would, at least 200 ms after a round trip, and takes its place.
    assert!((220..250).contains(&(took.0 / 1_000_000)), "{took}");
}

#[test]
fn a_full_queue_drops_and_the_streams_recover() {
    let config = DumbbellConfig { limit: 40, ..DumbbellConfig::default() };
    let mut net = Dumbbell::new(&config, streams(4, None));
    net.run(Instant::from_secs(5));
    let before: u64 = (0..4).map(|n| read(&net, n).0).sum();
    net.run(Instant::from_secs(10));
    let goodput = ((0..4).map(|n| read(&net, n).0).sum::<u64>() - before) * 8 / 5;
    assert!(net.bottleneck().dropped > 0);
    assert!((0..4).all(|n| net.client(n).tcp().counters().timeouts == 0));
    // 40 packets are half of what the path holds: four windows that fall by a third still fill the
    // line.
    assert!(goodput > 800_000_000, "{goodput}");
}

#[test]
fn request_and_response_take_what_the_link_takes() {
    let config = DumbbellConfig { stagger: Nanos(1), ..DumbbellConfig::default() };
    let mut net = Dumbbell::new(&config, [(App::client(1, 1), App::server(1, 1))]).with_transactions();
    net.run(Instant::from_secs(1));
    // One byte is a frame of 67 (12 of them a time stamp), with overhead 91 bytes: 728 ns at 1
    // Gbit/s; 500 us there, 500 us back.
    let (first, others) = net.transactions().split_at(2);
    assert!(others.iter().all(|t| *t == Nanos(1_000_728)), "{:?}", &others[..3]);
    // The first two requests wait behind an acknowledgement of their own host (90 bytes): that of
    // the SYN, and the quick one of the first response.
    assert_eq!(first, [Nanos(1_000_728 + 720); 2]);
    // The SYN (20 bytes of options: 74, with overhead 98) takes 784 ns, and a round trip.
    let expected = (1_000_000_000 - 1_000_784 - 2 * 720) / 1_000_728;
    assert_eq!(net.transactions().len(), expected);
    assert!(matches!(net.server(0).app(), App::Server(s) if s.done == expected as u64));
}

#[test]
fn the_processors_add_their_costs() {
    let config = DumbbellConfig { stagger: Nanos(1), ..DumbbellConfig::default() };
    let (client, server) = (Cpu::new(Nanos::from_micros(5), 0), Cpu::new(Nanos::from_micros(10), 1000));
    let apps = [(App::client(1000, 1), App::server(1000, 1))];
    let mut net = Dumbbell::new(&config, apps).with_transactions().with_cpu(client, server);
    net.run(Instant::from_secs(1));
    // 1066 + 24 bytes on the line; the server takes 10 us and 1 ns per byte of request and
    // response.
    let took = 1_090 * 8 + 1_000_000 + 10_000 + 1001;
    let (first, others) = net.transactions().split_at(1);
    assert!(others.iter().all(|t| *t == Nanos(took)), "{:?}", &others[..3]);
    // The first request waits behind the acknowledgement of the SYN.
    assert_eq!(first, [Nanos(took + 720)]);
    // The client takes 5 us between transactions.
    let expected = (1_000_000_000 - 1_000_784 - 720 + 5_000) / (took + 5_000);
    assert_eq!(net.transactions().len() as u64, expected);
}

#[test]
fn large_requests_are_cut_and_answered() {
    for tso in [0, TSO] {
        let tcp = with_tso(tso);
        let config = DumbbellConfig {
            client: tcp.clone(),
            server: tcp,
            stagger: Nanos(1),
            ..DumbbellConfig::default()
        };
        let mut net =
            Dumbbell::new(&config, [(App::client(140_000, 1), App::server(140_000, 1))]).with_transactions();
        net.run(Instant::from_secs(2));
        // With an open window: 97 segments, the last of 992 bytes with 90 bytes around it.
        let took = (96 * ON_THE_LINE + 992 + 90) * 8 + 1_000_000;
        let last = net.transactions().last().copied();
        assert_eq!(last, Some(Nanos(took)), "tso {tso}: {} transactions", net.transactions().len());
    }
}

#[test]
fn back_pressure_loses_nothing_and_fills_the_line() {
    for tso in [0, TSO] {
        let tcp = with_tso(tso);
        let config = DumbbellConfig {
            client: tcp.clone(),
            server: tcp,
            limit: 8,
            back_pressure: true,
            ..DumbbellConfig::default()
        };
        let mut net = Dumbbell::new(&config, streams(4, None));
        net.run(Instant::from_secs(1));
        assert_eq!(net.bottleneck().dropped, 0);
        for n in 0..4 {
            let stats = net.client(n).stats();
            assert_eq!(stats.retransmitted, 0, "tso {tso}");
            assert!(stats.stopped > 0);
        }
        let bits: u64 = (0..4).map(|n| read(&net, n).0).sum::<u64>() * 8;
        // 1448 of 1538 bytes on the line are payload; the start takes some milliseconds.
        assert!((920_000_000..941_500_000).contains(&bits), "tso {tso}: {bits}");
    }
}

/// A sender sizes its units by its rate, at most what the device takes: 64 KB hold 44 segments of
/// 1448 bytes, 6000 four.
#[test]
fn tso_makes_large_units_of_whole_segments() {
    let run = |tso_max| {
        let tcp = with_tso(tso_max);
        let config = DumbbellConfig { client: tcp.clone(), server: tcp, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(1, None));
        net.run(Instant::from_millis(500));
        let from = net.bottleneck();
        net.run(Instant::from_secs(2));
        let to = net.bottleneck();
        let (frames, segs, bytes) = (to.frames - from.frames, to.segs - from.segs, to.bytes - from.bytes);
        (segs as f64 / frames as f64, bytes as f64 / segs as f64)
    };
    assert_eq!(run(0), (1.0, FRAME as f64));
    let (per_unit, per_seg) = run(6000);
    assert!(per_unit > 3.5 && per_unit <= 4.0 && per_seg > 1505.0, "{per_unit} segments of {per_seg}");
    let (per_unit, per_seg) = run(TSO);
    assert!(per_unit > 20.0 && per_unit <= 44.0 && per_seg > 1510.0, "{per_unit} segments of {per_seg}");
}

#[test]
fn an_idle_connection_costs_nothing() {
    let config = DumbbellConfig { stagger: Nanos(1), ..DumbbellConfig::default() };
    let mut net = Dumbbell::new(&config, streams(1, Some(100_000)));
    net.run(Instant::from_secs(30));
    let before = net.engine().dispatched();
    net.run(Instant::from_secs(1000));
    assert!(net.engine().dispatched() - before <= 2, "{}", net.engine().dispatched() - before);
}

/// Drives two ends by hand with the worst timing: at every instant that either asks for, and at no
/// other. The reader got the data that has arrived without a gap.
#[test]
fn a_deadline_is_always_in_the_future() {
    let more = More { small_queues: false, ..More::default() };
    let tcp = TcpConfig { more, ..with_tso(TSO) };
    let (a, b) = (Addr { ip: [10, 0, 0, 1], port: 1 }, Addr { ip: [10, 0, 0, 2], port: 2 });
    let label = Label { to: 1, ..Label::default() };
    let mut ends = [
        Conn::connect(&tcp, (a, b), Instant(1_234_567), App::stream(None), label, 1),
        Conn::listen(&tcp, (b, a), App::sink(), Label::default(), 2),
    ];
    let (mut cpu, mut now) = (Cpu::default(), Instant::ZERO);
    let (mut flying, mut got): (Vec<(Instant, Frame)>, _) = (Vec::new(), Stream::default());
    let mut sent = 0_u64;
    for _ in 0..20_000 {
        for end in &mut ends {
            end.wake();
            end.poll(now, &mut cpu, |f| {
                sent += 1;
                match sent % 101 {
                    0 => {}              // Lost.
                    50 => return Err(f), // Refused.
                    _ => flying.push((now + Nanos(333_333), f)),
                }
                Ok(())
            });
        }
        let App::Sink(sink) = ends[1].app() else { unreachable!() };
        assert_eq!(sink.read, got.in_order());
        let due = ends.each_mut().map(|e| e.poll_at(now));
        for (due, end) in due.iter().zip(&ends) {
            assert!(due.is_none_or(|at| at > now), "{due:?} at {now:?}: {end:?}");
        }
        let next = due.into_iter().flatten().chain(flying.iter().map(|f| f.0)).min();
        // Both ends ask for no call only while a path is full, and the next round wakes it.
        now = next.unwrap_or(now + Nanos(1));
        for (_, f) in flying.extract_if(.., |f| f.0 <= now) {
            assert_eq!(f.head().tcp_flags() & FIN, 0);
            if f.to == 1 {
                got.saw(&f);
            }
            ends[f.to as usize].deliver(now, &f);
        }
    }
    assert!(got.in_order() > 1_000_000, "{}", got.in_order());
}

/// The sender's own queue has room for few packets, and reports the packets that it refused: these
/// are not lost.
#[test]
fn what_the_own_queue_drops_is_not_lost() {
    use txweir_lab::tcp::Handed;
    let mut tcp = TcpConfig { tso_max: 65_550, ..TcpConfig::default() };
    tcp.more.small_queues = false;
    let total = 20_000_000;
    let (a, b) = (Addr { ip: [10, 0, 0, 1], port: 1 }, Addr { ip: [10, 0, 0, 2], port: 2 });
    let mut ends = [
        Conn::connect(&tcp, (a, b), Instant::ZERO, App::stream(Some(total)), Label::default(), 1),
        Conn::listen(&tcp, (b, a), App::sink(), Label::default(), 2),
    ];
    let (mut now, mut dropped) = (Instant::ZERO, 0);
    let mut flying: Vec<(Instant, usize, Frame)> = Vec::new();
    let mut free = Instant::ZERO;
    for _ in 0..100_000 {
        for (n, end) in ends.iter_mut().enumerate() {
            end.poll(now, &mut Cpu::default(), |f| {
                if n == 0 && free.saturating_since(now) > Nanos::from_millis(12) {
                    dropped += 1;
                    return Handed::Dropped;
                }
                free = free.max(now) + Nanos(u64::from(f.wire_len()) * 400);
                let at = if n == 0 { free } else { now };
                flying.push((at + Nanos::from_millis(10), n ^ 1, f));
                Handed::Taken
            });
        }
        let next = flying.iter().map(|f| f.0).chain(ends.iter().filter_map(|e| e.poll_at(now))).min();
        let Some(at) = next else { break };
        now = at;
        while let Some(i) = flying.iter().position(|f| f.0 <= now) {
            let (_, to, frame) = flying.remove(i);
            ends[to].deliver(now, &frame);
        }
    }
    let App::Sink(sink) = ends[1].app() else { panic!("a sink") };
    assert_eq!(sink.read, total);
    assert!(dropped >= 5, "{dropped}");
    // Loss probes send a few segments again; segments taken as lost would all leave a second time.
    let again = ends[0].stats().retransmitted;
    assert!(again * 5 < dropped * 1448, "{again} bytes sent again, {dropped} units dropped");
}
