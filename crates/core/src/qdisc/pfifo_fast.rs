//! pfifo_fast: three FIFO bands, the lowest non-empty one first; the default of a network device.
//!
//! The low four bits of a packet's priority choose its band (tc-pfifo_fast(8)). Each band has its
//! own limit, the device's transmit queue length, so the whole holds three times as much. O(1) per
//! packet.
//!
//! - I1: no band holds more than the transmit queue length.
//! - I2: a packet leaves band b only when every band below b is empty. Band 0 can starve the
//!   others.
//! - I3: order within a band is order of arrival.
//! - Differs from Linux (PARITY.md: single-queue, pfifo-fast-batch): a path, which is one queue,
//!   starts with it; there is no mq; the place of a packet that has left is free at once.

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::Erased;
use crate::sched::spec::{Capacity, Flags, RefusedBy, Refuser, Unset};
use crate::text::error::{ConfigError, ErrorKind};

/// Band of each priority 0..15 (tc-pfifo_fast(8), the table at "priomap"): interactive first, bulk
/// last.
pub const PRIOMAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

crate::params! {
    /// pfifo_fast has no parameters: its limit is the device's transmit queue length.
    pub struct NoParams(env) {}
}

/// Three bands in strict order.
#[derive(Debug)]
pub(crate) struct PfifoFast {
    bands: [Queue; 3],
    limit: u32,
}

/// Returns the qdisc that a device starts with.
pub(crate) fn default_root(env: &Env) -> Erased<PfifoFast> {
    Erased::plain(NoParams {}, env)
}

impl Discipline for PfifoFast {
    const KIND: &'static str = "pfifo_fast";
    const ABOUT: &'static str = "Three FIFO bands by priority, lowest first; the default.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const QUIET: bool = true;
    const CAPACITY: Capacity = Capacity { keys: &[], unset: Unset::Queues(3) };
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::UnknownKey, _) => Some(Refuser::Usage),
        _ => None,
    };
    type Config = NoParams;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut NoParams, _old: Option<&NoParams>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(_cfg: &NoParams, (): (), env: &Env) -> Self {
        Self { bands: Default::default(), limit: env.tx_queue_len }
    }
    fn change(&mut self, _cfg: &NoParams, (): (), env: &Env, _cx: &mut Cx) {
        self.limit = env.tx_queue_len;
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.bands[band(m)].packets() < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        let band = &mut self.bands[band(pool.meta(&p))];
        if band.packets() >= self.limit {
            return Some(p);
        }
        band.push_back(pool, p);
        None
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if let Some(p) = self.enqueue_quietly(p, class, &mut cx.pool) {
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.bands.iter_mut().find_map(|b| b.pop_front(&cx.pool)).map_or(Next::Empty, Next::Packet)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.bands.iter().find_map(|b| b.first(pool))
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for band in &mut self.bands {
            band.evict_all(out, pool);
        }
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.bands.iter().flat_map(|b| b.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn transparent(&self, _wire_len: u32) -> bool {
        self.limit > 0
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

fn band(m: &Meta) -> usize {
    usize::from(PRIOMAP[(m.priority & 15) as usize])
}
