//! Frames that the guest has to make room for: super-frames, whole or cut, and few buffers.

use super::*;

/// A super-frame leaves the guest whole, comes in whole over several buffers if it may, and in
/// complete segments otherwise.
#[test]
fn super_frames_pass_whole_or_in_segments() {
    let (hdr, frame) = super_frame(40_000);
    let (mut device, mut guest) = connected("whole", Setup::default());
    assert!(guest.send(0, hdr.encode(), &frame));
    assert_eq!(received(&mut device), Some((hdr, frame.clone())));
    push(&mut device, hdr, &frame, 0);
    device.commit().unwrap();
    let (header, got, buffers) = guest.receive(0).unwrap();
    assert_eq!((got == frame, buffers), (true, 20), "2048 bytes a buffer");
    assert_eq!((header[..10] == hdr.encode()[..10], header[10]), (true, 20));
    for features in [VERSION_1 | PROTOCOL, VERSION_1 | PROTOCOL | MERGEABLE] {
        let (mut device, mut guest) = connected("cut", Setup { features, ..Setup::default() });
        push(&mut device, hdr, &frame, 0);
        // A frame whose checksum is left undone comes complete.
        let (undone, small) = super_frame(100);
        push(&mut device, VnetHdr { gso: Gso::None, gso_size: 0, ..undone }, &small, 0);
        device.commit().unwrap();
        let mut payload = 0;
        for at in 0..29 {
            let (header, got, buffers) = guest.receive(0).unwrap();
            assert_eq!((header[..10] == NONE[..10], buffers), (true, 1));
            let sum =
                Sum::default().bytes(&got[26..34]).word(6).word(got.len() as u16 - 34).bytes(&got[34..]);
            assert_eq!(sum.partial(), 0xffff, "segment {at}");
            payload += got.len() - 54;
        }
        assert_eq!((payload, guest.receive(0)), (40_100, None));
        assert_eq!(device.take_fates(), Fates { delivered: 2, lost: 0 });
    }
}

/// Frames for which the guest has no buffers wait; those that no buffer of it can ever hold are
/// lost and counted.
#[test]
fn frames_wait_for_buffers_of_the_guest() {
    let features = VERSION_1 | PROTOCOL | OFFLOADS;
    let (mut device, mut guest) = connected("wait", Setup { features, size: 16, ..Setup::default() });
    for number in 0..40 {
        push(&mut device, VnetHdr::default(), &numbered(number, 100), 0);
    }
    device.commit().unwrap();
    assert!(device.is_full() && !device.is_busy());
    let mut got = 0;
    for _ in 0..40 {
        while let Some((_, frame, _)) = guest.receive(0) {
            assert_eq!(frame, numbered(got, 100));
            got += 1;
        }
        device.attend().unwrap();
        device.commit().unwrap();
    }
    assert_eq!((got, device.is_full()), (40, false));
    let (hdr, frame) = super_frame(40_000);
    push(&mut device, hdr, &frame, 0);
    device.commit().unwrap();
    assert_eq!((guest.receive(0), device.counters().tx_lost_refused), (None, 1));
    assert_eq!(device.take_fates(), Fates { delivered: 40, lost: 1 });
}

/// A frame that finds some buffers, but too few, waits for the next one: the device asks to be told
/// of it, and a guest that tells of no other lets the frame in.
#[test]
fn the_buffer_that_a_frame_waits_for_is_told_of() {
    for features in [ALL, ALL & !EVENT_IDX] {
        let (mut device, mut guest) = connected("asked", Setup { features, ..Setup::default() });
        guest.kicks_if_asked = true;
        let (hdr, frame) = super_frame(40_000);
        for _ in 0..4 {
            push(&mut device, hdr, &frame, 0);
        }
        // Three frames of 20 buffers each, and 4 buffers are left.
        device.commit().unwrap();
        assert!(device.is_full());
        if features & EVENT_IDX != 0 {
            let place = GuestAddress(guest.rings[0].places[2] + 4 + 8 * 64);
            let event: u16 = guest.memory.read_obj(place).unwrap();
            assert_eq!((u16::from_le(event), guest.rings[0].avail), (64, 64));
        }
        let is_ready = |device: &LinkIo| {
            let mut fds = [PollFd::new(device, PollFlags::IN)];
            wait(&mut fds, Some(0), 0).unwrap() == 1
        };
        device.attend().unwrap();
        assert!(!is_ready(&device), "the kicks of the start are read");
        assert!(guest.receive(0).is_some());
        assert!(is_ready(&device), "{features:#x}");
        device.attend().unwrap();
        device.commit().unwrap();
        assert!(!device.is_full());
        for _ in 0..3 {
            let (_, got, buffers) = guest.receive(0).unwrap();
            assert_eq!((got == frame, buffers), (true, 20));
        }
        assert_eq!((guest.receive(0), device.take_fates()), (None, Fates { delivered: 4, lost: 0 }));
    }
}

