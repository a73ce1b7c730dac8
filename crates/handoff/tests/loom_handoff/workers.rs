//! Workers that hand frames over: the mailbox of one, and the gate at which all stop.

use std::sync::Arc;

use loom::sync::atomic::Ordering;
use loom::thread;
use txweir_handoff::*;

use super::{model, told};

/// A reader of a mailbox that sleeps although an item is there was woken.
#[test]
fn the_reader_of_a_mailbox_does_not_sleep_past_an_item() {
    model(Some(3), || {
        let (wakeup, woken) = told();
        let (post, mut box_) = mailbox(2, wakeup);
        let other = post.clone();
        let t = thread::spawn(move || {
            assert!(other.put(1).is_ok());
            other.ring();
        });
        let u = thread::spawn(move || {
            assert!(post.put(2).is_ok());
            post.ring();
        });
        let mut got = 0;
        let mut sleeps = false;
        while got < 2 && !sleeps {
            match box_.take() {
                Some(_) => got += 1,
                None => sleeps = box_.may_rest(),
            }
        }
        t.join().unwrap();
        u.join().unwrap();
        assert!(!sleeps || woken.load(Ordering::Acquire) == 1, "it sleeps past an item");
        box_.is_up();
        got += std::iter::from_fn(|| box_.take()).count();
        assert_eq!(got, 2);
    });
}

/// The one who closes the gate sees every frame once, in the counts of the worker that it left, in
/// the mailbox, or in those of the worker that it came to; and all workers go on afterwards.
#[test]
fn behind_a_closed_gate_every_frame_is_in_one_place() {
    model(Some(3), || {
        use loom::sync::Mutex;
        let gate = Arc::new(Gate::new());
        let (post, box_) = mailbox(2, told().0);
        let from = Arc::new(Mutex::new((0_u64, post)));
        let to = Arc::new(Mutex::new((0_u64, box_)));
        let (g, f) = (Arc::clone(&gate), Arc::clone(&from));
        let t = thread::spawn(move || {
            g.pass();
            let mut worker = f.lock().unwrap();
            assert!(worker.1.put(1).is_ok());
            worker.0 += 1;
        });
        let (g, f) = (Arc::clone(&gate), Arc::clone(&to));
        let u = thread::spawn(move || {
            g.pass();
            let mut worker = f.lock().unwrap();
            if worker.1.take().is_some() {
                worker.0 += 1;
            }
        });
        {
            let _closed = gate.close();
            let (from, to) = (from.lock().unwrap(), to.lock().unwrap());
            assert_eq!(from.0, to.0 + to.1.len(), "a frame is nowhere, or twice");
        }
        t.join().unwrap();
        u.join().unwrap();
    });
}
