//! Senders that take turns: none that waits is forgotten, and what was counted comes back.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use txweir_core::{Admitted, Meta};
use txweir_handoff::*;

use super::{Seen, Slots, config, device, model, path, told};

/// Makes a queue with turns, and a worker whose turn is over: packet 0 is with the device, of one
/// slot, and packet 1 waits.
fn turns(quota: u32) -> (Arc<Queue<FairDevice<Slots>>>, Seen, Arc<Turns>, Worker) {
    let (dev, seen) = device(1);
    let (service, _) = told();
    let path = path().with_qdisc("pfifo", &["limit", "2"]).unwrap();
    let queue = Arc::new(Queue::new(path, FairDevice { inner: dev }, config(), service));
    let turns = Arc::new(Turns::new(quota));
    let worker = turns.worker();
    assert_eq!(take_turn(&worker, &queue, 0), Taken::Handed(Handed::Done(Admitted::Sent)));
    assert_eq!(take_turn(&worker, &queue, 1), Taken::Handed(Handed::Done(Admitted::Queued)));
    (queue, seen, turns, worker)
}

fn take_turn(worker: &Worker, queue: &Queue<FairDevice<Slots>>, n: u64) -> Taken<u64> {
    worker.send(queue, n, Meta::new(1500))
}

/// Sends, or asks to be told of the next turn. Returns whether the worker was told, if it asked.
fn send_or_wait(worker: &Worker, queue: &Queue<FairDevice<Slots>>, n: u64) -> Option<Arc<AtomicU32>> {
    match take_turn(worker, queue, n) {
        Taken::Wait(back) => {
            assert_eq!(back, n);
            let (wakeup, told) = told();
            worker.when_turn(wakeup);
            Some(told)
        }
        Taken::Handed(_) => None,
    }
}

fn was_told(asked: Option<&Arc<AtomicU32>>) -> bool {
    asked.is_none_or(|told| told.load(Ordering::Acquire) == 1)
}

/// A worker that was told `Wait`, and asked to be told of its turn, is told; its charge comes back.
#[test]
fn who_waits_for_its_turn_is_told() {
    model(None, || {
        let (queue, seen, _turns, worker) = turns(1);
        let (theirs, device) = (Arc::clone(&queue), seen.clone());
        let t = thread::spawn(move || device.finish_one(1, &theirs));
        let asked = send_or_wait(&worker, &queue, 2);
        t.join().unwrap();
        assert!(was_told(asked.as_ref()), "it is its turn, and no thread said so");
        // The packet that it has sent since waits, and is still charged to it.
        assert_eq!(worker.waiting(), u32::from(asked.is_none()));
        drop(queue);
        assert_eq!(worker.waiting(), 0);
    });
}

/// Two workers wait, each for its own turn, behind packets of both.
#[test]
fn two_who_wait_for_their_turns_are_told() {
    model(Some(4), || {
        let (queue, seen, turns, worker) = turns(1);
        let other = turns.worker();
        assert_eq!(take_turn(&other, &queue, 10), Taken::Handed(Handed::Done(Admitted::Queued)));
        let (theirs, device) = (Arc::clone(&queue), seen.clone());
        let t = thread::spawn(move || {
            device.finish_one(1, &theirs);
            device.finish_one(2, &theirs);
        });
        let theirs = Arc::clone(&queue);
        let u = thread::spawn(move || (send_or_wait(&other, &theirs, 11), other));
        let asked = send_or_wait(&worker, &queue, 2);
        t.join().unwrap();
        let (others, other) = u.join().unwrap();
        assert!(was_told(asked.as_ref()) && was_told(others.as_ref()), "a turn that no thread told of");
        drop(queue);
        assert_eq!((worker.waiting(), other.waiting()), (0, 0));
    });
}

/// A greater quota is told of as well, while nothing leaves.
#[test]
fn a_greater_quota_beside_who_waits_is_told() {
    model(None, || {
        let (queue, _, turns, worker) = turns(1);
        let t = thread::spawn(move || turns.set_quota(2));
        let asked = send_or_wait(&worker, &queue, 2);
        t.join().unwrap();
        assert!(was_told(asked.as_ref()), "it may send two, and no thread said so");
    });
}

/// The charges of two workers come back from the list, the qdisc, the device, and with refused
/// packets.
#[test]
fn what_was_counted_comes_back_from_everywhere() {
    model(None, || {
        let (queue, _, turns, worker) = turns(8);
        let theirs = Arc::clone(&queue);
        let other = turns.worker();
        let t = thread::spawn(move || {
            let _ = take_turn(&other, &theirs, 10);
            let _ = take_turn(&other, &theirs, 11);
            other
        });
        let _ = take_turn(&worker, &queue, 2);
        let other = t.join().unwrap();
        let waits = queue.control().try_with(|o| o.backlog().packets).expect("no thread has it");
        assert_eq!(waits, 2, "the qdisc has room for two");
        assert!(worker.waiting() + other.waiting() <= 4, "2 in the qdisc, at most 1 held, at most 1 listed");
        drop(queue);
        assert_eq!((worker.waiting(), other.waiting()), (0, 0));
    });
}
