//! The world: a transmit path, its device, and an account of every frame. It runs operations and
//! checks every law after each of them.

use txweir_core::base::tally::Tally;
use txweir_core::packet::detail::{Detail, SACK_BLOCKS, TcpDetail};
use txweir_core::packet::headers::tcp_flag;
use txweir_core::path::dql::OBJECT_MAX;
use txweir_core::sched::answer::Verdict;
use txweir_core::sched::node::Node;
use txweir_core::{Admitted, DropReason, Env, Handle, Instant, Meta, Nanos, PathConfig, Role, TxPath, Wake};

use crate::check::{Called, Checker, View};
use crate::device::{Device, Fate, Frame};
use crate::known::{Known, Seen, Where};
use crate::ops::Op;
use crate::options::classes_of;
use crate::setup::{Setup, Totals};
use crate::{Law, Violation};

/// The end of the clock: see [`Instant`]. A wait until then or later does not end in a run.
pub const END: Instant = Instant(1 << 62);

/// The calls that accompany a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No further call.
    #[default]
    Free,
    /// A drain after each submission.
    Direct,
    /// Frozen during each submission, with a drain afterwards: no packet is dispatched directly.
    Queued,
}

/// A transmit path under test.
#[derive(Debug)]
pub struct World {
    pub path: TxPath<Frame>,
    pub dev: Device,
    pub now: Instant,
    pub env: Env,
    pub role: Role,
    pub kind: &'static str,
    pub mode: Mode,
    pub frames: Vec<Known>,
    pub seen: Vec<Seen>,
    /// Answers of submit and drain, for the comparison of runs. They tell the fate of a packet and
    /// not its way.
    pub answers: Vec<String>,
    pub totals: Totals,
    pub checker: Checker,
    /// Waiting packets, by the frames' fates.
    pub waiting: Tally,
    logged: usize,
    ops: usize,
}

impl World {
    /// Makes a world with this root qdisc.
    pub fn new(setup: &Setup, root: Node) -> Result<Self, Violation> {
        let trace = 16;
        let config = PathConfig { env: setup.env, pool: setup.pool, role: setup.role, bql: setup.bql, trace };
        let mut world = Self {
            path: TxPath::new(config).expect("the byte limit's configuration is legal"),
            dev: Device::new(setup.slots),
            now: setup.start,
            env: setup.env,
            role: setup.role,
            kind: setup.kind,
            mode: Mode::Free,
            frames: Vec::new(),
            seen: Vec::new(),
            answers: Vec::new(),
            totals: Totals::default(),
            checker: Checker::default(),
            waiting: Tally::default(),
            logged: 0,
            ops: 0,
        };
        world.path.configure(world.now, &mut world.dev, |tree, cx| tree.set_root(root, cx));
        world.configured()?;
        for op in &setup.nest {
            world.run(op)?;
        }
        Ok(world)
    }

    /// Returns a violation at the present operation.
    pub fn fail<T>(&self, law: Law, what: impl Into<String>) -> Result<T, Violation> {
        Err(Violation { law, what: what.into(), op: self.ops })
    }

    /// Runs operations, and stops at the first violation.
    pub fn run_all(&mut self, ops: &[Op]) -> Result<(), Violation> {
        ops.iter().try_for_each(|op| self.run(op))
    }

    /// Runs one operation.
    pub fn run(&mut self, op: &Op) -> Result<(), Violation> {
        match *op {
            Op::Submit { meta, class, burst } => {
                let mut meta = meta;
                meta.class = self.class(class);
                if let Some(class) = self.class_of_root(class) {
                    meta.priority = class.0;
                }
                for _ in 0..burst {
                    self.submit(meta)?;
                }
            }
            Op::Drain(budget) => self.drain(budget)?,
            Op::Step(ns) => self.now = later(self.now, ns),
            Op::Follow(times) => self.follow(times)?,
            Op::Early(part) => self.early(part)?,
            Op::Slots(n) => self.dev.slots = n,
            Op::Finish(n) => self.dev.finish(n as usize),
            Op::Reap => self.reap()?,
            Op::TakeWake => self.take_wake()?,
            Op::Freeze(freeze) => {
                if freeze {
                    self.path.tx_mut().freeze();
                } else {
                    self.path.tx_mut().thaw();
                }
            }
            Op::Queue { queue, stop } => {
                // The packets that may leave now have changed.
                self.checker.input();
                self.totals.queues_stopped += u64::from(stop);
                match stop {
                    true => self.path.stopped_queues().insert(queue),
                    false => self.path.stopped_queues().remove(queue),
                }
            }
            Op::DeviceReset => {
                self.dev.reset();
                self.path.tx_mut().device_reset(self.now);
            }
            Op::Bounds { min, max } => {
                self.path.tx_mut().limit_mut().map(|d| d.set_bounds(min, max));
            }
            Op::Purge => self.purge()?,
            Op::Swap { seed } => self.swap(seed)?,
            Op::Change { .. }
            | Op::Illegal { .. }
            | Op::Replace { .. }
            | Op::Graft { .. }
            | Op::Stab { .. }
            | Op::Class { .. }
            | Op::Delete { .. } => self.reconfigure(op)?,
        }
        self.checked(Called::Other)?;
        self.ops += 1;
        self.totals.ops += 1;
        Ok(())
    }

