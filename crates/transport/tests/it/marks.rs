//! Congestion marks between two ends: the result of a handshake, and the effect of reductions and
//! counters on a queue that marks.

use txweir_core::{Ecn, Instant, Nanos};
use txweir_transport::{Algorithm, Config, EcnMode, Flags, Segment};

use crate::common::{Net, Wire};

const PRAGUE: Algorithm = Algorithm::Prague;

fn config(algorithm: Algorithm, ecn: EcnMode) -> Config {
    Config { algorithm, ecn, small_queues: false, ..Config::default() }
}

/// Results of a bulk transfer through a queue with a step.
#[derive(Debug)]
struct Outcome {
    /// Share of the payload that fits the line.
    share: f64,
    /// Number of packets found in the queue after a fifth of the time: the mean and the 99th
    /// percentile.
    mean: f64,
    p99: usize,
    dropped: u64,
}

fn step(algorithm: Algorithm, rate: u64, one_way: Nanos, mark_above: usize) -> Outcome {
    let c = config(algorithm, EcnMode::Off);
    let wire = Wire { rate, delay: one_way, limit: 2_000, mark_above, ..Wire::default() };
    let mut net = Net::new(&c, &c, wire);
    let seconds = 15;
    net.run(Instant::from_secs(3));
    let read = net.read;
    net.found.clear();
    net.run(Instant::from_secs(3 + seconds));
    let mut found: Vec<usize> = net.found.iter().map(|f| f.1).collect();
    found.sort_unstable();
    let best = rate as f64 * 1448.0 / 1514.0;
    Outcome {
        share: (net.read - read) as f64 * 8.0 / seconds as f64 / best,
        mean: found.iter().sum::<usize>() as f64 / found.len() as f64,
        p99: found[found.len() * 99 / 100],
        dropped: net.dropped,
    }
}

/// A step at K holds DCTCP between K less half of its sawtooth and K plus a burst (Alizadeh et al.
/// 2010 section 3.3).
#[test]
fn a_step_holds_dctcp_at_its_threshold() {
    for (rate, ms, k) in [(50_000_000, 5, 20), (200_000_000, 1, 30), (20_000_000, 15, 30)] {
        let o = step(Algorithm::Dctcp, rate, Nanos::from_millis(ms), k);
        println!("dctcp {rate} bit/s {ms} ms step {k}: {o:?}");
        assert!(o.share >= 0.95, "{o:?}");
        assert!(o.mean <= 1.25 * k as f64 && o.p99 <= 2 * k, "{o:?}");
        assert_eq!(o.dropped, 0);
    }
}

#[test]
fn a_step_holds_prague_at_its_threshold() {
    for (rate, ms, k) in [(50_000_000, 5, 10), (200_000_000, 1, 10), (20_000_000, 15, 10)] {
        let o = step(PRAGUE, rate, Nanos::from_millis(ms), k);
        println!("prague {rate} bit/s {ms} ms step {k}: {o:?}");
        assert!(o.share >= 0.95, "{o:?}");
        assert!(o.mean <= 1.25 * k as f64 && o.p99 <= 2 * k, "{o:?}");
        assert_eq!(o.dropped, 0);
    }
}

/// Returns the code point of the data of the first end, and the three flags of SYN and answer.
fn agreement(client: &Config, server: &Config) -> (Ecn, u8, u8) {
    let mut net = Net::new(client, server, Wire::default());
    net.to_write = 100_000;
    net.run(Instant::from_secs(2));
    assert_eq!(net.read, 100_000);
    let data: Vec<Ecn> = net.sent.iter().filter(|(_, s)| s.len > 0).map(|(_, s)| s.ecn).collect();
    assert!(data.iter().all(|e| *e == data[0]), "{data:?}");
    (data[0], net.sent[0].1.flags.ace(), net.answers[0].1.flags.ace())
}

