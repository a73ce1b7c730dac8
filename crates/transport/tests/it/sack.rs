//! Selective acknowledgements at the sender.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Algorithm, Config, Connection, Flags, Sacks, Segment};

/// Payload of a full segment.
const MSS: u64 = 1448;

/// Returns an established sender that has sent twenty segments, and the time.
fn sender() -> (Connection, Instant) {
    let config = Config {
        algorithm: Algorithm::Reno,
        initial_window: 20,
        gso_segs: 1,
        small_queues: false,
        ..Config::default()
    };
    let mut ends = [Connection::connect(&config), Connection::listen(&config)];
    let mut now = Instant::ZERO;
    for from in [0, 1, 0] {
        now += Nanos::from_millis(10);
        while let Some(seg) = ends[from].transmit(now) {
            ends[1 - from].receive(now, &seg);
        }
    }
    let [mut end, _] = ends;
    end.write(now, 200 * MSS);
    while end.transmit(now).is_some() {}
    assert_eq!(end.flow().out, 20);
    (end, now)
}

/// Returns an acknowledgement of nothing by number and of these segments, by their numbers from 0,
/// in this order.
fn blocks(segments: &[u64]) -> Segment {
    let mut sacks = Sacks::default();
    for n in segments {
        sacks.push(1 + n * MSS, 1 + (n + 1) * MSS, 3);
    }
    Segment {
        seq: 1,
        ack: 1,
        window: 8_000,
        flags: Flags::ACK,
        sacks,
        stamps: Some((1, 0)),
        ..Segment::default()
    }
}

/// The newest block comes first (RFC 2018 section 4). If a lower block is new as well, its segment
/// counts as not overtaken: no reordering is seen, and three segments beyond a gap show its loss at
/// once.
#[test]
fn two_new_blocks_in_one_acknowledgement_are_no_reordering() {
    let (mut end, mut now) = sender();
    now += Nanos::from_millis(20);
    end.receive(now, &blocks(&[10, 5]));
    assert_eq!((end.flow().sacked, end.flow().lost), (2, 0));
    while end.transmit(now).is_some() {}
    now += Nanos::from_micros(100);
    end.receive(now, &blocks(&[12, 10, 5]));
    assert_eq!(end.flow().lost, 10, "all segments sent before the last one that arrived");
    assert!(end.transmit(now).is_some_and(|s| s.again && s.seq == 1));
}

/// An acknowledgement that was overtaken tells its blocks. Its window is old: the end of the window
/// that the receiver offers now is nearer.
#[test]
fn an_overtaken_acknowledgement_opens_no_window() {
    let (mut end, mut now) = sender();
    now += Nanos::from_millis(20);
    let window = ((15 * MSS) >> 7) as u16;
    end.receive(now, &Segment { ack: 1 + 5 * MSS, window, ..blocks(&[]) });
    assert_eq!((end.flow().out, end.has_data()), (15, false), "the window is full");
    end.receive(now, &blocks(&[10]));
    assert_eq!((end.flow().sacked, end.has_data()), (1, false));
}
