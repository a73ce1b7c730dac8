//! Filters that are changed while threads classify by them: no sender waits, and none sees half a
//! change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::clock;
use txweir_core::classify::action::{Action, Control, Gact, Kind, Skbedit, State, Vlan, Wanted};
use txweir_core::classify::filter::{Existence, Goal, Matchall, Named, Rule};
use txweir_core::classify::packet::NoOutlet;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::{Admitted, ConfigError, Handle, Instant, Meta, PathConfig, TxPath};
use txweir_handoff::*;

const QUEUES: u32 = 4;

/// A device's queue that notes the versions of the policy that it has seen, and the packets whose
/// marks do not fit together.
struct Checking {
    number: u16,
    seen: Arc<Mutex<(BTreeSet<u32>, Vec<Meta>)>>,
}

impl TxQueue for Checking {
    type Frame = Vec<u8>;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, _: Vec<u8>, m: &Meta) {
        let whole = m.mark == m.priority && m.mark % QUEUES == u32::from(m.queue) && m.queue == self.number;
        let mut seen = self.seen.lock().unwrap();
        seen.0.insert(m.mark);
        if !whole {
            seen.1.push(*m);
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Vec<u8>>)) {}
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame
}

/// Sets the mark by one filter, the priority and the queue by the next, each to the version.
fn set(policy: &mut Policy, version: u32) -> Result<(), ConfigError> {
    let block = *policy.egress.get_or_insert_with(|| policy.filters.add_block());
    let mark = Skbedit { mark: Some((version, u32::MAX)), ..Skbedit::default() };
    let queue = u16::try_from(version % QUEUES).unwrap();
    let place = Skbedit { priority: Some(version), queue_mapping: Some(queue), ..Skbedit::default() };
    for (prio, edit, then) in [(1, mark, Control::Continue), (2, place, Control::Pass)] {
        let action = Wanted::New(None, Box::new(Action::new(Kind::Skbedit(edit), then)));
        let goal = Goal { class: Handle(0), actions: vec![action] };
        let named = Named { prio: Some(prio), handle: Some(1), ..Named::default() };
        policy.filters.put(
            block,
            named,
            &Rule::Matchall(Matchall { skip_hw: false }),
            &goal,
            Existence::Replace,
            Instant(1),
        )?;
    }
    Ok(())
}

type Seen = Arc<Mutex<(BTreeSet<u32>, Vec<Meta>)>>;

fn port() -> (Arc<SharedPort<Checking>>, Seen) {
    let seen: Seen = Arc::default();
    let queue = |number| {
        let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
        let dev = Checking { number, seen: Arc::clone(&seen) };
        Arc::new(Queue::new(path, dev, QueueConfig::new(clock), Bell::new().wakeup()))
    };
    (SharedPort::new((0..4).map(queue).collect(), 7), seen)
}

/// Returns the packets that a gact of this index has seen, by its present policy.
fn packets(port: &SharedPort<Checking>, state: &State, index: u32) -> u64 {
    let policy = port.policy();
    let mut all = policy.filters.actions.of_kind("gact");
    let found = all.find(|(_, entry)| entry.index == index);
    found.and_then(|(id, _)| state.memory(id)).map_or(0, |m| m.packets)
}

#[test]
fn a_change_under_load_is_seen_whole_or_not_at_all() {
    let (port, seen) = port();
    port.change(|policy| set(policy, 0)).unwrap();
    let (stop, sent) = (AtomicBool::new(false), Mutex::new(0u64));
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut sender = port.sender();
                let mut n = 0;
                while !stop.load(Ordering::Acquire) || n < 1000 {
                    let mut passed = sender.send_frame(frame(), |_| {}, &mut NoOutlet);
                    while let Passed::Full(prepared) = passed {
                        thread::yield_now();
                        passed = sender.resend(prepared);
                    }
                    match passed {
                        Passed::Handed(..) => n += 1,
                        other => panic!("{other:?}"),
                    }
                }
                *sent.lock().unwrap() += n;
            });
        }
        for version in 1..=5000 {
            port.change(|policy| set(policy, version)).unwrap();
        }
        stop.store(true, Ordering::Release);
    });
    // This call of the service takes the packets that are still listed.
    port.queues().iter().for_each(|queue| while queue.serve() == Rest::Again {});
    let (versions, torn) = &*seen.lock().unwrap();
    assert_eq!(torn.as_slice(), []);
    assert!(versions.len() > 1, "the senders have seen {} versions", versions.len());
    let through: u64 = port.queues().iter().map(|queue| queue.status().counts().path.tx_packets).sum();
    assert_eq!(through, *sent.lock().unwrap());
}

