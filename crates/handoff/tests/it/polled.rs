//! A device that tells nothing of its completions is asked for them at an interval, also while no
//! packet waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::own_time::{clock, pass};
use crate::common::path;
use txweir_core::{Admitted, Completed, DeviceError, Instant, Meta, Nanos, TxQueue};
use txweir_handoff::*;

/// A device of endless room that finishes each packet at once, gives its frame back, and counts how
/// often it is asked.
struct Silent {
    done: Vec<u64>,
    asked: Arc<AtomicU64>,
}

impl TxQueue for Silent {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u64, _: &Meta) {
        self.done.push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        for frame in self.done.drain(..) {
            sink(Completed { packets: 1, bytes: 100, frame: Some(frame) });
        }
    }
}

#[test]
fn a_polled_device_gives_its_frames_back_while_no_packet_waits() {
    let (back, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let mine = Arc::clone(&back);
    let config = QueueConfig {
        poll: Some(Nanos::from_millis(2)),
        done: Box::new(move |frame| mine.lock().unwrap().push(frame)),
        ..QueueConfig::new(clock)
    };
    let dev = Silent { done: Vec::new(), asked: Arc::clone(&asked) };
    let queue = Queue::new(path(false, "pfifo_fast", &[]), dev, config, Bell::new().wakeup());
    let began = clock();
    let deadline = |ms: u64| Some(Instant(began.0 + ms * 1_000_000));
    assert_eq!(queue.send(1, Meta::new(100)), Handed::Done(Admitted::Sent));
    assert_eq!(queue.status().deadline(), deadline(2));
    // Other runs before that time neither ask nor put the time off.
    pass(1);
    queue.control().post(|_| {});
    assert_eq!((queue.status().deadline(), asked.load(Ordering::Relaxed)), (deadline(2), 0));
    assert_eq!(*back.lock().unwrap(), []);
    pass(1);
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(*back.lock().unwrap(), [1]);
    assert_eq!(queue.status().counts().handoff.reaped, 1);
    // A device without packets is not asked.
    assert_eq!(queue.status().deadline(), None);
    // A burst arms the time as well.
    assert_eq!(queue.send_burst(&mut (2..5).map(|n| (n, Meta::new(100)))), (3, None));
    assert_eq!(queue.status().deadline(), deadline(4));
    pass(2);
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(*back.lock().unwrap(), [1, 2, 3, 4]);
}

/// A device that is done with each packet once it is shown it, and reports none.
#[derive(Default)]
struct AtOnce(Arc<AtomicU64>);

impl TxQueue for AtOnce {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, _: u64, _: &Meta) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<u64>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
}

/// With the byte limit that a path has by default.
#[test]
fn a_device_that_is_done_at_once_takes_every_packet_and_is_not_polled() {
    let shown = Arc::new(AtomicU64::new(0));
    let config = QueueConfig { poll: Some(Nanos::from_millis(2)), ..QueueConfig::new(clock) };
    let dev = AtOnce(Arc::clone(&shown));
    let queue = Queue::new(path(true, "pfifo_fast", &[]), dev, config, Bell::new().wakeup());
    for n in 0..1000 {
        assert_eq!(queue.send(n, Meta::new(1500)), Handed::Done(Admitted::Sent));
    }
    assert_eq!(queue.send_burst(&mut (0..1000).map(|n| (n, Meta::new(1500)))), (1000, None));
    assert_eq!((shown.load(Ordering::Relaxed), queue.status().deadline()), (2000, None));
    let limit = queue.control().try_with(|o| o.path.tx().limit().map(|d| (d.limit(), d.inflight())));
    assert_eq!(limit, Some(Some((0, 0))));
}