/// Receives all frames by the first pair, and returns the TCP sequence number of each.
fn sequence(guest: &mut TestGuest) -> Vec<u32> {
    let frames = std::iter::from_fn(|| guest.receive(0));
    frames.map(|(_, frame, _)| u32::from_be_bytes(frame[38..42].try_into().unwrap())).collect()
}

/// A guest that takes no super-frames gets the segments of one as it has buffers, each once and in
/// order, however few buffers it has; and then the frame behind it.
#[test]
fn segments_come_as_the_guest_has_buffers() {
    let (hdr, frame) = super_frame(40_000);
    for (features, size) in [(VERSION_1 | PROTOCOL, 2), (ALL & !OFFLOADS, 8), (ALL & !OFFLOADS, 16)] {
        let (mut device, mut guest) = connected("turns", Setup { features, size, ..Setup::default() });
        push(&mut device, hdr, &frame, 0);
        push(&mut device, VnetHdr::default(), &numbered(1, 60), 0);
        device.commit().unwrap();
        assert!(device.is_full());
        assert_eq!(device.take_fates(), Fates::default(), "the guest has a part");
        let mut got = Vec::new();
        for _ in 0..20 {
            got.extend(std::iter::from_fn(|| guest.receive(0)).map(|(_, frame, _)| frame));
            device.attend().unwrap();
            device.commit().unwrap();
        }
        assert!(!device.is_full());
        assert_eq!(got.len(), 28 + 1, "{features:#x} {size}");
        assert_eq!(got.pop(), Some(numbered(1, 60)));
        let mut payload = 0_usize;
        for segment in &got {
            assert_eq!(segment[38..42], (1 + payload as u32).to_be_bytes());
            payload += segment.len() - 54;
        }
        assert_eq!((payload, device.take_fates()), (40_000, Fates { delivered: 2, lost: 0 }));
        let counters = device.counters();
        assert_eq!((counters.tx_frames, counters.tx_gso_frames, counters.tx_lost_refused), (2, 1, 0));
    }
}

/// A frame of which the guest has the first segments is lost once, and the others never come: when
/// the device gives its frames up, and when the ring stops. The next frame begins with its first
/// segment.
#[test]
fn the_rest_of_a_frame_that_is_lost_does_not_come() {
    let (hdr, frame) = super_frame(40_000);
    let setup = Setup { features: VERSION_1 | PROTOCOL, size: 8, ..Setup::default() };
    let (mut device, mut guest) = connected("rest", setup);
    let first: Vec<u32> = (0..8).map(|at| 1 + 1448 * at).collect();
    push(&mut device, hdr, &frame, 0);
    device.commit().unwrap();
    assert_eq!(sequence(&mut guest), first);
    device.abandon();
    device.commit().unwrap();
    assert!(sequence(&mut guest).is_empty() && !device.is_full());
    assert_eq!((device.counters().tx_lost_buffer, device.take_fates().lost), (1, 1));
    push(&mut device, hdr, &frame, 0);
    device.commit().unwrap();
    assert_eq!(sequence(&mut guest), first);
    let base = guest.stop(0, &mut || device.attend().unwrap());
    device.commit().unwrap();
    assert_eq!((device.counters().tx_lost_down, device.take_fates().lost), (1, 1));
    guest.start(0, u16::try_from(base).unwrap(), &mut || device.attend().unwrap());
    push(&mut device, hdr, &frame, 0);
    device.commit().unwrap();
    assert_eq!(sequence(&mut guest), first);
    assert_eq!(device.take_fates(), Fates::default());
}

/// The card of a guest whose clock another program moves keeps no frame: one that finds too few
/// buffers is lost, and the next one begins with its first segment.
#[test]
fn a_timed_card_keeps_no_frame() {
    let path = path("timed");
    let listener = UnixListener::bind(&path).unwrap();
    let setup = Setup { features: VERSION_1 | PROTOCOL, size: 8, ..Setup::default() };
    let mut card: Option<TimedCard> = None;
    let mut guest = TestGuest::connect(&path, setup, || {
        let card = card.get_or_insert_with(|| TimedCard::new(listener.accept().unwrap().0).unwrap());
        card.serve().unwrap();
    });
    std::fs::remove_file(&path).unwrap();
    let mut card = card.unwrap();
    let (hdr, frame) = super_frame(40_000);
    let first: Vec<u32> = (0..8).map(|at| 1 + 1448 * at).collect();
    for _ in 0..2 {
        assert!(!card.give(&FrameRef { hdr, bytes: &frame }).unwrap());
        assert_eq!(sequence(&mut guest), first);
    }
    assert!(card.give(&FrameRef { hdr: VnetHdr::default(), bytes: &numbered(1, 60) }).unwrap());
    assert_eq!(guest.receive(0).unwrap().1, numbered(1, 60));
}
