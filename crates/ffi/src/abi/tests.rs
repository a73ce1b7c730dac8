//! The functions as C calls them: counts, faults, null, and packets that come back.

use super::*;

fn packet(number: usize, length: u32) -> txweir_packet {
    txweir_packet {
        frame: number as *mut c_void,
        launch_ns: 0,
        length,
        flow: txweir_flow(number as u64),
        priority: 0,
        mark: 0,
        class_id: 0,
        gso_size: 0,
        header_length: 0,
        protocol: 0x0800,
        tos: 0,
        flags: 0,
    }
}

fn apply(queue: *mut txweir, text: &str) {
    // SAFETY: the arguments are as the function wants them.
    let done = unsafe { txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0) };
    assert_eq!(done, TXWEIR_OK, "{text}");
}

/// Makes a queue with this policy.
fn queue_with(config: txweir_config, text: &str) -> *mut txweir {
    // SAFETY: the argument is as the function wants it.
    let queue = unsafe { txweir_new(&raw const config) };
    apply(queue, text);
    queue
}

/// Makes the discard function of a queue fail.
fn break_discard(queue: *mut txweir) {
    let fault: crate::queue::Discard = Box::new(|_, _: &Meta, _| panic!("a fault"));
    on(queue, (), |queue| queue.set_discard(Some(fault)));
}

/// Submits packets of these numbers, 1000 bytes each. Returns the result.
fn submit(queue: *mut txweir, numbers: std::ops::RangeInclusive<usize>) -> usize {
    let packets: Vec<txweir_packet> = numbers.map(|n| packet(n, 1000)).collect();
    // SAFETY: the arguments are as the function wants them.
    unsafe { txweir_submit(queue, 0, packets.as_ptr(), packets.len(), std::ptr::null_mut()) }
}

/// Returns the numbers of submitted, sent, dropped and waiting packets, which have to agree.
fn counts(queue: *mut txweir) -> [u64; 4] {
    let mut stats = txweir_stats::default();
    // SAFETY: the arguments are as the function wants them.
    assert_eq!(unsafe { txweir_get_stats(queue, &raw mut stats) }, TXWEIR_OK);
    assert_eq!(stats.submitted, stats.sent + stats.dropped + stats.waiting, "{stats:?}");
    [stats.submitted, stats.sent, stats.dropped, stats.waiting]
}

#[test]
fn a_fault_stays_behind_the_border_and_ends_the_queue() {
    // SAFETY: null is good.
    let queue = unsafe { txweir_new(std::ptr::null()) };
    assert_eq!(on(queue, 7, |_| -> i32 { panic!("a fault") }), 7);
    let one = [packet(1, 100)];
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        assert_eq!(txweir_submit(queue, 0, one.as_ptr(), 1, std::ptr::null_mut()), 0);
        assert_eq!(txweir_apply(queue, 0, c"".as_ptr(), 0, std::ptr::null_mut(), 0), TXWEIR_BROKEN);
        txweir_free(queue);
    }
}

/// The program knows which packets are its own after a fault in the midst of a call.
#[test]
fn a_fault_leaves_the_count_of_the_packets_before_it() {
    let config = txweir_config { role: TXWEIR_FORWARDER, byte_limit: false, ..txweir_config_default() };
    let queue = queue_with(config, "qdisc replace root pfifo limit 2");
    break_discard(queue);
    let packets: Vec<txweir_packet> = (1..=5).map(|n| packet(n, 100)).collect();
    let mut fates = [9; 5];
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        // The third one is dropped.
        assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 5, fates.as_mut_ptr()), 2);
        assert_eq!(fates, [TXWEIR_QUEUED, TXWEIR_QUEUED, TXWEIR_FULL, 9, 9]);
        assert_eq!(txweir_completed(queue, 0, 0, 0), TXWEIR_BROKEN);
        fates = [9; 5];
        assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 5, fates.as_mut_ptr()), 0);
        assert_eq!(fates, [TXWEIR_FULL, 9, 9, 9, 9]);
        txweir_free(queue);
    }
    let queue = queue_with(config, "qdisc replace root codel");
    assert_eq!(submit(queue, 1..=10), 10);
    break_discard(queue);
    let mut out = [packet(0, 0); 4];
    let mut next = txweir_next { kind: 9, at_ns: 9 };
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        assert_eq!(txweir_pull(queue, 1_000_000_000, out.as_mut_ptr(), 1, &raw mut next), 1);
        assert_eq!((next.kind, next.at_ns), (TXWEIR_MORE, 0));
        // codel drops the second packet and gives the third one.
        assert_eq!(txweir_pull(queue, 2_000_000_000, out.as_mut_ptr(), 4, &raw mut next), 1);
        assert_eq!((out[0].frame as usize, out[1].frame as usize), (3, 0));
        assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
        assert_eq!(txweir_completed(queue, 0, 0, 0), TXWEIR_BROKEN);
        next.kind = 9;
        assert_eq!(txweir_pull(queue, 2_000_000_000, out.as_mut_ptr(), 4, &raw mut next), 0);
        assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
        txweir_free(queue);
    }
}