    /// Submits one packet.
    pub fn submit(&mut self, meta: Meta) -> Result<(), Violation> {
        self.checker.input();
        self.checker.stamped |= meta.txtime != Instant::ZERO;
        let id = self.frames.len() as u32;
        // A packet with a launch time waits for it, and packets without overtake it.
        let stamped = u32::from(meta.txtime != Instant::ZERO);
        let control = meta.tcp_control.then_some(2 * self.checker.controls + stamped);
        let flow = (meta.hash, meta.priority, meta.class, control);
        let (epoch, wire_len) = (self.checker.epoch, meta.wire_len);
        let turn = u64::from(id) << 32;
        self.frames.push(Known { flow, epoch, turn, wire_len, at: Where::Offered });
        let room = self.path.cx().pool.live() < self.path.cx().pool.capacity();
        let mut offered = meta;
        offered.enqueued = self.now;
        let welcome =
            wire_len <= OBJECT_MAX && room && self.path.tree().would_accept(&offered) == Verdict::Accept;
        let was_empty = self.path.backlog().packets == 0;
        if self.mode == Mode::Queued {
            self.path.tx_mut().freeze();
        }
        let detail = self.path.wants_detail().then(|| detail(id, &meta));
        let answer = self.path.submit_with(self.now, Frame(id), meta, detail.as_ref(), &mut self.dev);
        let since = self.logged;
        self.account()?;
        let at = self.frames[id as usize].at;
        let (expected, text) = match &answer {
            Admitted::Sent => (Where::Sent, "taken".to_string()),
            Admitted::Queued => (Where::Offered, "taken".to_string()),
            Admitted::Dropped(reason) => (Where::Discarded, format!("dropped: {reason}")),
            Admitted::Full(_) => (Where::Offered, "full".to_string()),
            Admitted::Cut(_, max) => (Where::Offered, format!("cut to {max}")),
        };
        if at != expected {
            return self.fail(Law::Conservation, format!("frame {id} is {at:?}, the answer was {answer:?}"));
        }
        if let Admitted::Dropped(reason) = answer
            && !self.dev.log[since..].iter().any(|(i, f, _)| (*i, *f) == (id, Fate::Discarded(reason)))
        {
            return self
                .fail(Law::Conservation, format!("frame {id}: {reason} was not the discard's reason"));
        }
        // An AQM may drop on arrival, but the sender must be told about a lack of room.
        let crowded_out = |fate: Fate| matches!(fate, Fate::Discarded(reason) if for_room(reason));
        let victims = self.dev.log[since..].iter().filter(|(_, fate, _)| crowded_out(*fate)).count();
        if welcome && (victims > 0 || matches!(answer, Admitted::Full(_) | Admitted::Cut(..))) {
            let what = format!("frame {id} was to be accepted, but {answer:?} and {victims} drops");
            return self.fail(Law::Bounds, what);
        }
        self.admitted(id, answer, meta, was_empty)?;
        self.answers.push(text);
        self.checked(Called::Submit)?;
        if self.mode == Mode::Queued {
            self.path.tx_mut().thaw();
        }
        if self.mode != Mode::Free {
            self.drain(u32::MAX)?;
        }
        Ok(())
    }

