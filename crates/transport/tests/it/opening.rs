//! The handshake: SYNs that nothing answers, answers that come late, and data that is too old.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Algorithm, Config, Connection, Flags, Segment, State, below_socket};

use crate::common::{Net, Wire, established_pair};

/// Times of the SYNs of a flow that Linux 6.12 could not open, ms after the first one
/// (bbr-codel-1mbit-5ms-64f-ecn, flow 20). A timer may fire 64 ms late, more for longer ones.
const RECORDED_MS: [u64; 10] = [0, 1_047, 2_071, 3_095, 4_119, 5_143, 7_191, 11_223, 19_735, 36_119];

/// Returns an end that opens a connection, and its SYNs before `until` with their times.
fn syns(until: Instant) -> (Connection, Vec<(Instant, Segment)>) {
    let mut end = Connection::connect(Config::default());
    let (mut now, mut sent) = (Instant::ZERO, Vec::new());
    loop {
        sent.extend(std::iter::from_fn(|| end.transmit(now)).map(|s| (now, s)));
        match end.deadline().filter(|at| *at < until) {
            Some(at) => now = at,
            None => return (end, sent),
        }
        end.on_time(now);
    }
}

#[test]
fn syns_have_the_pace_of_linux() {
    let (end, sent) = syns(Instant::from_secs(200));
    for (i, ms) in RECORDED_MS.into_iter().enumerate() {
        let here = sent[i].0.0 / 1_000_000;
        // The phase of the timer wheel differs.
        assert!(here.abs_diff(ms) <= 64 + ms / 32, "SYN {i}: there {ms} ms, here {here} ms");
    }
    assert_eq!((sent.len(), end.state()), (11, State::Failed), "four more than tcp_syn_retries");
    assert_eq!(end.counters().timeouts, 10);
}

#[test]
fn an_answer_to_the_first_syn_keeps_the_first_window() {
    for (answered, window) in [(0, 10), (2, 1)] {
        let (mut end, sent) = syns(Instant::from_millis(3_000));
        assert_eq!(sent.len(), 3);
        let mut peer = Connection::listen(Config::default());
        peer.receive(Instant::from_millis(2_990), &sent[answered].1);
        let answer = peer.transmit(Instant::from_millis(2_990)).unwrap();
        end.receive(Instant::from_millis(3_000), &answer);
        assert_eq!((end.state(), end.flow().cwnd), (State::Established, window), "answer to {answered}");
    }
}

/// An end that has answered a SYN has sent nothing else that could be acknowledged (RFC 9293
/// section 3.10.7.4).
#[test]
fn a_number_that_was_not_sent_confirms_nothing() {
    let now = Instant::ZERO;
    let syn = Connection::connect(Config::default()).transmit(now).unwrap();
    let mut end = Connection::listen(Config::default());
    end.receive(now, &syn);
    assert!(end.transmit(now).is_some());
    for (ack, state) in [(2, State::SynReceived), (1, State::Established)] {
        end.receive(now, &Segment { seq: 1, ack, flags: Flags::ACK, ..Segment::default() });
        assert_eq!(end.state(), state, "{ack}");
    }
}

/// RFC 7323 section 5.3, R1: data that left before data which has been acknowledged is refused, and
/// reported as a duplicate.
#[test]
fn data_older_than_acknowledged_data_is_refused() {
    for (older_ms, read) in [(1, 2_000), (2, 1_000)] {
        let ([mut sender, mut receiver], now) = established_pair(&Config::default());
        sender.write(now, 1_000);
        let first = sender.transmit(now).unwrap();
        sender.below().released(below_socket(first.len));
        receiver.receive(now, &first);
        while receiver.transmit(now).is_some() {}
        let (stamp, echo) = first.stamps.unwrap();
        let stale = Segment { seq: first.end(), stamps: Some((stamp - older_ms, echo)), ..first };
        receiver.receive(now, &stale);
        assert_eq!(receiver.readable(), read, "{older_ms} ms older");
        let answer = receiver.transmit(now).unwrap_or_else(|| {
            let at = receiver.deadline().unwrap();
            receiver.on_time(at);
            receiver.transmit(at).unwrap()
        });
        assert_eq!(answer.ack, 1 + read);
    }
}

/// The duplicate of a loss probe does not answer the retransmission of a segment that was lost.
#[test]
fn the_duplicate_of_a_probe_undoes_nothing() {
    let config = Config { algorithm: Algorithm::Reno, gso_segs: 1, ..Config::default() };
    let late = (1..4).map(|n| (n, Nanos::from_millis(60))).collect();
    let mut net = Net::new(&config, &config, Wire { lose: [0].into(), late, ..Wire::default() });
    net.to_write = 4 * 1_448;
    net.run(Instant::from_secs(5));
    let c = net.ends[0].counters();
    assert_eq!((net.read, c.probes, c.recoveries), (4 * 1_448, 1, 1), "{c:?}");
    assert!(c.duplicates_reported > 0, "{c:?}");
    assert_eq!(c.undone, 0, "{c:?}");
}

#[test]
fn ends_with_other_seeds_draw_other_numbers() {
    let shown = |seed| {
        let mut end = Connection::connect(Config { algorithm: Algorithm::Bbr, ..Config::default() });
        end.reseed(seed);
        format!("{:?}", end.congestion())
    };
    assert_eq!(shown(1), shown(1));
    assert_ne!(shown(1), shown(2));
}
