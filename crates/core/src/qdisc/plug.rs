//! plug: a queue that lets nothing out until a command releases it, for the output of a virtual
//! machine that is copied to a standby: packets wait until the copy of the state that they show is
//! confirmed (Cully and others, "Remus: High Availability via Asynchronous Virtual Machine
//! Replication", NSDI 2008, section 3.4).
//!
//! Packets wait in epochs. `block` ends an epoch: later packets belong to the next one. `release`
//! lets the packets of the epoch that ended last leave, and no others. `release_indefinite` opens
//! the queue until the next `block`. O(1) per packet, no memory beyond the packets.
//!
//! - I1: a packet is taken if the queue and its own frame are not above `limit` bytes. The queue
//!   counts as charged: by a size table, and with the headers of all segments. So, as in Linux, the
//!   last packet may exceed the limit by the charge beside its frame.
//! - I2: order of arrival is order of departure.
//! - I3: while closed, as many packets leave as `release` has counted, and no packet that came
//!   after the `block` before it.
//! - I4: packets that are taken out and queued again belong to the present epoch.
//! - Differs from Linux (PARITY.md: plug-add, plug-shrink, plug-reset, plug-peek): a
//!   word beside `limit` has its effect on a new qdisc too, which keeps its default limit; a
//!   smaller limit is obeyed at once, by dropping the oldest; a reset forgets the epochs.

use core::fmt;

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::Instant;
use crate::base::units::Bytes;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::{ByteLimit, NoStats, trim};
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};
use crate::text::params::Group;
use crate::text::value::{Json, Refusal, Show, Words};

crate::params! {
    /// Parameters of plug.
    pub struct Config(env) {
        /// Most bytes that wait; the default is the transmit queue length in full frames.
        limit: Bytes = ByteLimit::defaults(env).limit, keys ["limit"], "at most 4294967295 bytes": |l| l.0 <= u64::from(u32::MAX);
        /// The step to take now: `block` ends an epoch, `release` lets the epoch that ended last
        /// leave, `release_indefinite` opens the queue until the next `block`. Only the last one is
        /// kept as a setting.
        action: Action = Action(None), group ([], ["block", "release", "release_indefinite"]);
    }
}

/// An operation on the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ends the present epoch, and closes the queue.
    Block,
    /// Lets the packets of the epoch that ended last leave.
    Release,
    /// Opens the queue.
    Open,
}

/// The words beside the limit: an operation, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(pub Option<Step>);

impl Action {
    const fn word(self) -> &'static str {
        match self.0 {
            None => "",
            Some(Step::Block) => "block",
            Some(Step::Release) => "release",
            Some(Step::Open) => "release_indefinite",
        }
    }
}

impl Show for Action {
    fn is_set(&self) -> bool {
        self.0.is_some()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(self.word())
    }
    fn json(&self) -> Json {
        Json::Text(self.word().into())
    }
}

impl Group for Action {
    const EXPECTED: &'static str = "block, release or release_indefinite";
    fn read(&mut self, key: &str, _words: &mut Words<'_>) -> Result<(), Refusal> {
        self.0 = Some(match key {
            "block" => Step::Block,
            "release" => Step::Release,
            _ => Step::Open,
        });
        Ok(())
    }
}

/// A queue with a plug.
#[derive(Debug)]
pub struct Plug {
    queue: Queue,
    limit: u64,
    open: bool,
    /// Packets of the present epoch, of the epoch that ended last, and those released that have not
    /// left; all 0 while open.
    present: u32,
    ended: u32,
    released: u32,
}

impl Discipline for Plug {
    const KIND: &'static str = "plug";
    const ABOUT: &'static str = "A queue that a command opens: packets wait for it in epochs.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const QUIET: bool = true;
    const STYLE: Style = Style::BLANK;
    // tc reads the limit as a number of 32 bits.
    const REFUSED_BY: RefusedBy = |err, _| (err.kind == ErrorKind::OutOfRange).then_some(Refuser::Tool);
    type Config = Config;
    type Rules = Option<Step>;
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<Option<Step>, ConfigError> {
        let step = cfg.action.0;
        let open = Action(Some(Step::Open));
        if step.is_none() && old.is_some_and(|old| old.action == open) {
            // The parameters as a whole are those of a closed queue.
            return Ok(Some(Step::Block));
        }
        // A queue that is released once more, or has begun one more epoch, has the same parameters.
        match step {
            Some(Step::Release) if old.is_some_and(|old| old.action == open) => cfg.action = open,
            Some(Step::Release | Step::Block) => cfg.action = Action(None),
            Some(Step::Open) | None => {}
        }
        Ok(step)
    }
    fn new(cfg: &Config, step: Option<Step>, _env: &Env) -> Self {
        let mut plug =
            Self { queue: Queue::new(), limit: cfg.limit.0, open: false, present: 0, ended: 0, released: 0 };
        plug.act(step);
        plug
    }
    fn change(&mut self, cfg: &Config, step: Option<Step>, _env: &Env, cx: &mut Cx) {
        // The queue may exceed a limit that stays by a charge (I1).
        if cfg.limit.0 < core::mem::replace(&mut self.limit, cfg.limit.0) {
            trim(&mut self.queue, cx, |q| q.bytes() > cfg.limit.0);
        }
        self.fit();
        self.act(step);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.fits(m.len) { Verdict::Accept } else { Verdict::Full }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        if !self.fits(pool.meta(&p).len) {
            return Some(p);
        }
        self.present += u32::from(!self.open);
        self.queue.push_back(pool, p);
        None
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if let Some(p) = self.enqueue_quietly(p, class, &mut cx.pool) {
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if self.queue.is_empty() {
            return Next::Empty;
        }
        if !self.open {
            let Some(rest) = self.released.checked_sub(1) else {
                return Next::At(Instant::MAX, WakeReason::Plugged);
            };
            self.released = rest;
        }
        self.queue.pop_front(&cx.pool).map_or(Next::Empty, Next::Packet)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        if self.open || self.released > 0 { self.queue.first(pool) } else { None }
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
        self.fit();
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.fit();
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.open && u64::from(wire_len) <= self.limit
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Plug {
    #[inline]
    const fn fits(&self, len: u32) -> bool {
        self.queue.bytes() + len as u64 <= self.limit
    }

    fn act(&mut self, step: Option<Step>) {
        match step {
            None => {}
            Some(Step::Block) => {
                self.ended = core::mem::take(&mut self.present);
                self.open = false;
            }
            Some(Step::Release) => self.released += core::mem::take(&mut self.ended),
            Some(Step::Open) => {
                (self.present, self.ended, self.released) = (0, 0, 0);
                self.open = true;
            }
        }
    }

    /// Takes packets that are not there any more off the counts, the oldest first.
    fn fit(&mut self) {
        let packets = self.queue.packets();
        self.present = self.present.min(packets);
        self.ended = self.ended.min(packets - self.present);
        self.released = self.released.min(packets - self.present - self.ended);
    }
}