/// The frames that wait in a queue in which a fault was found come back at its end, each once. The
/// packet at which the fault ended a submit is still the program's.
#[test]
fn the_frames_of_a_broken_queue_come_back() {
    let config = txweir_config { role: TXWEIR_FORWARDER, byte_limit: false, ..txweir_config_default() };
    // The third packet waits when the function that gets the first one fails.
    for (policy, submitted, back) in [
        ("qdisc replace root pfifo_head_drop limit 2", 2, vec![1, 2]),
        ("qdisc replace root fq_codel", 3, vec![1, 2, 3]),
    ] {
        let queue = queue_with(config, policy);
        let (noted, mut fails) = (std::rc::Rc::new(std::cell::RefCell::new(Vec::new())), submitted == 2);
        let note = std::rc::Rc::clone(&noted);
        let discard: crate::queue::Discard = Box::new(move |Frame(frame), _: &Meta, _| {
            note.borrow_mut().push(frame as usize);
            assert!(!std::mem::take(&mut fails), "a fault");
        });
        on(queue, (), |queue| queue.set_discard(Some(discard)));
        assert_eq!(submit(queue, 1..=3), submitted, "{policy}");
        on(queue, (), |_| panic!("a fault"));
        // SAFETY: the argument is as the function wants it.
        unsafe { txweir_free(queue) };
        assert_eq!(*noted.borrow(), back, "{policy}");
    }
}

/// The counters have drops under an earlier policy and in a full pool, and packets that a new
/// policy takes only in pieces.
#[test]
fn the_counters_agree_whatever_drops_a_packet() {
    let config =
        txweir_config { packets: 8, role: TXWEIR_FORWARDER, byte_limit: false, ..txweir_config_default() };
    let queue = queue_with(config, "qdisc replace root pfifo limit 4");
    assert_eq!(submit(queue, 1..=6), 6);
    assert_eq!(counts(queue), [6, 0, 2, 4]);
    apply(queue, "qdisc replace root bfifo limit 100000");
    assert_eq!(counts(queue), [6, 0, 2, 4]);
    assert_eq!(submit(queue, 7..=12), 6);
    assert_eq!(counts(queue), [12, 0, 4, 8]);
    let mut out = [packet(0, 0); 8];
    let mut large = packet(13, 9000);
    (large.header_length, large.gso_size) = (54, 1000);
    let (keep, mut fate) = (std::ptr::null_mut(), 9);
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        assert_eq!(txweir_pull(queue, 0, out.as_mut_ptr(), 8, std::ptr::null_mut()), 8);
        assert_eq!(txweir_submit(queue, 0, &raw const large, 1, keep), 1);
        assert_eq!(counts(queue), [13, 8, 4, 1]);
        apply(queue, "qdisc replace root tbf rate 1mbit burst 2000 limit 20000");
        assert_eq!(counts(queue), [13, 8, 5, 0]);
        // The program keeps such a packet where it asks for the fate.
        assert_eq!(txweir_submit(queue, 0, &raw const large, 1, &raw mut fate), 1);
        assert_eq!((fate, counts(queue)), (TXWEIR_TOO_LARGE, [13, 8, 5, 0]));
        assert_eq!(txweir_submit(queue, 0, &raw const large, 1, keep), 1);
        assert_eq!(counts(queue), [14, 8, 6, 0]);
        txweir_free(queue);
    }
}

