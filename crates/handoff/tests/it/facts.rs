//! The facts that a queue keeps beside its path: its time, and whether the qdiscs want details.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::own_time::{clock, go_back, pass};
use crate::common::path;
use txweir_core::model::testing::VecDevice;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, Handle, Meta};
use txweir_handoff::*;

fn queue(kind: &str, options: &[&str], config: QueueConfig<u64>) -> Queue<VecDevice<u64>> {
    let dev = VecDevice::with_slots(1000);
    Queue::new(path(false, kind, options), dev, config, Bell::new().wakeup())
}

fn sent(queue: &Queue<VecDevice<u64>>) -> u64 {
    queue.status().counts().path.tx_packets
}

/// A clock that steps back stops a shaper for that step and no longer, and each time that the
/// queue names is the time at which the packet leaves.
#[test]
fn a_step_back_of_the_clock_stops_a_shaper_for_no_longer_than_the_step() {
    pass(100_000);
    let options = ["rate", "8mbit", "burst", "1000", "limit", "100000"];
    let queue = queue("tbf", &options, QueueConfig::new(clock));
    for n in 0..3 {
        assert_eq!(queue.send(n, Meta::new(1000)), Handed::Done(Admitted::Queued));
    }
    let first = queue.status().deadline().expect("packets wait");
    assert_eq!(sent(&queue), 1);
    go_back(60_000);
    for _ in 0..3 {
        // The service, which comes too early, is told the same time.
        assert_eq!(queue.serve(), Rest::At(first));
    }
    assert_eq!(queue.status().deadline(), Some(first));
    pass(60_000);
    assert_eq!(queue.serve(), Rest::At(first));
    pass(1);
    assert_eq!(clock(), first);
    let Rest::At(second) = queue.serve() else { panic!("a packet waits") };
    assert_eq!((sent(&queue), second.saturating_since(first).0), (2, 1_000_000));
    pass(1);
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(sent(&queue), 3);
}

/// The list says that it stops its senders while it still has a place, so that a sender that looks
/// first is not refused.
#[test]
fn a_list_with_one_place_left_is_stopped() {
    let queue =
        queue("pfifo_fast", &[], QueueConfig { list: 4, drain: Drain::Worker, ..QueueConfig::new(clock) });
    for (n, stopped) in [(0, false), (1, false), (2, true), (3, true)] {
        assert_eq!(queue.send(n, Meta::new(100)), Handed::Listed);
        assert_eq!(queue.status().is_stopped(), stopped, "{n}");
    }
    assert_eq!(queue.send(4, Meta::new(100)), Handed::Done(Admitted::Full(4)));
    assert_eq!(queue.serve(), Rest::Idle);
    assert!(!queue.status().is_stopped(), "half of the list is free");
}

/// Every way that reaches the tree is followed.
#[test]
fn whether_details_are_wanted_follows_each_change_of_the_tree() {
    let put = |o: &mut Owned<VecDevice<u64>>, kind: &str| {
        let now = o.now();
        o.path.configure(now, &mut o.dev, |tree, cx| {
            tree.edit(cx).replace(Handle::ROOT, None, kind, &mut Words::new(&[])).unwrap();
        });
    };
    let queue = queue("cake", &[], QueueConfig::new(clock));
    assert!(queue.wants_detail());
    queue.control().try_with(|o| put(o, "pfifo_fast")).unwrap();
    assert!(!queue.wants_detail(), "try_with");
    queue.control().post(move |o| put(o, "cake"));
    assert!(queue.wants_detail(), "post");
    queue.control().try_with(|o| put(o, "pfifo_fast")).unwrap();
    queue.control().configure(
        |tree, cx| {
            tree.edit(cx).replace(Handle::ROOT, None, "cake", &mut Words::new(&[])).map(drop).unwrap();
        },
        |()| {},
    );
    assert!(queue.wants_detail(), "configure");
    queue
        .control()
        .try_with(|o| {
            let now = o.now();
            let change = |tree: &mut txweir_core::Tree, cx: &mut txweir_core::sched::cx::Cx| {
                tree.edit(cx).replace(Handle::ROOT, None, "pfifo_fast", &mut Words::new(&[])).map(drop)
            };
            o.path.swap(now, &mut o.dev, change, |_, _, _, _| {}).0.unwrap();
        })
        .unwrap();
    assert!(!queue.wants_detail(), "swap");
}

/// A cutter cuts for each thread: for a sender that has the queue, for one that asks, and for the
/// thread that takes a packet from the list.
#[test]
fn a_cutter_cuts_whichever_thread_has_the_queue() {
    for (drain, tracked) in
        [(Drain::Caller, false), (Drain::Worker, false), (Drain::Caller, true), (Drain::Worker, true)]
    {
        let config = QueueConfig {
            drain,
            cut: Some(Box::new(|frame, meta, max, each| {
                let pieces = meta.wire_len.div_ceil(max);
                (0..pieces).for_each(|n| each(frame + u64::from(n), Meta::new(meta.wire_len / pieces)));
            })),
            ..QueueConfig::new(clock)
        };
        let options = ["rate", "1gbit", "burst", "2000", "limit", "100000"];
        let queue = Arc::new(queue("tbf", &options, config));
        let mut large = Meta::new(3000);
        large.segs = 2;
        let listed = drain == Drain::Worker;
        let fate = || if listed { Handed::Listed } else { Handed::Done(Admitted::Queued) };
        if tracked {
            let mut sender = Tracked::new(Arc::clone(&queue), 4);
            assert_eq!(sender.send(10, large).1, fate());
            let _ = queue.serve();
            let answer = sender.answer().map(|(_, done)| done);
            assert_eq!(answer, listed.then_some(Admitted::Queued));
        } else {
            assert_eq!(queue.send(10, large), fate());
        }
        let _ = queue.serve();
        pass(1);
        let _ = queue.serve();
        let sent = queue.control().try_with(|o| o.dev.sent().to_vec());
        assert_eq!(sent, Some(vec![10, 11]), "{drain:?}, tracked {tracked}");
        assert_eq!(queue.status().counts().handoff.uncut, 0);
    }
}

#[test]
fn a_kicker_kicks_its_queue_and_does_not_keep_it() {
    struct Watched(Arc<AtomicU64>);
    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicU64::new(0));
    let (watched, back) = (Watched(Arc::clone(&ended)), Arc::new(Mutex::new(Vec::new())));
    let mine = Arc::clone(&back);
    let done = Box::new(move |frame: u64| {
        let _keeps = &watched;
        mine.lock().unwrap().push(frame);
    });
    let (sender, mut receiver) = ring::<u64>(2, Bell::new().wakeup());
    let config = QueueConfig { done, ..QueueConfig::new(clock) };
    let path = path(false, "pfifo_fast", &[]);
    let queue = Arc::new(Queue::new(path, sender, config, Bell::new().wakeup()));
    receiver.on_finished(queue.kicker());
    for n in 0..3 {
        assert!(matches!(queue.send(n, Meta::new(100)), Handed::Done(_)));
    }
    assert_eq!(receiver.pop().map(|(n, _)| n), Some(0));
    receiver.finish(1);
    assert_eq!(queue.status().counts().handoff.kicks, 1);
    drop(queue);
    assert_eq!(ended.load(Ordering::Relaxed), 1, "the queue has ended before its device's receiver");
    receiver.finish(1);
}
