//! Acknowledgements at the sender: their evidence of a loss probe, and of the path.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Algorithm, Config, Connection, Flags, Segment};

use crate::common::established_pair;

/// Payload of a full segment.
const MSS: u64 = 1448;

/// Returns an established sender of single segments, without small queues, and the time.
fn sender() -> (Connection, Instant) {
    let config = Config { algorithm: Algorithm::Reno, gso_segs: 1, small_queues: false, ..Config::default() };
    let ([end, _], now) = established_pair(&config);
    (end, now)
}

fn answer(ack: u64) -> Segment {
    Segment { seq: 1, ack, window: 8_000, flags: Flags::ACK, stamps: Some((1_000, 0)), ..Segment::default() }
}

/// A second acknowledgement of a loss probe shows that both transmissions have arrived, so that
/// nothing was lost. A segment with data is no second acknowledgement (`FLAG_NOT_DUP` of Linux).
/// Without one the probe has repaired a loss, and the window shrinks once more is acknowledged (RFC
/// 8985 section 7.4.2).
#[test]
fn data_is_no_answer_to_a_probe() {
    for (len, reduced) in [(0, false), (100, true)] {
        let (mut end, mut now) = sender();
        end.write(now, 2 * MSS);
        while end.transmit(now).is_some() {}
        now = end.deadline().expect("a timer runs");
        end.on_time(now);
        assert!(end.transmit(now).is_some_and(|s| s.again && s.seq == 1 + MSS));
        now += Nanos::from_millis(10);
        end.receive(now, &answer(1 + 2 * MSS));
        end.receive(now, &Segment { len, ..answer(1 + 2 * MSS) });
        end.write(now, MSS);
        while end.transmit(now).is_some() {}
        now += Nanos::from_millis(10);
        end.receive(now, &Segment { seq: 1 + u64::from(len), ..answer(1 + 3 * MSS) });
        assert_eq!(end.flow().ssthresh < u32::MAX, reduced, "{len} bytes of data");
    }
}

/// The answer to a lone short segment may have waited for a timer of the receiver. It does not
/// count as the smallest round trip, not even after the 300 s for which a smallest one is kept.
#[test]
fn delayed_answers_do_not_lengthen_the_smallest_round_trip() {
    let (mut end, mut now) = sender();
    for i in 1..=400 {
        end.write(now, 100);
        while end.transmit(now).is_some() {}
        now += Nanos::from_millis(50);
        end.receive(now, &answer(1 + 100 * i));
        now += Nanos::from_millis(950);
    }
    assert_eq!(end.flow().min_rtt_us, 10_000, "that of the handshake");
}
