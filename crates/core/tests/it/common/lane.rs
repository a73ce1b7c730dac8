//! One qdisc of a kind, driven packet by packet, for comparison with oracles.

use txweir_core::model::testing::VecDevice;
use txweir_core::sched::node::Node;
use txweir_core::text::stats::Counter;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, ConfigError, Detail, DropReason, Env, Handle, Instant, Meta, PathConfig, Role, TxPath, Wake,
};

/// The result of one dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// This packet.
    Sent(u32, Meta),
    /// No packet before this instant.
    Wait(Instant),
    /// No packet: the queue is empty.
    Nothing,
}

impl Out {
    /// Returns the packet's number.
    pub fn id(self) -> Option<u32> {
        match self {
            Self::Sent(id, _) => Some(id),
            _ => None,
        }
    }
}

/// A path with one qdisc, a device that accepts every packet, and no byte limit.
#[derive(Debug)]
pub struct Lane {
    pub path: TxPath<u32>,
    pub dev: VecDevice<u32>,
    dropped: usize,
}

impl Lane {
    /// Makes a lane with this root.
    pub fn new(kind: &str, options: &str) -> Self {
        Self::on(Env::default(), kind, options)
    }

    /// Makes a lane with this root, on this device.
    pub fn on(env: Env, kind: &str, options: &str) -> Self {
        let config = PathConfig { env, pool: 200_000, role: Role::Forwarder, bql: None, trace: 0 };
        let words: Vec<&str> = options.split_whitespace().collect();
        let path = TxPath::new(config).expect("no byte limit");
        let path = path.with_qdisc(kind, &words).unwrap_or_else(|e| panic!("{kind} {options}: {e}"));
        Self { path, dev: VecDevice::with_slots(u32::MAX), dropped: 0 }
    }

    /// Queues a packet, never directly.
    pub fn put(&mut self, now: Instant, id: u32, m: Meta) -> Admitted<u32> {
        self.put_with(now, id, m, &Detail::default())
    }

    /// As `put`, with details beside the packet's metadata.
    pub fn put_with(&mut self, now: Instant, id: u32, m: Meta, detail: &Detail) -> Admitted<u32> {
        self.path.tx_mut().freeze();
        let answer = self.path.submit_with(now, id, m, Some(detail), &mut self.dev);
        self.path.tx_mut().thaw();
        answer
    }

    /// Queues `n` packets with numbers from `id`.
    pub fn fill(&mut self, now: Instant, id: u32, n: u32, m: Meta) {
        for i in id..id + n {
            assert_eq!(self.put(now, i, m), Admitted::Queued, "packet {i}");
        }
    }

    /// Takes the next packet.
    pub fn take(&mut self, now: Instant) -> Out {
        let before = self.dev.sent().len();
        let wake = self.path.drain(now, 1, &mut self.dev);
        match (self.dev.sent().get(before), wake) {
            (Some(id), _) => Out::Sent(*id, self.dev.metas()[before]),
            (None, Wake::At(t, _)) => Out::Wait(t),
            (None, _) => Out::Nothing,
        }
    }

    /// Returns the numbers of the next `n` packets, or of as many as there are.
    pub fn ids(&mut self, now: Instant, n: usize) -> Vec<u32> {
        (0..n).map_while(|_| self.take(now).id()).collect()
    }

    /// Returns the packets dropped since the last call.
    pub fn drops(&mut self) -> Vec<(u32, DropReason)> {
        let new = self.dev.discarded()[self.dropped..].to_vec();
        self.dropped += new.len();
        new
    }

    /// Returns the number of waiting packets.
    pub fn backlog(&self) -> u64 {
        self.path.backlog().packets
    }

    /// Changes the qdisc at `parent`.
    pub fn change(&mut self, now: Instant, parent: Handle, options: &str) -> Result<(), ConfigError> {
        let words: Vec<&str> = options.split_whitespace().collect();
        self.path.configure(now, &mut self.dev, |tree, cx| {
            tree.edit(cx).change(parent, None, &mut Words::new(&words))
        })
    }

    /// Grafts a kind at `parent` and returns its handle.
    pub fn graft(&mut self, now: Instant, parent: Handle, kind: &str, options: &str) -> Handle {
        let words: Vec<&str> = options.split_whitespace().collect();
        self.path
            .configure(now, &mut self.dev, |tree, cx| {
                tree.edit(cx).replace(parent, None, kind, &mut Words::new(&words))
            })
            .unwrap_or_else(|e| panic!("{kind} {options}: {e}"))
    }

    /// Returns the root.
    pub fn root(&self) -> &Node {
        self.path.tree().root()
    }

    /// Returns a counter of the root.
    pub fn counter(&self, key: &str) -> u64 {
        let mut value = None;
        self.root().qdisc().counters(&mut |c: &'static Counter, n| {
            if c.key == key {
                value = Some(n);
            }
        });
        value.unwrap_or_else(|| panic!("no counter {key}"))
    }

    /// Returns a counter of a part of the root.
    pub fn part(&self, part: &str, key: &str) -> u64 {
        let mut value = None;
        self.root().qdisc().parts(&mut |name, c, n| {
            if (name, c.key) == (part, key) {
                value = Some(n);
            }
        });
        value.unwrap_or_else(|| panic!("no counter {key} of {part}"))
    }
}