#[test]
fn what_is_refused_is_not_published() {
    let (port, _) = port();
    port.change(|policy| set(policy, 1)).unwrap();
    let before = Arc::as_ptr(&port.policy());
    assert_eq!(port.change(|policy| set(policy, 2).map_err(|_| "").and(Err("no"))), Err("no"));
    assert_eq!(Arc::as_ptr(&port.policy()), before);
}

#[test]
fn filters_drop_and_give_back_and_count_for_each_sender() {
    let (port, _) = port();
    port.change(|policy| {
        let block = policy.filters.add_block();
        policy.egress = Some(block);
        let action = Wanted::New(None, Box::new(Action::new(Kind::Gact(Gact::default()), Control::Drop)));
        let goal = Goal { class: Handle(0), actions: vec![action] };
        let named = Named { prio: Some(1), ..Named::default() };
        let all = Rule::Matchall(Matchall { skip_hw: false });
        policy.filters.put(block, named, &all, &goal, Existence::Add, Instant(1)).map(drop)
    })
    .unwrap();
    let mut sender = port.sender();
    let mut other = sender.clone();
    for _ in 0..3 {
        assert_eq!(sender.send_frame(frame(), |_| {}, &mut NoOutlet), Passed::Filtered(frame()));
    }
    assert_eq!(other.send_frame(frame(), |_| {}, &mut NoOutlet), Passed::Filtered(frame()));
    let dropped = |state: State| {
        let policy = port.policy();
        let index = policy.filters.actions.of_kind("gact").next().map(|(id, _)| id).unwrap();
        state.memory(index).map(|m| m.drops)
    };
    assert_eq!((dropped(sender.state()), dropped(other.state())), (Some(3), Some(1)));
    assert_eq!(dropped(port.state()), Some(4));
    // A sender that ends leaves its counts, also one that ends while the policy is changed.
    drop(other);
    assert_eq!(dropped(port.state()), Some(4));
    let ended = Some(sender);
    port.change(|_| {
        drop(ended);
        Ok::<(), ()>(())
    })
    .unwrap();
    assert_eq!((dropped(port.state()), dropped(port.state())), (Some(4), Some(4)));
}

/// A policy may lie where one lay that the sender has met, and that is gone.
#[test]
fn a_sender_counts_by_each_policy_wherever_it_lies() {
    let (port, _) = port();
    let rule = Rule::Matchall(Matchall { skip_hw: false });
    let mut sender = port.sender();
    for index in 1..=64 {
        port.change(|policy| {
            let block = *policy.egress.get_or_insert_with(|| policy.filters.add_block());
            let gact = Box::new(Action::new(Kind::Gact(Gact::default()), Control::Continue));
            let goal = Goal { class: Handle(0), actions: vec![Wanted::New(Some(index), gact)] };
            let named = Named { prio: Some(1), handle: Some(1), ..Named::default() };
            policy.filters.put(block, named, &rule, &goal, Existence::Replace, Instant(1)).map(drop)
        })
        .unwrap();
        let passed = sender.send_frame(frame(), |_| {}, &mut NoOutlet);
        assert!(matches!(passed, Passed::Handed(..)), "{passed:?}");
        assert_eq!(packets(&port, &sender.state(), index), 1, "action {index}");
        // The sender meets a later policy without its filters, and lets go of the one before.
        port.change(|_| Ok::<(), ()>(())).unwrap();
        let _ = sender.send(frame(), Meta::new(60));
    }
}