    /// Checks the promises of an answer to a submission.
    fn admitted(
        &mut self,
        id: u32,
        answer: Admitted<Frame>,
        meta: Meta,
        was_empty: bool,
    ) -> Result<(), Violation> {
        let known = &mut self.frames[id as usize];
        match answer {
            Admitted::Sent => self.totals.direct += 1,
            Admitted::Queued => {
                known.at = Where::Waiting;
                self.waiting.add(meta.wire_len);
            }
            Admitted::Full(frame) => {
                known.at = Where::Returned;
                self.totals.full += 1;
                self.checker.told_full();
                if frame.0 != id || self.role != Role::Origin {
                    return self
                        .fail(Law::Conservation, format!("frame {id}: Full({frame:?}) to {:?}", self.role));
                }
                if was_empty {
                    return self.fail(
                        Law::Liveness,
                        format!("frame {id}: Full, and no packet waits that could leave"),
                    );
                }
            }
            Admitted::Cut(frame, max) => {
                known.at = Where::Returned;
                self.totals.cut += 1;
                if frame.0 != id || meta.segs < 2 || meta.segment_len() > max {
                    return self.fail(Law::Liveness, format!("frame {id}: cannot be cut to {max}: {meta:?}"));
                }
            }
            Admitted::Dropped(reason) => {
                if self.role == Role::Origin && for_room(reason) && !was_empty {
                    return self
                        .fail(Law::Liveness, format!("frame {id}: dropped ({reason}) instead of Full"));
                }
            }
        }
        Ok(())
    }

    /// Drains, and checks the promises of the answer.
    pub fn drain(&mut self, budget: u32) -> Result<(), Violation> {
        self.ask(budget).map(|_| ())
    }

    /// Drains, checks, and returns the answer.
    pub fn ask(&mut self, budget: u32) -> Result<Wake, Violation> {
        let since = self.logged;
        self.dev.last_promise = None;
        let frozen = self.path.tx().stops().has(txweir_core::path::txpath::Stops::FROZEN);
        let wake = self.path.drain(self.now, budget, &mut self.dev);
        self.account()?;
        let new = &self.dev.log[since..];
        let sent = new.iter().filter(|(_, fate, _)| *fate == Fate::Sent).count();
        let dropped = new.len() - sent;
        match wake {
            Wake::At(..) => self.totals.at += 1,
            Wake::Device => self.totals.device += 1,
            Wake::More => self.totals.more += 1,
            Wake::Idle => {}
        }
        self.answers.push(format!("{wake:?}"));
        self.checked(Called::Drain { budget, frozen, wake, sent: sent as u32, dropped: dropped as u32 })?;
        Ok(wake)
    }

    /// Drains at the instants that wakes name.
    fn follow(&mut self, times: u32) -> Result<(), Violation> {
        for _ in 0..times {
            let Some(t) = self.checker.promised().filter(|t| *t < END) else { return Ok(()) };
            self.now = self.now.max(t);
            self.totals.followed += 1;
            self.drain(u32::MAX)?;
        }
        Ok(())
    }

    /// Drains before the instant that the last wake named.
    fn early(&mut self, part: u32) -> Result<(), Violation> {
        let Some(t) = self.checker.promised().filter(|t| *t > self.now && *t < END) else { return Ok(()) };
        self.now += Nanos((t.0 - self.now.0) / 256 * u64::from(part));
        self.totals.early += 1;
        self.drain(u32::MAX)
    }

    /// Takes completions.
    pub fn reap(&mut self) -> Result<(), Violation> {
        let mut done = Vec::new();
        let n = self.path.reap(self.now, &mut self.dev, |f| done.push(f.0));
        if n as usize != done.len() {
            return self.fail(Law::Conservation, format!("reap says {n} and gave {} frames", done.len()));
        }
        match done.iter().find(|id| self.frames[**id as usize].at != Where::Sent) {
            None => self.checked(Called::Other),
            Some(id) => self.fail(Law::Conservation, format!("frame {id} came back and was not sent")),
        }
    }

    fn take_wake(&mut self) -> Result<(), Violation> {
        let (must, may) = self.checker.wakes();
        let woken = self.path.take_wake();
        if woken {
            self.totals.woken += 1;
            self.checker.woken();
        }
        if must && !woken || woken && !may {
            return self.fail(Law::Liveness, format!("take_wake is {woken}, room was made: {must}"));
        }
        Ok(())
    }

