//! Drops on the sender's own host: a packet that a queue refused counts as not sent.

use txweir_core::{Instant, Nanos};
use txweir_transport::{
    Algorithm, CaState, Config, Connection, Flags, Segment, below_socket, below_socket_cut,
};

use crate::common::established_pair;

/// Payload of a full segment.
const MSS: u64 = 1448;

/// Returns an established sender with 200 segments that wait to be sent, and the time.
fn established(config: &Config) -> (Connection, Instant) {
    let ([mut end, _], now) = established_pair(config);
    end.write(now, 200 * MSS);
    (end, now)
}

/// Returns such a sender of single segments, without small queues.
fn sender() -> (Connection, Instant) {
    established(&Config { algorithm: Algorithm::Reno, gso_segs: 1, small_queues: false, ..Config::default() })
}

fn answer(ack: u64) -> Segment {
    Segment { seq: 1, ack, window: 8_000, flags: Flags::ACK, stamps: Some((1, 0)), ..Segment::default() }
}

#[test]
fn a_segment_that_was_not_taken_is_tried_again_at_the_next_event() {
    let (mut end, now) = sender();
    for _ in 0..3 {
        assert!(end.transmit(now).is_some());
    }
    let refused = end.transmit(now).expect("the first window has ten segments");
    end.below().dropped();
    assert_eq!(end.transmit(now), None, "not at once");
    let flow = end.flow();
    assert_eq!((flow.out, flow.next, flow.state), (3, refused.seq, CaState::Cwr));
    assert_eq!(flow.ssthresh, 5, "half of ten, once");
    let now = now + Nanos::from_millis(10);
    end.receive(now, &answer(1 + MSS));
    let again = end.transmit(now).expect("an acknowledgement has come");
    assert_eq!((again.seq, again.len, again.again), (refused.seq, refused.len, false));
    end.below().dropped();
    assert_eq!((end.flow().ssthresh, end.counters().retransmitted), (5, 0));
}

#[test]
fn one_that_was_taken_at_the_cost_of_another_counts_as_sent() {
    let (mut end, now) = sender();
    let first = end.transmit(now).expect("data");
    end.below().congested();
    let second = end.transmit(now).expect("the window is not full");
    assert_eq!(second.seq, first.end());
    assert_eq!((end.flow().out, end.flow().state, end.flow().ssthresh), (2, CaState::Cwr, 5));
}

/// The half second, rounded up by the timer wheel, is that of the retries of a timeout: the backoff
/// begins with a retransmission that has left.
#[test]
fn a_timeout_whose_retransmission_was_dropped_is_tried_again_after_half_a_second() {
    let (mut end, mut now) = sender();
    while end.transmit(now).is_some() {}
    let mut fires = Vec::new();
    while fires.len() < 4 {
        now = end.deadline().expect("a timer runs");
        end.on_time(now);
        let timeouts = end.counters().timeouts;
        if timeouts > fires.len() as u64 {
            fires.push(now);
            assert!(end.transmit(now).is_some_and(|s| s.again));
            end.below().dropped();
        }
        while end.transmit(now).is_some() {}
    }
    for pair in fires.windows(2) {
        let ms = pair[1].saturating_since(pair[0]).0 / 1_000_000;
        assert!((500..=508).contains(&ms), "{ms} ms");
    }
}

/// A sender with small queues, paced by its queue, has two units below its socket, whole or cut
/// into segments. Returns the number of segments that leave the device before the sender hands out
/// a third unit.
fn released_before_the_third(cut: bool) -> u32 {
    let (mut end, now) =
        established(&Config { algorithm: Algorithm::Reno, initial_window: 64, ..Config::default() });
    let mut units = 0;
    while let Some(unit) = end.transmit(now) {
        units += 1;
        if cut {
            end.below().cut(unit.segments());
        }
    }
    assert_eq!(units, 2, "one below may always have a second");
    let segment = if cut { below_socket_cut(MSS as u32) } else { MSS as u32 };
    (1..100).find(|_| end.below().released(segment) && end.transmit(now).is_some()).expect("it goes on")
}

#[test]
fn segments_of_a_unit_that_was_cut_count_more_than_their_share_of_it() {
    let (whole, cut) = (released_before_the_third(false), released_before_the_third(true));
    assert!(whole == 1 && cut > 5, "{whole} {cut}");
}

/// A timeout while the first transmission lies in a queue of the host: the segment is sent again
/// when that transmission has left.
#[test]
fn nothing_goes_again_while_it_lies_in_a_queue_of_the_host() {
    let config = Config { algorithm: Algorithm::Reno, gso_segs: 1, ..Config::default() };
    let (mut end, mut now) = established(&config);
    let first = end.transmit(now).expect("data");
    while end.transmit(now).is_some() {}
    while end.counters().timeouts == 0 {
        now = end.deadline().expect("a timer runs");
        end.on_time(now);
        assert_eq!(end.transmit(now), None, "its queue has sent nothing");
    }
    assert_eq!(end.counters().retransmitted, 0);
    now += Nanos::from_millis(3);
    assert!(end.below().released(below_socket(first.len)), "it waits for that");
    let again = end.transmit(now).expect("it has left");
    assert_eq!((again.seq, again.again), (first.seq, true));
}

/// If nothing is in flight, no acknowledgement can wake a sender whose host took nothing: after a
/// timeout it sends one segment, and if that is refused as well, another half a second later.
#[test]
fn a_sender_whose_first_unit_was_refused_tries_again_with_one_segment() {
    let config = Config { algorithm: Algorithm::Reno, small_queues: false, ..Config::default() };
    let (mut end, now) = established(&config);
    assert!(end.transmit(now).is_some_and(|unit| unit.len > MSS as u32));
    end.below().dropped();
    assert_eq!((end.transmit(now), end.flow().out), (None, 0));
    let mut fires = vec![now];
    for _ in 0..3 {
        let now = end.deadline().expect("a timer runs");
        end.on_time(now);
        let one = end.transmit(now).expect("one segment");
        assert_eq!((one.seq, one.len, one.again), (1, MSS as u32, false));
        end.below().dropped();
        assert_eq!(end.transmit(now), None);
        fires.push(now);
    }
    let ms: Vec<u64> = fires.windows(2).map(|w| w[1].saturating_since(w[0]).0 / 1_000_000).collect();
    assert!((210..=224).contains(&ms[0]) && ms[1..].iter().all(|ms| (500..=508).contains(ms)), "{ms:?}");
}