/// Threads come, send and go while one filter is made anew, so that its number is given again, and
/// the counts are read: the filter that stays has counted every frame, and a new one none of those
/// before it.
#[test]
fn counts_are_whole_beside_changes_and_the_ends_of_senders() {
    let (port, _) = port();
    let rule = Rule::Matchall(Matchall { skip_hw: false });
    let put = |policy: &mut Policy, prio: u16, control: Control, action: Option<u32>| {
        let block = *policy.egress.get_or_insert_with(|| policy.filters.add_block());
        let gact = Box::new(Action::new(Kind::Gact(Gact::default()), control));
        let goal = Goal { class: Handle(0), actions: vec![Wanted::New(action, gact)] };
        let named = Named { prio: Some(prio), handle: Some(1), ..Named::default() };
        policy.filters.put(block, named, &rule, &goal, Existence::Replace, Instant(1)).map(drop)
    };
    port.change(|policy| {
        put(policy, 1, Control::Continue, Some(7))?;
        put(policy, 2, Control::Drop, None)
    })
    .unwrap();
    const LIVES: u64 = 40;
    const FRAMES: u64 = 50;
    let ended = AtomicBool::new(false);
    thread::scope(|s| {
        let senders: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    for _ in 0..LIVES {
                        let mut sender = port.sender();
                        for _ in 0..FRAMES {
                            let _ = sender.send_frame(frame(), |_| {}, &mut NoOutlet);
                        }
                    }
                })
            })
            .collect();
        s.spawn(|| {
            let mut before = 0;
            while !ended.load(Ordering::Acquire) {
                port.change(|policy| put(policy, 2, Control::Drop, None)).unwrap();
                let now = packets(&port, &port.state(), 7);
                assert!(now >= before, "{now} after {before}");
                before = now;
            }
        });
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        ended.store(true, Ordering::Release);
    });
    assert_eq!(packets(&port, &port.state(), 7), 3 * LIVES * FRAMES);
}

/// A device that takes nothing until it is opened, and notes the sender of each frame and whether
/// the frame is marked as TCP control.
struct Gated {
    open: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<(u8, bool)>>>,
}

impl TxQueue for Gated {
    type Frame = Vec<u8>;
    fn reserve(&mut self, want: u32) -> u32 {
        if self.open.load(Ordering::Acquire) { want } else { 0 }
    }
    fn push(&mut self, frame: Vec<u8>, m: &Meta) {
        self.seen.lock().unwrap().push((frame[5], m.tcp_control));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Vec<u8>>)) {}
}

/// Builds a TCP segment of that number, in the last byte of its destination address: SYN without
/// data, or ACK with ten bytes of it.
fn segment(number: u8, syn: bool) -> Vec<u8> {
    let mut frame = frame();
    frame.resize(64, 0);
    frame[5] = number;
    frame[17] = if syn { 40 } else { 50 };
    (frame[23], frame[46], frame[47]) = (6, 0x50, if syn { 0x02 } else { 0x10 });
    frame
}

