//! Frames that a qdisc copies or corrupts.

use txweir_core::Instant;
use txweir_device::VnetHdr;

use super::{Direction, Out, direction, feed, root, run_out, udp};
use crate::list::List;

type Frame = (VnetHdr, Vec<u8>);

/// Counts the bits in which two frames of one length differ.
fn wrong_bits(a: &[u8], b: &[u8]) -> u32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Returns `n` frames of different lengths and bytes.
fn frames(n: u8) -> Vec<Frame> {
    let frame = |i: u8| {
        let (hdr, mut bytes) = udp(0, i.into(), 100 + 70 * usize::from(i));
        bytes[50..].fill(i);
        (hdr, bytes)
    };
    (1..=n).map(frame).collect()
}

/// Sends frames through netem with these words, at once, until the path is empty. Returns the
/// direction, and the frames that left, in order of their lengths.
fn through(netem: &[&str], budget: usize, frames: &[Frame]) -> (Direction<Out>, Vec<Frame>) {
    let mut way = direction("rate=1gbit,completion=immediate", budget);
    root(&mut way, "netem", netem);
    let mut port = List { incoming: frames.to_vec().into(), ..List::default() };
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    port.sent.sort_by_key(|(_, bytes)| bytes.len());
    (way, port.sent)
}

#[test]
fn a_copy_is_a_frame_of_its_own() {
    let sent = frames(9);
    let (way, left) = through(&["delay", "1ms", "duplicate", "100%"], 1 << 20, &sent);
    // Each frame leaves twice, byte for byte.
    let twice: Vec<_> = sent.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
    assert_eq!(left, twice);
    let (path, stats) = (way.path().stats(), way.stats());
    assert_eq!((path.copies, path.uncopied, path.queued), (9, 0, 9));
    assert_eq!((stats.received, stats.departed, stats.delivered, stats.dropped), (9, 18, 18, 0));
}

#[test]
fn a_corrupted_frame_has_one_wrong_bit() {
    let sent = frames(9);
    let (way, left) = through(&["delay", "1ms", "corrupt", "100%"], 1 << 20, &sent);
    assert_eq!(left.len(), 9);
    for ((_, sent), (_, left)) in sent.iter().zip(&left) {
        assert_eq!(wrong_bits(sent, left), 1);
    }
    let path = way.path().stats();
    assert_eq!((path.copies, path.uncopied, path.queued), (0, 0, 9));
}

/// A wrong bit in one of two equal frames is not in the other: frames of any size share no buffer.
#[test]
fn what_happens_to_a_copy_does_not_happen_to_its_original() {
    let sent = frames(20);
    let (_, left) = through(&["delay", "1ms", "duplicate", "100%", "corrupt", "50%"], 1 << 20, &sent);
    let mut one_of_two = 0;
    for (_, bytes) in &sent {
        let twins = left.iter().filter(|(_, b)| b.len() == bytes.len());
        let twins: Vec<u32> = twins.map(|(_, b)| wrong_bits(bytes, b)).collect();
        assert!(twins.len() == 2 && twins.iter().all(|bits| *bits <= 1), "{twins:?}");
        one_of_two += u32::from(twins[0] != twins[1]);
    }
    assert!((3..=17).contains(&one_of_two), "{one_of_two} of 20");
}

/// Without room for a second frame there is no copy, and the missing copy is counted.
#[test]
fn a_copy_that_has_no_room_is_counted() {
    // The smallest possible budget: the receive buffer, and as much again.
    let sent = [udp(0, 1, 40_000)];
    let (way, left) = through(&["delay", "1ms", "duplicate", "100%"], 0, &sent);
    assert_eq!(left, sent);
    let path = way.path().stats();
    assert_eq!((path.copies, path.uncopied, way.stats().delivered), (0, 1, 1));
}
