//! Shut windows: probes that nothing answers, and data that has no room.

use txweir_core::Instant;
use txweir_transport::{Config, Connection, Flags, Segment, State};

use crate::common::established_pair;

/// Returns a segment of the peer with this window, which acknowledges nothing.
fn peer(window: u16) -> Segment {
    Segment { seq: 1, ack: 1, window, flags: Flags::ACK, stamps: Some((1_000, 0)), ..Segment::default() }
}

/// Returns an established sender with data for a shut window, and the time.
fn shut() -> (Connection, Instant) {
    let ([mut end, _], now) = established_pair(&Config::default());
    end.receive(now, &peer(0));
    end.write(now, 1_000);
    assert_eq!(end.transmit(now), None);
    (end, now)
}

/// Runs the timer, and returns the number of probes that leave.
fn probe(end: &mut Connection, at: Instant) -> u32 {
    end.on_time(at);
    let mut probes = 0;
    while let Some(seg) = end.transmit(at) {
        assert_eq!((seg.seq, seg.len), (0, 0), "a number that is acknowledged already");
        probes += 1;
    }
    probes
}

/// `tcp_retries2` of Linux bounds the probes that nothing answers.
#[test]
fn a_peer_that_answers_no_probe_is_given_up() {
    let (mut end, _) = shut();
    let mut probes = 0;
    while let Some(at) = end.deadline() {
        probes += probe(&mut end, at);
        assert!(probes <= 15, "{probes} probes");
    }
    assert_eq!((probes, end.state()), (15, State::Failed));
}

/// As long as the peer answers, its window may stay shut (RFC 1122 section 4.2.2.17).
#[test]
fn a_peer_that_answers_is_probed_for_ever() {
    let (mut end, _) = shut();
    for _ in 0..40 {
        let at = end.deadline().expect("a timer runs");
        assert_eq!(probe(&mut end, at), 1);
        end.receive(at, &peer(0));
    }
    assert_eq!(end.state(), State::Established);
}

/// Returns the acknowledgement that leaves next.
fn answer(end: &mut Connection, now: &mut Instant) -> Segment {
    loop {
        if let Some(seg) = end.transmit(*now) {
            return seg;
        }
        *now = end.deadline().expect("an acknowledgement is due");
        end.on_time(*now);
    }
}

/// The reader takes nothing, and the sender ignores that the window is shut. A FIN needs no room.
#[test]
fn data_that_has_no_room_is_not_taken() {
    let config = Config { receive_buffer: 16_384, receive_buffer_max: 16_384, ..Config::default() };
    let ([_, mut end], mut now) = established_pair(&config);
    let data = |seq, len| Segment { seq, len, ..peer(8_000) };
    let (mut next, mut window) = (1, 1_448);
    while window > 0 {
        let len = window.min(1_448);
        end.receive(now, &data(next, len));
        next += u64::from(len);
        let ack = answer(&mut end, &mut now);
        assert_eq!(ack.ack, next);
        window = u32::from(ack.window);
    }
    assert_eq!(end.readable(), next - 1);
    end.receive(now, &data(next, 1_448));
    let ack = answer(&mut end, &mut now);
    assert_eq!((end.readable(), ack.ack, ack.window), (next - 1, next, 0));
    end.receive(now, &Segment { flags: Flags::ACK.with(Flags::FIN), ..data(next, 0) });
    assert_eq!(answer(&mut end, &mut now).ack, next + 1);
}