/// RFC 9768 table 2, RFC 3168 section 6.1.1, RFC 8257 section 3.
#[test]
fn a_handshake_agrees_on_what_both_know() {
    use Ecn::{Ect0, Ect1, NotEct};
    use EcnMode::{Accurate, Classic, Off};
    let cubic = |ecn| config(Algorithm::Cubic, ecn);
    let (prague, dctcp) = (config(PRAGUE, Off), config(Algorithm::Dctcp, Off));
    let table = [
        (cubic(Off), cubic(Accurate), (NotEct, 0b000, 0b000)),
        (cubic(Classic), cubic(Off), (NotEct, 0b011, 0b000)),
        (cubic(Classic), cubic(Classic), (Ect0, 0b011, 0b001)),
        (cubic(Classic), cubic(Accurate), (Ect0, 0b011, 0b001)),
        (cubic(Accurate), cubic(Off), (NotEct, 0b111, 0b000)),
        (cubic(Accurate), cubic(Classic), (Ect0, 0b111, 0b001)),
        (cubic(Accurate), cubic(Accurate), (Ect0, 0b111, 0b010)),
        (prague.clone(), cubic(Accurate), (Ect1, 0b111, 0b010)),
        (prague.clone(), cubic(Classic), (Ect0, 0b111, 0b001)),
        (prague.clone(), cubic(Off), (NotEct, 0b111, 0b000)),
        (prague.clone(), prague, (Ect1, 0b111, 0b010)),
        (dctcp.clone(), dctcp.clone(), (Ect0, 0b011, 0b001)),
        (cubic(Classic), dctcp.clone(), (Ect0, 0b011, 0b001)),
        // The SYN of DCTCP may be marked, which an ordinary end takes as a mistake.
        (dctcp.clone(), cubic(Classic), (NotEct, 0b011, 0b000)),
        (dctcp, cubic(Off), (NotEct, 0b011, 0b000)),
    ];
    for (client, server, expected) in table {
        assert_eq!(agreement(&client, &server), expected, "{client:?} {server:?}");
    }
}

/// The acknowledgement that ends the handshake reports how the answer arrived: not capable of marks
/// here (RFC 9768 table 3). Later flags count from 5.
#[test]
fn the_handshake_ends_with_the_code_point_of_the_answer() {
    let c = config(PRAGUE, EcnMode::Off);
    let mut net = Net::new(&c, &c, Wire::default());
    net.to_write = 14_480;
    net.run(Instant::from_secs(1));
    let aces: Vec<u8> = net.sent.iter().map(|(_, s)| s.flags.ace()).collect();
    assert_eq!(aces[..2], [0b111, 0b010]);
    assert!(aces[2..].iter().all(|a| *a == 5), "{aces:?}");
    assert_eq!(net.answers[0].1.flags.ace(), 0b010);
    assert!(net.answers[1..].iter().all(|(_, s)| s.flags.ace() == 5));
}

/// A SYN that is not answered offers less (RFC 9768 section 3.1.4.1, RFC 3168 section 6.1.1.1).
#[test]
fn a_syn_that_is_sent_again_offers_less() {
    for (c, expected) in [
        (config(PRAGUE, EcnMode::Off), [7, 7, 0, 0]),
        (config(Algorithm::Cubic, EcnMode::Classic), [3, 0, 0, 0]),
    ] {
        let mut end = txweir_transport::Connection::connect(&c);
        let mut offers = Vec::new();
        while offers.len() < 4 {
            let at = end.deadline().unwrap_or(Instant::ZERO);
            end.on_time(at);
            offers.extend(std::iter::from_fn(|| end.transmit(at)).map(|s| s.flags.ace()));
        }
        assert_eq!(offers, expected);
    }
}

