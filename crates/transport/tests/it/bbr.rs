//! Both versions of BBR over a wire: throughput with losses, the queue, the search for the round
//! trip, two flows.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Algorithm, Config};

use crate::common::{Net, Wire};

const BOTH: [Algorithm; 2] = [Algorithm::Bbr, Algorithm::Bbr3];

fn config(algorithm: Algorithm) -> Config {
    Config { algorithm, seed: 7, receive_buffer: 6 << 20, ..Config::default() }
}

/// Runs for `seconds` on 20 Mbit/s and 30 ms: 50 segments of a bandwidth-delay product.
fn run(algorithm: Algorithm, wire: Wire, seconds: u64) -> Net {
    let c = config(algorithm);
    let mut net = Net::new(&c, &c, wire);
    net.run(Instant::from_secs(seconds));
    net
}

/// Returns the payload read, as a share of the payload that 1514-byte packets with 1448 bytes of
/// payload have on 20 Mbit/s.
fn share(net: &Net, seconds: u64) -> f64 {
    net.read as f64 * 8.0 / (seconds as f64 * 20e6 * 1448.0 / 1514.0)
}

/// Returns the deepest queue since `from`, in packets, from the round trips of the data.
fn deepest(net: &Net, from: Instant) -> u64 {
    let mut deepest = 0;
    let mut sent = net.sent.iter().filter(|(_, s)| s.len > 0 && !s.again).peekable();
    for (at, ack) in &net.answers {
        let mut last = None;
        while let Some((left, s)) = sent.next_if(|(_, s)| s.end() <= ack.ack) {
            last = Some((*left, s.end()));
        }
        if let Some((left, end)) = last.filter(|_| *at > from && ack.sacks.is_empty())
            && end == ack.ack
        {
            deepest = deepest.max(at.saturating_since(left).0.saturating_sub(30_000_000) / 605_600);
        }
    }
    deepest
}

#[test]
fn the_line_is_full_whatever_the_queue() {
    for algorithm in BOTH {
        for limit in [50, 100, 500, 2000] {
            let net = run(algorithm, Wire { limit, ..Wire::default() }, 20);
            let (share, queue) = (share(&net, 20), deepest(&net, Instant::from_secs(3)));
            println!("{} limit {limit}: {share:.3}, queue {queue}, {} lost", algorithm.name(), net.dropped);
            assert!(share > 0.9, "{}, limit {limit}: {share}", algorithm.name());
            // At most two products and a few super-segments are in flight: one product of queue.
            assert!(queue <= 65, "{}, limit {limit}: {queue}", algorithm.name());
            assert_eq!(net.ends[0].counters().timeouts, 0);
        }
    }
}

/// One of a hundred packets is lost at random. Version 1 keeps nine tenths of the line. Version 3
/// gives way: each round trip with a loss takes the lost part off its volume (draft section
/// 5.3.3.5.1, `(1 - loss)^N`), for the fifty or so round trips between probes.
#[test]
fn random_losses_slow_it_little() {
    for (algorithm, least) in [(Algorithm::Bbr, 0.9), (Algorithm::Bbr3, 0.8)] {
        let lose =
            (0..60_000_u64).filter(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 100 == 0).collect();
        let net = run(algorithm, Wire { lose, limit: 500, ..Wire::default() }, 20);
        let lost = net.dropped as f64 / net.ends[0].counters().segments_sent as f64;
        println!("{}: {:.3} of the line with {lost:.4} lost", algorithm.name(), share(&net, 20));
        assert!(share(&net, 20) >= least, "{}: {}", algorithm.name(), share(&net, 20));
    }
}

/// Returns the times at which almost nothing was in flight: gaps of sending longer than half a
/// round trip.
fn silences(net: &Net) -> Vec<Nanos> {
    let times: Vec<_> = net.sent.iter().filter(|(_, s)| s.len > 0).map(|(at, _)| *at).collect();
    let mut found: Vec<Instant> = Vec::new();
    for pair in times.windows(2) {
        let late = pair[1].saturating_since(pair[0]) > Nanos::from_millis(12);
        let new = found.last().is_none_or(|at| pair[0].saturating_since(*at) > Nanos::from_secs(1));
        if late && new && pair[0] > Instant::from_secs(1) {
            found.push(pair[0]);
        }
    }
    found.windows(2).map(|p| p[1].saturating_since(p[0])).collect()
}

#[test]
fn the_round_trip_is_looked_for_every_ten_and_every_five_seconds() {
    for (algorithm, seconds) in [(Algorithm::Bbr, 10), (Algorithm::Bbr3, 5)] {
        let net = run(algorithm, Wire { limit: 500, ..Wire::default() }, 45);
        let found = silences(&net);
        println!("{}: {found:?}", algorithm.name());
        assert!(found.len() as u64 >= 45 / seconds - 2, "{found:?}");
        for gap in found {
            let (least, most) = (Nanos::from_secs(seconds), Nanos::from_millis(seconds * 1_000 + 700));
            assert!((least..=most).contains(&gap), "{}: {gap:?}", algorithm.name());
        }
    }
}

/// An application that writes 5 Mbit/s does not fill the line, and does not make the estimate fall.
#[test]
fn an_application_that_sends_little_keeps_what_was_known() {
    for algorithm in BOTH {
        let c = config(algorithm);
        let mut net = Net::new(&c, &c, Wire { limit: 500, ..Wire::default() });
        net.run(Instant::from_secs(3));
        let before = net.ends[0].flow().pacing_rate;
        net.to_write = 0;
        net.run(Instant::from_secs(4));
        for i in 0..150 {
            net.to_write = 12_500;
            net.run(Instant::from_millis(4_000 + i * 20));
            net.poke();
        }
        let after = net.ends[0].flow().pacing_rate;
        println!("{}: {before} {after}", algorithm.name());
        assert!(after * 10 > before * 7, "{}: {before} {after}", algorithm.name());
    }
}
