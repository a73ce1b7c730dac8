//! The thread that serves queues.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::common::{clock, path};
use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, Meta};
use txweir_handoff::*;

#[test]
fn a_bell_has_one_service() {
    let bell = Bell::new();
    let config = QueueConfig::new(clock);
    let dev = VecDevice::<u64>::with_slots(4);
    let queue = Arc::new(Queue::new(path(false, "pfifo_fast", &[]), dev, config, bell.wakeup()));
    let start = || Service::spawn("tx", &bell, vec![Arc::clone(&queue)], Monitor::default(), |_| {});
    let first = start().unwrap();
    let again = start().expect_err("the bell is used");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert!(again.to_string().contains("bell"), "{again}");
    assert_eq!(first.stop(), 0);
    assert_eq!(start().expect_err("the bell stays used").kind(), ErrorKind::AlreadyExists);
    assert_eq!(queue.send(1, Meta::new(100)), Handed::Done(Admitted::Sent));
}
