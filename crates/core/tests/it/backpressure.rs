//! Senders that can wait, before a qdisc that keeps flows apart: a sparse sender finds room beside
//! senders that always have more (law I1 of `law::share`), and waits no longer than where full
//! queues drop.

use std::collections::VecDeque;

use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, Env, Instant, Meta, Nanos, PathConfig, Role, TxPath};

/// A packet of 1500 bytes on a link of 10 Mbit/s.
const SLOT: Nanos = Nanos(1_200_000);
/// A packet of the sparse sender comes at every fifth millisecond.
const GAP: Nanos = Nanos(5_000_000);
const SPARSE: u32 = 500;

/// Number of the sparse sender's packets; those of the others have the sender's number.
const IS_SPARSE: u32 = 1 << 16;

struct Run {
    /// Sparse packets that were taken when they came.
    taken: u32,
    /// Delays of the sparse packets that were sent, in order.
    delays: Vec<Nanos>,
    /// Packets sent by each of the others.
    sent: Vec<u32>,
    /// Packets dropped.
    dropped: usize,
}

/// Runs `bulk` senders that always have a packet, each with a frame of its own that waits for room.
/// After four seconds, when they share the room, a sparse sender tries once with each packet. Each
/// departure wakes the sender that waits longest.
fn run(kind: &str, options: &str, role: Role, bulk: u32) -> Run {
    let env = Env { seed: 7, ..Env::default() };
    let config = PathConfig { env, pool: 20_000, role, bql: None, trace: 0 };
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut path = TxPath::new(config).expect("no byte limit").with_qdisc(kind, &words).expect(kind);
    let mut dev = VecDevice::with_slots(1);
    let meta = |flow: u64, len| Meta::new(len).flow(flow);
    let mut waiting: VecDeque<u32> = (0..bulk).collect();
    let mut came = Vec::new();
    let mut out = Run { taken: 0, delays: Vec::new(), sent: vec![0; bulk as usize], dropped: 0 };
    let (mut now, mut next) = (Instant(1_000_000_000), Instant(5_000_000_000));
    let end = next + Nanos(GAP.0 * u64::from(SPARSE));
    let mut seen = 0;
    while now < end {
        // A forwarder's queue is kept full by arrivals at twice the rate of the link.
        let tries = match role {
            Role::Origin if seen == 0 => bulk,
            Role::Origin => 1,
            Role::Forwarder => 2 * bulk,
        };
        for at in 0..tries {
            let sender = match role {
                Role::Origin => waiting.pop_front().expect("a sender"),
                Role::Forwarder => at % bulk,
            };
            let mut went = 0;
            loop {
                match path.submit(now, sender, meta(u64::from(sender) + 1, 1500), &mut dev) {
                    Admitted::Full(_) => break waiting.push_back(sender),
                    Admitted::Dropped(_) => break,
                    Admitted::Sent | Admitted::Queued => {}
                    other => panic!("{other:?}"),
                }
                went += 1;
                if role == Role::Forwarder {
                    break;
                }
                assert!(went < 20_000, "{kind}: a sender without an end");
            }
        }
        while next <= now && (came.len() as u32) < SPARSE {
            let id = IS_SPARSE + came.len() as u32;
            came.push(now);
            let done = path.submit(now, id, meta(1 << 40, 100), &mut dev);
            out.taken += u32::from(matches!(done, Admitted::Sent | Admitted::Queued));
            next += GAP;
        }
        let _ = path.drain(now, 64, &mut dev);
        now += SLOT;
        dev.finish(1);
        path.reap(now, &mut dev, |_| {});
        let _ = path.drain(now, 64, &mut dev);
        for id in &dev.sent()[seen..] {
            match id.checked_sub(IS_SPARSE) {
                Some(n) => out.delays.push(now.saturating_since(came[n as usize])),
                None => out.sent[*id as usize] += 1,
            }
        }
        seen = dev.sent().len();
        if role == Role::Origin && !waiting.is_empty() {
            assert!(path.take_wake(), "{kind}: a departure made room");
        }
    }
    out.dropped = dev.discarded().len();
    out.delays.sort_unstable();
    out
}

/// Returns the median; fq_pie as a forwarder drops what comes to a full queue, and sends no sparse
/// packet at all.
fn median(delays: &[Nanos]) -> Nanos {
    delays.get(delays.len() / 2).copied().unwrap_or(Nanos(u64::MAX))
}

const KINDS: [(&str, &str); 6] = [
    // A CoDel that never drops: the subject is the want of room.
    ("fq_codel", "limit 200 flows 8191 target 10s interval 10s"),
    ("fq_codel", "limit 10240 flows 8191 memory_limit 300000 target 10s interval 10s"),
    ("fq_pie", "limit 200 flows 8191 target 4s"),
    ("fq", "limit 1000 flow_limit 10000 quantum 1514 initial_quantum 1514 buckets 8192"),
    ("sfq", "limit 600 divisor 8192"),
    ("cake", "besteffort flows rtt 100s memlimit 300000"),
];

#[test]
fn a_sparse_sender_finds_room_beside_senders_that_wait() {
    for (kind, options) in KINDS {
        for bulk in [1, 3, 30] {
            let (origin, forwarder) =
                (run(kind, options, Role::Origin, bulk), run(kind, options, Role::Forwarder, bulk));
            let name = format!("{kind} {options}, beside {bulk}");
            println!(
                "{name}: origin {} of {SPARSE} at {} ns, forwarder {} at {} ns",
                origin.taken,
                median(&origin.delays),
                forwarder.taken,
                median(&forwarder.delays)
            );
            assert_eq!((origin.taken, origin.dropped), (SPARSE, 0), "{name}");
            assert!(median(&origin.delays).saturating_sub(SLOT) <= median(&forwarder.delays), "{name}");
            let (least, most) = (origin.sent.iter().min(), origin.sent.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 2 + least.unwrap() / 20, "{name}: {:?}", origin.sent);
        }
    }
}