/// A FIN alone is no data: unless every packet may be marked, it is not capable of marks
/// (`tcp_ecn_send` of Linux).
#[test]
fn a_fin_alone_may_be_marked_only_if_every_packet_may() {
    for (algorithm, code) in [(Algorithm::Cubic, Ecn::NotEct), (Algorithm::Dctcp, Ecn::Ect0)] {
        let c = config(algorithm, EcnMode::Classic);
        let mut net = Net::new(&c, &c, Wire::default());
        (net.to_write, net.close) = (5 * 1448, true);
        net.run(Instant::from_secs(2));
        let fins: Vec<(u32, Ecn)> =
            net.sent.iter().filter(|(_, s)| s.flags.has(Flags::FIN)).map(|(_, s)| (s.len, s.ecn)).collect();
        assert_eq!(fins, [(0, code)], "{algorithm:?}");
    }
}

/// RFC 3168 section 6.1.2: one reduction per round trip, each announced by one CWR, which ends the
/// echo.
#[test]
fn classic_marks_reduce_once_per_round_trip_and_are_answered() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let c = config(algorithm, EcnMode::Classic);
        let mut net = Net::new(&c, &c, Wire { mark_above: 40, limit: 2_500, ..Wire::default() });
        net.run(Instant::from_secs(20));
        let counters = net.ends[0].counters();
        let cwr: Vec<Instant> =
            net.sent.iter().filter(|(_, s)| s.flags.has(Flags::CWR) && s.len > 0).map(|(t, _)| *t).collect();
        println!(
            "{algorithm:?}: {} marks, {} reductions, {} CWR",
            net.marked,
            counters.reduced_by_marks,
            cwr.len()
        );
        assert!(counters.reduced_by_marks > 3);
        assert_eq!(cwr.len() as u64, counters.reduced_by_marks);
        assert!(cwr.windows(2).all(|w| w[1].saturating_since(w[0]) >= Nanos::from_millis(30)));
        assert_eq!(net.dropped, 0, "marks take the place of losses");
        // An echo begins with a mark and ends with the CWR a round trip later; it goes on if the
        // segment with the CWR was marked.
        let echoes: Vec<bool> = net.answers.iter().map(|(_, s)| s.flags.has(Flags::ECE)).collect();
        let began = echoes.windows(2).filter(|w| !w[0] && w[1]).count() as u64;
        let reduced = counters.reduced_by_marks;
        assert!(began <= reduced && began * 2 >= reduced, "{began} echoes");
    }
}

/// The sender's count equals the queue's marks, although most acknowledgements are lost and the
/// counter of three bits wraps unseen: the option carries the difference (RFC 9768 section 3.2.3).
#[test]
fn the_count_of_marks_is_exact_when_acknowledgements_are_lost() {
    for (every, lose) in [(1, vec![]), (2, vec![]), (5, vec![]), (3, vec![700, 701, 950, 2000, 2001])] {
        let c = config(PRAGUE, EcnMode::Off);
        let wire =
            Wire { mark_above: 5, answer_every: every, lose: lose.into_iter().collect(), ..Wire::default() };
        let mut net = Net::new(&c, &c, wire);
        // A FIN of the answering end carries no option, so the test closes nothing.
        (net.to_write, net.close) = (6_000 * 1448, false);
        net.run(Instant::from_secs(60));
        assert_eq!(net.read, 6_000 * 1448);
        let counted = net.ends[0].flow().delivered_ce;
        let received = net.ends[1].counters().marks_received;
        println!("every {every}: {} marked, {received} received, {counted} counted", net.marked);
        // The flags alone would miss marks where they wrap.
        let aces: Vec<u64> = net.answers[1..].iter().map(|(_, s)| u64::from(s.flags.ace())).collect();
        let alone: u64 = (aces[0] + 3) % 8 + aces.windows(2).map(|w| (8 + w[1] - w[0]) % 8).sum::<u64>();
        println!("the flags alone tell {alone}");
        assert!(net.marked > 100);
        assert!(every < 5 || alone < net.marked, "the counter has not wrapped");
        assert_eq!(counted, net.marked, "every {every}");
    }
}

