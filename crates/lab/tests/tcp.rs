//! TCP in virtual time, against literal values and laws: bytes arrive once and in order, latency is what the
//! link says, the same seed gives the same log, nothing spins.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use txweir_lab::app::App;
use txweir_lab::cpu::Cpu;
use txweir_lab::dumbbell::{Dumbbell, DumbbellConfig};
use txweir_lab::engine::Trace;
use txweir_lab::frame::Frame;
use txweir_lab::tcp::{Addr, Congestion, Conn, Label, Pad, TcpConfig};
use txweir_lab::{Instant, Nanos};

const TSO: u32 = 65_226;

fn streams(n: usize, total: Option<u64>) -> impl Iterator<Item = (App, App)> {
    (0..n).map(move |_| (App::stream(total), App::sink()))
}

fn read(net: &Dumbbell, n: usize) -> (u64, u64, bool) {
    match net.server(n).app() {
        App::Sink(s) => (s.read, s.corrupt, s.finished),
        _ => unreachable!("a stream ends in a sink"),
    }
}

fn with_content(tso_max: u32) -> TcpConfig {
    TcpConfig { content: true, tso_max, ..TcpConfig::default() }
}

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(b);
        Ok(b.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
fn every_byte_arrives_once_and_in_order_with_tso_and_without() {
    const TOTAL: u64 = 3_000_017;
    for (tso, segments) in [(0, true), (TSO, true), (TSO, false), (6000, true)] {
        let tcp = with_content(tso);
        let config = DumbbellConfig { client: tcp, server: tcp, segments, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(2, Some(TOTAL)));
        net.run(Instant::from_secs(2));
        for n in 0..2 {
            assert_eq!(read(&net, n), (TOTAL, 0, true), "tso {tso}, segments {segments}");
            assert_eq!(net.client(n).stats().retransmitted, 0);
            assert_eq!(net.client(n).send_queue(), 0);
        }
    }
}

#[test]
fn losses_are_repaired() {
    const TOTAL: u64 = 2_000_000;
    let cases = [
        (Congestion::Cubic, 0, 97),
        (Congestion::Reno, 0, 97),
        (Congestion::None, 0, 97),
        (Congestion::Cubic, TSO, 23),
    ];
    for (congestion, tso, lose_every) in cases {
        let tcp = TcpConfig { congestion, ..with_content(tso) };
        let config = DumbbellConfig { client: tcp, server: tcp, lose_every, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(1, Some(TOTAL)));
        net.run(Instant::from_secs(60));
        let (bytes, corrupt, finished) = read(&net, 0);
        assert_eq!((bytes, corrupt), (TOTAL, 0), "{congestion:?} {tso}");
        // With no congestion control, the stack can lose its FIN for good (see the module's limits).
        assert!(finished || congestion == Congestion::None, "{congestion:?} {tso}");
        let (lost, again) = (net.bottleneck().lost, net.client(0).stats().retransmitted);
        assert!(lost > 0 && again > 0, "{congestion:?} {tso}: {lost} lost, {again} bytes again");
    }
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
    assert!(goodput > 800_000_000, "{goodput}");
}

#[test]
fn request_and_response_take_what_the_link_takes() {
    let config = DumbbellConfig { stagger: Nanos(1), ..DumbbellConfig::default() };
    let mut net = Dumbbell::new(&config, [(App::client(1, 1), App::server(1, 1))]).with_transactions();
    net.run(Instant::from_secs(1));
    // One byte is a frame of 55, with overhead 79 bytes: 632 ns at 1 Gbit/s; 500 us there, 500 us back.
    assert!(net.transactions().iter().all(|t| *t == Nanos(1_000_632)), "{:?}", &net.transactions()[..3]);
    // The SYN (MSS, window scale and SACK permitted: 66 bytes) takes 720 ns, and a round trip.
    let expected = (1_000_000_000 - 1_000_720) / 1_000_632;
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
    // 1054 + 24 bytes on the line; the server takes 10 us and 1 ns per byte of request and response.
    let took = 1_078 * 8 + 1_000_000 + 10_000 + 1001;
    assert!(net.transactions().iter().all(|t| *t == Nanos(took)), "{:?}", &net.transactions()[..3]);
    // The client takes 5 us between transactions.
    let expected = (1_000_000_000 - 1_000_720 + 5_000) / (took + 5_000);
    assert_eq!(net.transactions().len() as u64, expected);
}

#[test]
fn large_requests_are_cut_and_answered() {
    for tso in [0, TSO] {
        let tcp = TcpConfig { tso_max: tso, ..TcpConfig::default() };
        let config =
            DumbbellConfig { client: tcp, server: tcp, stagger: Nanos(1), ..DumbbellConfig::default() };
        let mut net =
            Dumbbell::new(&config, [(App::client(140_000, 1), App::server(140_000, 1))]).with_transactions();
        net.run(Instant::from_secs(2));
        // Once the window is open: 96 segments, the last of 1300 bytes, 95 * 1538 + 1378 bytes on the line.
        let took = (95 * 1538 + 1378) * 8 + 1_000_000;
        let last = net.transactions().last().copied();
        assert_eq!(last, Some(Nanos(took)), "tso {tso}: {} transactions", net.transactions().len());
    }
}

#[test]
fn back_pressure_loses_nothing_and_fills_the_line() {
    for tso in [0, TSO] {
        let tcp = TcpConfig { congestion: Congestion::None, ..with_content(tso) };
        let config = DumbbellConfig {
            client: tcp,
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
            assert_eq!((stats.retransmitted, read(&net, n).1), (0, 0), "tso {tso}");
            assert!(stats.stopped > 0);
        }
        let bits: u64 = (0..4).map(|n| read(&net, n).0).sum::<u64>() * 8;
        assert!((930_000_000..950_000_000).contains(&bits), "tso {tso}: {bits}");
    }
}

#[test]
fn tso_makes_large_units_of_whole_segments() {
    let run = |tso_max, tso_defer| {
        let tcp = TcpConfig {
            tso_max,
            tso_defer,
            send_buffer: 512 << 10,
            receive_buffer: 512 << 10,
            ..TcpConfig::default()
        };
        let config = DumbbellConfig { client: tcp, server: tcp, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, streams(10, None));
        net.run(Instant::from_millis(500));
        let from = net.bottleneck();
        net.run(Instant::from_secs(2));
        let to = net.bottleneck();
        let (frames, segs, bytes) = (to.frames - from.frames, to.segs - from.segs, to.bytes - from.bytes);
        (segs as f64 / frames as f64, bytes as f64 / segs as f64)
    };
    assert_eq!(run(0, true), (1.0, 1514.0));
    // 44 segments of 1514 bytes fit into 65226, four into 6000.
    let (per_unit, per_seg) = run(TSO, true);
    assert!(
        per_unit > 42.0 && per_unit <= 44.0 && per_seg > 1510.0,
        "{per_unit} segments per unit of {per_seg}"
    );
    let (per_unit, per_seg) = run(6000, true);
    assert!(
        per_unit > 3.9 && per_unit <= 4.0 && per_seg > 1505.0,
        "{per_unit} segments per unit of {per_seg}"
    );
    let (eager, _) = run(TSO, false);
    assert!(eager < 5.0, "acknowledgements of two segments make units of two: {eager}");
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

/// Drives two ends by hand at the worst of times: every instant that either asks for, and no other.
#[test]
fn a_deadline_is_always_in_the_future() {
    let tcp = TcpConfig { tso_max: TSO, ..TcpConfig::default() };
    let (a, b) = (Addr { ip: [10, 0, 0, 1], port: 1 }, Addr { ip: [10, 0, 0, 2], port: 2 });
    let mut ends = [
        Conn::connect(
            &tcp,
            a,
            b,
            Instant(1_234_567),
            App::stream(None),
            Label { to: 1, ..Label::default() },
            1,
        ),
        Conn::listen(&tcp, b, App::sink(), Label::default(), 2),
    ];
    let (mut pad, mut cpu, mut now) = (Pad::default(), Cpu::default(), Instant::ZERO);
    let mut flying: Vec<(Instant, Frame)> = Vec::new();
    let mut sent = 0_u64;
    for _ in 0..20_000 {
        for end in &mut ends {
            end.wake();
            end.poll(now, &mut pad, &mut cpu, |f| {
                sent += 1;
                match sent % 101 {
                    0 => {}              // Lost.
                    50 => return Err(f), // Refused.
                    _ => flying.push((now + Nanos(333_333), f)),
                }
                Ok(())
            });
        }
        let due = ends.each_mut().map(|e| e.poll_at(now));
        for (due, end) in due.iter().zip(&ends) {
            assert!(due.is_none_or(|at| at > now), "{due:?} at {now:?}: {end:?}");
        }
        let next = due.into_iter().flatten().chain(flying.iter().map(|f| f.0)).min();
        // Nobody asks for anything only while a path is full, and the next round wakes it.
        now = next.unwrap_or(now + Nanos(1));
        for (_, f) in flying.extract_if(.., |f| f.0 <= now) {
            ends[f.to as usize].deliver(now, &f, &mut pad, &mut cpu);
        }
    }
    let App::Sink(sink) = ends[1].app() else { unreachable!() };
    assert!(sink.read > 1_000_000, "{}", sink.read);
}
