//! The application's calls: the ends of units, the units with PSH, and the time at which a writer
//! that found no room continues.

use std::collections::VecDeque;

use txweir_transport::{Algorithm, Config, Connection, Flags, Segment};

use crate::common::established_pair;

/// Payload of a full segment.
const MSS: u64 = 1448;
/// Bytes of a call.
const CALL: u64 = 256 << 10;
/// Memory of a unit in addition to its payload.
const UNIT: u64 = 832;

/// Returns an acknowledgement of all data up to `ack`, with a window of `window` bytes.
fn answer(ack: u64, window: u64) -> Segment {
    let window = (window >> 7) as u16;
    Segment { seq: 1, ack, window, flags: Flags::ACK, stamps: Some((1, 0)), ..Segment::default() }
}

/// Linux writes 22 segments into a unit, because the receiver offers 65160 bytes, and sets PSH once
/// more than half of that was handed over since the last PSH. The numbers come from the recording
/// `cubic-growth-long`.
#[test]
fn units_get_psh_as_recorded() {
    let config = Config {
        algorithm: Algorithm::Reno,
        gso_segs: 1,
        send_buffer: 16 << 20,
        small_queues: false,
        ..Config::default()
    };
    let ([mut end, _], now) = established_pair(&config);
    let (mut left, mut pushed, mut flight) = (1_400 * MSS, Vec::new(), VecDeque::new());
    let mut drain = |end: &mut Connection, flight: &mut VecDeque<u64>| {
        while let Some(seg) = end.transmit(now) {
            if seg.flags.has(Flags::PSH) {
                pushed.push((seg.end() - 1) / MSS);
            }
            flight.push_back(seg.end());
        }
    };
    while left > 0 {
        let mut call = left.min(CALL);
        while call > 0 {
            let n = end.write_unit(now, call);
            assert!(n > 0, "16 MiB have room");
            (call, left) = (call - n, left - n);
            drain(&mut end, &mut flight);
        }
    }
    while let Some(ack) = flight.pop_front() {
        end.receive(now, &answer(ack, 60_000));
        drain(&mut end, &mut flight);
    }
    let recorded = [
        54, 98, 142, 208, 252, 296, 340, 406, 450, 494, 538, 582, 626, 670, 714, 758, 802, 846, 890, 934,
        978, 1022, 1066, 1110, 1154, 1198, 1242, 1308, 1352, 1396, 1400,
    ];
    assert_eq!(pushed.iter().copied().filter(|n| *n > 32).collect::<Vec<_>>(), recorded);
}

/// A blocked writer does not follow each acknowledgement: it continues when a third of the buffer
/// is free, and fills it. The buffer has memory for two windows: the first for 46080 bytes, as
/// recorded.
#[test]
fn a_blocked_writer_waits_for_a_third_of_the_buffer() {
    let (mut ends, now) =
        established_pair(&Config { algorithm: Algorithm::Reno, small_queues: false, ..Config::default() });
    let end = &mut ends[0];
    let mut segments = VecDeque::new();
    let send = |end: &mut Connection, segments: &mut VecDeque<u64>| {
        while let Some(seg) = end.transmit(now) {
            segments.extend((0..seg.segments()).filter_map(|i| seg.part(i)).map(|s| s.end()));
        }
    };
    let first = end.write(now, u64::MAX);
    assert!((46_080 - 4 * UNIT..46_080 + 22 * MSS).contains(&first), "{first}");
    send(end, &mut segments);
    for acked in 1.. {
        let ack = segments.pop_front().expect("data is in flight");
        end.receive(now, &answer(ack, 1 << 20));
        send(end, &mut segments);
        let before = end.unacknowledged();
        let n = end.write(now, u64::MAX);
        if n == 0 {
            continue;
        }
        let buffer = 2 * 2_304 * u64::from(end.flow().cwnd);
        assert!(before <= buffer * 2 / 3, "{before} of {buffer}");
        assert!(acked > 2, "{acked} acknowledgements");
        assert!(n > 16 * MSS, "{n} bytes");
        break;
    }
}

/// Returns the number of acknowledgements, each of two segments and all of one instant, until a
/// blocked writer continues, if units have this number of segments.
fn acknowledgements_until_it_continues(gso_segs: u32) -> usize {
    let config = Config {
        algorithm: Algorithm::Reno,
        small_queues: false,
        defers: false,
        gso_segs,
        ..Config::default()
    };
    let (mut ends, now) = established_pair(&config);
    let end = &mut ends[0];
    let mut segments = VecDeque::new();
    let send = |end: &mut Connection, segments: &mut VecDeque<u64>| {
        while let Some(seg) = end.transmit(now) {
            segments.extend((0..seg.segments()).filter_map(|i| seg.part(i)).map(|s| s.end()));
        }
    };
    while end.write(now, u64::MAX) > 0 {
        send(end, &mut segments);
    }
    send(end, &mut segments);
    for acked in 1.. {
        let ack = segments.drain(..2).next_back().expect("data is in flight");
        end.receive(now, &answer(ack, 1 << 20));
        send(end, &mut segments);
        if end.write(now, u64::MAX) > 0 {
            return acked;
        }
    }
    unreachable!()
}

/// Each acknowledgement lets four segments leave, and they use up the window. As two units they
/// leave one behind the other. Behind the first one the window is not used up: the buffer grows.
/// As one unit they let it stay until there is nothing more to send, however many units leave in an
/// instant.
#[test]
fn the_buffer_grows_behind_a_unit_that_does_not_use_up_the_window() {
    assert_eq!((acknowledgements_until_it_continues(2), acknowledgements_until_it_continues(4)), (5, 9));
}

/// Linux leaves 321 bytes of 64 KiB to headers (`sk_gso_max_size`): 51 segments of 1285 bytes would
/// take 65535.
#[test]
fn a_unit_leaves_room_for_its_headers() {
    let config = Config {
        algorithm: Algorithm::Reno,
        mss: 1_297,
        initial_window: 128,
        small_queues: false,
        size_by_rate: false,
        defers: false,
        receive_buffer: 1 << 20,
        ..Config::default()
    };
    let ([mut end, _], now) = established_pair(&config);
    end.write(now, 200 * 1_285);
    assert_eq!(end.transmit(now).map(|s| s.len), Some(50 * 1_285));
}