    fn purge(&mut self) -> Result<(), Violation> {
        self.path.configure(self.now, &mut self.dev, |tree, cx| tree.root_mut().purge(cx));
        self.account()?;
        self.checker.input();
        self.totals.purged += 1;
        let mut left = 0;
        self.path
            .tree()
            .visit(&mut |_, node| left += node.books().queued.packets + node.books().queued.bytes);
        let live = self.path.cx().pool.live();
        if left > 0 || live > 0 {
            return self
                .fail(Law::Reset, format!("after a purge {left} packets or bytes are queued, {live} live"));
        }
        Ok(())
    }

    /// Returns a class that exists, or none.
    fn class(&self, n: u32) -> Handle {
        let places = self.checker.places();
        match n % 3 {
            0 if places.len() > 1 => places[1 + (n / 3) as usize % (places.len() - 1)],
            _ => Handle::NONE,
        }
    }

    /// Returns a class of the root qdisc, if commands make them: most packets must find one, or the
    /// run would show little.
    fn class_of_root(&self, n: u32) -> Option<Handle> {
        let root = self.path.tree().root();
        root.qdisc().spec().classes.filter(|c| c.made && !n.is_multiple_of(4))?;
        let there = classes_of(root.qdisc());
        let (at, _) = there.get((n / 4) as usize % there.len().max(1))?;
        Some(Handle::new(root.handle().major(), at.minor))
    }

    /// Books the events at the device since the last call.
    pub fn account(&mut self) -> Result<(), Violation> {
        while let Some(&(id, fate, m)) = self.dev.log.get(self.logged) {
            self.logged += 1;
            let known = &mut self.frames[id as usize];
            if !matches!(known.at, Where::Waiting | Where::Offered) {
                let at = known.at;
                return self.fail(Law::Conservation, format!("frame {id}, which is {at:?}, was {fate:?}"));
            }
            if known.at == Where::Waiting {
                self.checker.left_the_qdiscs = true;
                self.waiting.packets -= 1;
                self.waiting.bytes -= u64::from(known.wire_len);
            }
            known.at = if fate == Fate::Sent { Where::Sent } else { Where::Discarded };
            let look = (m.wire_len, m.ecn as u8, m.marked);
            if m.wire_len != known.wire_len {
                return self.fail(Law::Conservation, format!("frame {id} has changed its length"));
            }
            self.seen.push(Seen { at: self.now, id, fate, look });
            match fate {
                Fate::Sent => {
                    self.totals.sent += 1;
                    self.totals.marked += u64::from(m.marked);
                }
                Fate::Discarded(reason) => self.totals.dropped[reason as usize] += 1,
            }
        }
        Ok(())
    }

    pub fn checked(&mut self, called: Called) -> Result<(), Violation> {
        let view = View {
            path: &self.path,
            dev: &self.dev,
            frames: &self.frames,
            seen: &self.seen,
            waiting: self.waiting,
            now: self.now,
        };
        match self.checker.check(&view, called) {
            Ok(()) => Ok(()),
            Err((law, what)) => self.fail(law, format!("{what} [{called:?}]")),
        }
    }
}

/// True if a drop was for lack of room, so that a sender could have waited instead.
fn for_room(reason: DropReason) -> bool {
    use DropReason::{FlowLimit, FlowOverlimit, HeadDrop, Overlimit, Overmemory, PoolFull};
    matches!(reason, Overlimit | HeadDrop | FlowOverlimit | FlowLimit | Overmemory | PoolFull)
}

/// Returns a time later by `ns`, but not beyond the end of the clock.
fn later(now: Instant, ns: u64) -> Instant {
    (now + Nanos(ns)).min(END).max(now)
}

/// Returns the details that a packet's bytes would give: a few hosts, and rarely an
/// acknowledgement.
fn detail(id: u32, meta: &Meta) -> Detail {
    let mut detail = Detail { src_host: meta.hash % 5, dst_host: meta.hash % 7, ..Detail::default() };
    let tcp = TcpDetail {
        addresses: [[0; 16]; 2],
        ports: [meta.hash as u16, 80],
        ack: id,
        stamps: None,
        sack: [[0; 2]; SACK_BLOCKS],
        sacks: 0,
        flags: tcp_flag::ACK,
        reserved: false,
        data: meta.len > 200,
        plain: true,
    };
    detail.tcp = (meta.segs == 1 && meta.hash.is_multiple_of(2)).then_some(tcp);
    detail
}