/// Without the option the count is never too low.
#[test]
fn without_the_option_marks_are_not_missed() {
    let c = config(PRAGUE, EcnMode::Off);
    let mut ends = [txweir_transport::Connection::connect(&c), txweir_transport::Connection::listen(&c)];
    let mut now = Instant::ZERO;
    let mut marked = 0_u64;
    for round in 0..200_u64 {
        now += Nanos::from_millis(10);
        ends[0].on_time(now);
        ends[0].write(now, 20 * 1448);
        let sent: Vec<Segment> = std::iter::from_fn(|| ends[0].transmit(now)).collect();
        let mut answers = Vec::new();
        for (i, mut part) in sent.iter().flat_map(|s| (0..).map_while(|i| s.part(i))).enumerate() {
            if part.len > 0 && (i as u64 + round).is_multiple_of(2) {
                part.ecn = Ecn::Ce;
                marked += 1;
            }
            ends[1].receive(now, &part);
            ends[1].read(now, u64::MAX);
            answers.extend(std::iter::from_fn(|| ends[1].transmit(now)));
        }
        now += Nanos::from_millis(10);
        // Only the last answer of a round arrives, without its option.
        if let Some(last) = answers.last() {
            ends[0].receive(now, &Segment { ecn_bytes: None, ..*last });
        }
    }
    let counted = ends[0].flow().delivered_ce;
    println!("{marked} marked, {counted} counted");
    assert!(marked > 100 && counted >= marked, "{marked} {counted}");
}

/// With Reno slow start overflows a deep queue; with HyStart++ it ends before that. The least round
/// trip of a round shows the queue of the round before, when the window is up to four times the
/// path; five conservative rounds let it grow threefold from there.
#[test]
fn hystart_plus_plus_leaves_slow_start_before_the_queue_overflows() {
    let wire = Wire { rate: 50_000_000, delay: Nanos::from_millis(20), limit: 2_500, ..Wire::default() };
    let run = |algorithm| {
        let receiver = Config { receive_buffer_max: 64 << 20, ..Config::default() };
        let mut net = Net::new(&config(algorithm, EcnMode::Off), &receiver, wire.clone());
        net.run(Instant::from_secs(5));
        (net.dropped, net.ends[0].flow().ssthresh, net.read)
    };
    let (plus, reno) = (run(Algorithm::CubicPlus), run(Algorithm::Reno));
    println!("cubic+ {plus:?}, reno {reno:?}");
    assert!(reno.0 > 0);
    assert_eq!(plus.0, 0);
    // The path holds 165 segments, and the queue 2500 more.
    assert!((165..2_665).contains(&plus.1), "{}", plus.1);
}

/// Flows of 5 and of 25 ms that are alone at their queue grow by the same number of bytes in the
/// same time: once they are no longer young, the short one grows like one of 25 ms.
#[test]
fn growth_does_not_depend_on_a_short_round_trip() {
    let grown = |ms: u64| {
        let c = config(PRAGUE, EcnMode::Off);
        let wire = Wire {
            rate: 100_000_000,
            delay: Nanos(ms * 500_000),
            limit: 2_000,
            mark_above: 20,
            ..Wire::default()
        };
        let mut net = Net::new(&c, &c, wire);
        net.run(Instant::from_secs(8));
        // No packet is marked from here on.
        net.wire.mark_above = usize::MAX;
        net.wire.rate = 1_000_000_000;
        let before = net.ends[0].flow().cwnd;
        net.run(Instant::from_secs(10));
        let f = net.ends[0].flow();
        f64::from(f.cwnd - before) * 1448.0 * 8.0 / (f64::from(f.srtt8_us >> 3) / 1e6)
    };
    // One segment per 25 ms and round trip of 25 ms: 1448 bytes / (25 ms)^2 = 18.5 Mbit/s per
    // second.
    let (short, long) = (grown(5), grown(25));
    println!("5 ms: {:.1} Mbit/s in 2 s, 25 ms: {:.1} Mbit/s", short / 1e6, long / 1e6);
    assert!((0.8..1.25).contains(&(short / long)), "{short} {long}");
    assert!((0.8..1.1).contains(&(long / (2.0 * 1448.0 * 8.0 / 0.025_f64.powi(2)))), "{long}");
}