#[test]
fn null_and_numbers_out_of_range_are_answered() {
    let null = std::ptr::null_mut();
    let (mut out, mut fate) = (packet(1, 100), 9);
    let mut next = txweir_next { kind: 9, at_ns: 9 };
    // SAFETY: null is good.
    unsafe {
        assert_eq!(txweir_submit(null, 0, &raw const out, 1, &raw mut fate), 0);
        assert_eq!(fate, TXWEIR_FULL);
        assert_eq!(txweir_pull(null, 0, &raw mut out, 1, &raw mut next), 0);
        assert_eq!((next.kind, next.at_ns), (TXWEIR_IDLE, 0));
        assert_eq!(txweir_submit(null, 0, std::ptr::null(), 5, std::ptr::null_mut()), 0);
        assert_eq!(txweir_pull(null, 0, std::ptr::null_mut(), 5, std::ptr::null_mut()), 0);
        assert_eq!(txweir_apply(null, 0, std::ptr::null(), 5, std::ptr::null_mut(), 0), TXWEIR_BROKEN);
        assert_eq!(txweir_show(null, true, std::ptr::null_mut(), 5), 0);
        txweir_free(null);
        for config in [
            txweir_config { packets: 0, ..txweir_config_default() },
            txweir_config { role: 9, ..txweir_config_default() },
            txweir_config { mtu: 0, ..txweir_config_default() },
        ] {
            assert!(txweir_new(&raw const config).is_null(), "{config:?}");
        }
    }
    assert!(!txweir_take_wake(null));
}

/// A burst is cut at the first packet without room, and the fates say what happened to each.
#[test]
fn a_full_queue_gives_packets_back_in_their_order() {
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        let queue = txweir_new(std::ptr::null());
        let text = "qdisc replace root pfifo limit 40";
        let done = txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0);
        assert_eq!(done, TXWEIR_OK);
        let packets: Vec<txweir_packet> = (1..=100).map(|n| packet(n, 1000)).collect();
        let mut fates = [9; 100];
        assert_eq!(txweir_submit(queue, 0, packets.as_ptr(), 100, fates.as_mut_ptr()), 40);
        assert!(fates[..40].iter().all(|fate| *fate == TXWEIR_QUEUED));
        assert_eq!((fates[40], fates[41]), (TXWEIR_FULL, 9));
        let mut out = [packet(0, 0); 64];
        let mut next = txweir_next { kind: 9, at_ns: 0 };
        let (mut taken, mut first) = (0, 1);
        while taken < 40 {
            let n = txweir_pull(queue, 0, out.as_mut_ptr(), 64, &raw mut next);
            for packet in &out[..n] {
                assert_eq!(packet.frame as usize, first);
                first += 1;
            }
            taken += n;
            assert!(n > 0, "{next:?}");
            assert_eq!(txweir_completed(queue, 0, n as u32, n as u32 * 1000), TXWEIR_OK);
        }
        assert_eq!(next.kind, TXWEIR_IDLE);
        assert!(txweir_take_wake(queue) && !txweir_take_wake(queue));
        txweir_free(queue);
    }
}

/// A program that does not ask for fates gets a packet that can never leave by its discard
/// function; one that asks keeps it.
#[test]
fn a_packet_that_is_too_large_stays_or_is_given_back() {
    unsafe extern "C" fn count(context: *mut c_void, _frame: *mut c_void, reason: u8) {
        assert_eq!(reason, DropReason::Oversize as u8);
        // SAFETY: the test passes a number.
        unsafe { *context.cast::<u32>() += 1 };
    }
    let mut given_back = 0_u32;
    // SAFETY: the arguments are as the functions want them.
    unsafe {
        let queue = txweir_new(std::ptr::null());
        assert_eq!(txweir_set_discard(queue, Some(count), (&raw mut given_back).cast()), TXWEIR_OK);
        let text = "qdisc replace root tbf rate 1mbit burst 2000 limit 20000";
        assert_eq!(
            txweir_apply(queue, 0, text.as_ptr().cast(), text.len(), std::ptr::null_mut(), 0),
            TXWEIR_OK
        );
        let mut super_packet = packet(1, 9000);
        (super_packet.header_length, super_packet.gso_size) = (54, 1000);
        let mut fate = 9;
        assert_eq!(txweir_submit(queue, 0, &raw const super_packet, 1, &raw mut fate), 1);
        assert_eq!((fate, given_back), (TXWEIR_TOO_LARGE, 0));
        assert_eq!(txweir_submit(queue, 0, &raw const super_packet, 1, std::ptr::null_mut()), 1);
        assert_eq!(given_back, 1);
        txweir_free(queue);
    }
    assert_eq!(given_back, 1);
}