/// `prio_synack` while packets wait: marked packets stay marked and go first. Later packets are
/// marked as the switch then stands, for older senders as well, and also if an action has rewritten
/// the packet.
#[test]
fn the_switch_of_marks_is_for_the_packets_after_it() {
    let (open, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let dev = Gated { open: Arc::clone(&open), seen: Arc::clone(&seen) };
    let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
    let path = path.with_qdisc("rough", &[]).unwrap();
    let queue = Arc::new(Queue::new(path, dev, QueueConfig::new(clock), Bell::new().wakeup()));
    let port = SharedPort::new(vec![queue], 7);
    assert!(port.policy().prio_synack, "on by default");
    let mut first = port.sender();
    let mut second = first.clone();
    let send = |sender: &mut Sender<Gated>, number, syn| {
        let sent = sender.send_frame(segment(number, syn), |_| {}, &mut NoOutlet);
        assert_eq!(sent, Passed::Handed(0, Handed::Done(Admitted::Queued)), "{number}");
    };
    let switch = |on| {
        let changed = port.change(|policy| {
            policy.prio_synack = on;
            Ok::<(), ()>(())
        });
        changed.unwrap();
    };

    send(&mut first, 1, false);
    send(&mut second, 2, true);
    switch(false);
    send(&mut first, 3, true);
    send(&mut second, 4, true);
    // The headers of a packet that an action has rewritten are read again.
    port.change(tag).unwrap();
    send(&mut first, 5, true);
    switch(true);
    send(&mut first, 6, true);
    send(&mut second, 7, false);
    send(&mut second, 8, true);

    open.store(true, Ordering::Release);
    port.queues()[0].kick();
    let expected =
        [(2, true), (6, true), (8, true), (1, false), (3, false), (4, false), (5, false), (7, false)];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// Tags every packet with VLAN 5.
fn tag(policy: &mut Policy) -> Result<(), ConfigError> {
    let block = policy.filters.add_block();
    policy.egress = Some(block);
    let tag = Kind::Vlan(Vlan::Push { id: 5, protocol: 0x8100, priority: 0 });
    let action = Wanted::New(None, Box::new(Action::new(tag, Control::Pass)));
    let goal = Goal { class: Handle(0), actions: vec![action] };
    let named = Named { prio: Some(1), ..Named::default() };
    let all = Rule::Matchall(Matchall { skip_hw: false });
    policy.filters.put(block, named, &all, &goal, Existence::Add, Instant(1)).map(drop)
}

/// A port of one queue over a device of frames.
fn over(path: TxPath<Vec<u8>>, slots: u32) -> Arc<SharedPort<VecDevice<Vec<u8>>>> {
    let queue = Queue::new(path, VecDevice::with_slots(slots), QueueConfig::new(clock), Bell::new().wakeup());
    let port = SharedPort::new(vec![Arc::new(queue)], 7);
    port.change(tag).unwrap();
    port
}

#[test]
fn a_further_try_of_a_frame_applies_no_action_again() {
    let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
    let port = over(path.with_qdisc("pfifo", &["limit", "1"]).unwrap(), 1);
    let mut sender = port.sender();
    for _ in 0..2 {
        let passed = sender.send_frame(frame(), |m| m.mark = 9, &mut NoOutlet);
        assert!(matches!(passed, Passed::Handed(0, Handed::Done(_))), "{passed:?}");
    }
    let mut passed = sender.send_frame(frame(), |m| m.mark = 9, &mut NoOutlet);
    for _ in 0..3 {
        let Passed::Full(prepared) = passed else { panic!("{passed:?}") };
        assert_eq!((prepared.frame.len(), prepared.meta.len, prepared.meta.mark), (64, 64, 9));
        assert_eq!(prepared.queue(), 0);
        passed = sender.resend(prepared);
    }
    let queue = &port.queues()[0];
    let free = || {
        queue.control().try_with(|o| o.dev.finish(1)).unwrap();
        queue.kick();
    };
    free();
    let Passed::Full(prepared) = passed else { panic!("{passed:?}") };
    let passed = sender.resend(prepared);
    assert!(matches!(passed, Passed::Handed(0, Handed::Done(Admitted::Queued))), "{passed:?}");
    free();
    let sent: Vec<_> = queue
        .control()
        .try_with(|o| o.dev.sent().iter().zip(o.dev.metas()).map(|(f, m)| (f.len(), m.mark)).collect())
        .unwrap();
    assert_eq!(sent, [(64, 9); 3]);
}

#[test]
fn a_super_frame_comes_back_with_all_that_its_pieces_need() {
    let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
    let options = ["rate", "1gbit", "burst", "2000", "limit", "100000"];
    let port = over(path.with_qdisc("tbf", &options).unwrap(), 100);
    let mut sender = port.sender();
    let mut large = frame();
    large.resize(3000, 0);
    let shape = |m: &mut Meta| {
        m.segs = 2;
        m.mark = 9;
    };
    let passed = sender.send_frame(large, shape, &mut NoOutlet);
    let Passed::Cut(whole, max) = passed else { panic!("{passed:?}") };
    assert!(max < 3000, "{max}");
    for half in whole.frame.chunks(1502) {
        let size = u32::try_from(half.len()).unwrap();
        let mut meta = whole.meta;
        (meta.len, meta.wire_len, meta.segs) = (size, size, 1);
        let passed = sender.resend(whole.piece(half.to_vec(), meta));
        assert!(matches!(passed, Passed::Handed(0, Handed::Done(Admitted::Queued))), "{passed:?}");
    }
    let counts = port.queues()[0].status().counts();
    assert_eq!(counts.path.tx_packets + counts.backlog.packets, 2);
}
