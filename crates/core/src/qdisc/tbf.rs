//! tbf: a token bucket, optionally with a second one for the peak rate, over one child qdisc
//! (tc-tbf(8)).
//!
//! Tokens are nanoseconds of transmission: a packet may leave when both buckets hold the time that
//! it takes at their rates. There is no look past the head for a smaller packet. O(1) per packet.
//! With `shared NAME` several queues, on several threads, have one bucket ([`crate::law::lease`]);
//! [`crate::path::rates`] knows the queues that have joined it.
//!
//! - I1: over any interval, bytes sent <= burst + rate x time (and <= mtu + peakrate x time).
//! - I2: tokens are only charged for a packet that leaves.
//! - I3: after `At(t)`, the packet at the head conforms at t exactly: no packet above `max_size` is
//!   let in, and one that a change made too large is dropped when it comes to the head, so a full
//!   bucket is always enough.
//! - Differs from Linux (PARITY.md: class-only, own-timers, tbf-gso-cut, tbf-shrunk-bucket,
//!   tbf-deleted-child, tbf-own-child, tbf-shared): a packet that could never leave is cut before
//!   it is admitted, or dropped; the child's limit is this qdisc's only while the child is its own.

use alloc::format;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::link::LinkLayer;
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Rate, RateMul};
use crate::law::bucket::{Sizing, cost, to_i64};
use crate::law::lease::Lease;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::{Bfifo, ByteLimit, NoStats};
use crate::qdisc::leaf;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, Shares};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::{Class, Node, Peek};
use crate::sched::share::{Joined, Share, Wanted};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::Name;

crate::params! {
    /// Parameters of tbf.
    pub struct Config(env)
        once ["rate", "burst", "limit", "latency", "peakrate", "mtu", "mpu", "overhead"]
        cut ["limit", "latency", "burst", "peakrate", "overhead", "linklayer"]
        own ["shared"]
    {
        /// Long-term rate. Must be given.
        rate: Rate = Rate(0), keys ["rate"], "at least 8bit": |r| r.0 > 0;
        /// Size of the bucket: the largest burst. Must be given.
        burst: Bytes = Bytes(0), sizes ["burst", "buffer", "maxburst"], "1 to 4294967295 bytes": in_u32;
        /// Most bytes that wait. Either this or `latency` must be given.
        limit: Option<Bytes> = None, keys ["limit"], "1 to 4294967295 bytes": |l| l.as_ref().is_none_or(in_u32);
        /// Longest time that a packet waits: another form of `limit`.
        latency: Option<Nanos> = None, keys ["latency"];
        /// Rate that is never exceeded, not even by a burst; above `rate`.
        peakrate: Option<Rate> = None, keys ["peakrate"];
        /// Size of the peak rate's bucket: at least one full frame. Must be given with `peakrate`.
        mtu: Option<Bytes> = None, sizes ["mtu", "minburst"], "1 to 4294967295 bytes": |l| l.as_ref().is_none_or(in_u32);
        /// Smallest size that a packet is charged, after the overhead.
        mpu: u32 = 0, keys ["mpu"];
        /// Bytes added to each packet before charging.
        overhead: u32 = 0, keys ["overhead"];
        /// Framing of the link: whole packets, or (`atm`, `adsl`) cells of 53 bytes that carry 48.
        linklayer: LinkLayer = LinkLayer::Ethernet, keys ["linklayer"];
        /// Name of a rate that qdiscs of several queues share: rate and burst are then those of all
        /// of them together.
        shared: Option<Name> = None, keys ["shared"];
    }
}

fn in_u32(b: &Bytes) -> bool {
    (1..=u64::from(u32::MAX)).contains(&b.0)
}

/// A shaper.
#[derive(Debug)]
pub struct Tbf {
    inner: [Class; 1],
    charge: Charge,
    /// Depth of the bucket, ns at `rate`.
    depth: i64,
    /// Depth of the peak bucket, ns at `peakrate`.
    peak_depth: i64,
    tokens: i64,
    peak_tokens: i64,
    /// Time at which the buckets held `tokens` and `peak_tokens`.
    filled: Instant,
    max_size: u32,
    /// Rate and peak rate (0 without one) as given, for a change that keeps the tokens.
    rates: (Rate, Rate),
    shared: Option<Joined>,
    /// Limit of the FIFO that the class has until a qdisc is grafted.
    limit: ByteLimit,
}

/// Returns the rate that `cfg` asks to share, in place of an own bucket for `rate`.
fn wanted(cfg: &Config) -> Option<Wanted> {
    let burst = Bytes(Charge::of(cfg).sizing.size(u32::try_from(cfg.burst.0).unwrap_or(u32::MAX)));
    Some(Wanted { name: cfg.shared.clone()?, rate: cfg.rate, burst })
}

/// The cost of a packet in each bucket.
#[derive(Debug)]
struct Charge {
    rate: RateMul,
    peak: Option<RateMul>,
    sizing: Sizing,
}

impl Charge {
    fn of(cfg: &Config) -> Self {
        Self {
            rate: RateMul::new(cfg.rate),
            peak: cfg.peakrate.map(RateMul::new),
            sizing: Sizing { overhead: cfg.overhead, mpu: cfg.mpu, layer: cfg.linklayer },
        }
    }
    /// Returns the cost in nanoseconds at `rate` and at `peakrate` (0 without one).
    fn ns(&self, len: u32) -> (i64, i64) {
        let size = self.sizing.size(len);
        (cost(self.rate, size), self.peak.map_or(0, |p| cost(p, size)))
    }
}

fn rates(cfg: &Config) -> (Rate, Rate) {
    (cfg.rate, cfg.peakrate.unwrap_or_default())
}

/// Returns tokens at `new` worth as many bytes as these are at `old`.
fn at_rate(tokens: i64, old: Rate, new: Rate) -> i64 {
    let scaled = i128::from(tokens) * i128::from(old.0) / i128::from(new.0.max(1));
    i64::try_from(scaled).unwrap_or(i64::MAX)
}

impl Discipline for Tbf {
    const KIND: &'static str = "tbf";
    const ABOUT: &'static str = "Token bucket: a rate, a burst, and optionally a peak rate.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::One;
    const STYLE: Style = Style::BLANK;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    // tc reads sizes as 32 bits, and asks for one of limit and latency.
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, _) | (ErrorKind::Conflict, None) => Some(Refuser::Tool),
        _ => None,
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    const SHARES: Option<Capability<Self, dyn Shares>> = crate::capability!();
    const WANTS: fn(&Config) -> Option<Wanted> = wanted;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        let missing = |key: &str, expected: &str| {
            Err(ConfigError::new(ErrorKind::Missing, Object::Kind(Self::KIND), expected, "").key(key))
        };
        if cfg.rate.0 == 0 {
            return missing("rate", "a rate");
        }
        if cfg.burst.0 == 0 {
            return missing("burst", "a size (at least one frame, and rate/250 for a 4 ms timer)");
        }
        if let Some(peak) = cfg.peakrate {
            if cfg.mtu.is_none() {
                return missing("mtu", "a size of at least one frame, because peakrate is given");
            }
            if peak <= cfg.rate {
                let expected = format!("more than rate, {} bit/s", cfg.rate.bits());
                let given = format!("{} bit/s", peak.bits());
                return Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, given)
                    .key("peakrate"));
            }
        }
        cfg.limit = match (cfg.limit, cfg.latency.take().filter(|latency| latency.0 > 0)) {
            (Some(_), Some(_)) => {
                let expected = "either limit or latency";
                return Err(ConfigError::new(
                    ErrorKind::Conflict,
                    Object::Kind(Self::KIND),
                    expected,
                    "both",
                ));
            }
            (None, None) => return missing("limit", "either limit or latency"),
            (limit, None) => limit,
            (None, Some(latency)) => Some(limit_for(cfg, latency)),
        };
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let mut tbf = Self {
            inner: [Class { minor: 1, node: leaf::plain::<Bfifo>(limit_of(cfg), env) }],
            charge: Charge::of(cfg),
            depth: 0,
            peak_depth: 0,
            tokens: 0,
            peak_tokens: 0,
            filled: Instant::ZERO,
            max_size: 0,
            rates: rates(cfg),
            shared: Joined::of(wanted(cfg)),
            limit: limit_of(cfg),
        };
        tbf.configure(cfg);
        tbf
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        let kept = cx.swapping().then(|| self.available(cx.now));
        let rates = core::mem::replace(&mut self.rates, rates(cfg));
        self.shared = Joined::change(self.shared.take(), wanted(cfg));
        self.configure(cfg);
        self.limit = limit_of(cfg);
        if let Some((tokens, peak_tokens)) = kept {
            // The bytes that could have left are kept, not the time that they would have taken.
            self.tokens = at_rate(tokens, rates.0, self.rates.0).min(self.depth);
            self.peak_tokens = match rates.1 {
                Rate(0) => self.peak_depth,
                old => at_rate(peak_tokens, old, self.rates.1).min(self.peak_depth),
            };
        }
        self.filled = cx.now;
        let inner = &mut self.inner[0].node;
        if inner.handle().is_none() {
            leaf::change_plain::<Bfifo>(inner, self.limit.clone(), env, cx);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        match m.wire_len > self.max_size {
            false => self.inner[0].node.would_accept(m),
            true if m.segs > 1 && m.segment_len() <= self.max_size => Verdict::Cut(self.max_size),
            true => Verdict::TooLarge(self.max_size),
        }
    }
    #[inline]
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        if cx.meta(&p).wire_len > self.max_size {
            cx.drop(p, DropReason::Oversize);
        } else {
            self.inner[0].node.enqueue(p, cx);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        // Each turn but the last takes a packet out.
        let mut bound = Bound::of(cx.pool.capacity() + 1);
        let len = loop {
            bound.turn();
            let inner = &mut self.inner[0].node;
            match inner.peek(cx) {
                Peek::Ready { wire_len, .. } if wire_len <= self.max_size => break wire_len,
                Peek::Ready { .. } => {}
                Peek::Empty => {
                    self.rest();
                    return Next::Empty;
                }
                Peek::At(t, why) => return Next::At(t, why),
            }
            // A change has made the bucket smaller than a queued packet: the packet could never
            // conform, and would hold up everything behind it.
            match inner.dequeue(cx) {
                Next::Packet(p) => cx.drop(p, DropReason::Oversize),
                other => return other,
            }
        };
        if self.shared.is_some() {
            return self.dequeue_shared(len, cx);
        }
        let (tokens, peak_tokens) = self.available(cx.now);
        let (cost, peak_cost) = self.charge.ns(len);
        let (tokens, peak_tokens) = (tokens - cost, peak_tokens - peak_cost);
        let lacking = tokens.min(peak_tokens);
        if lacking < 0 {
            cx.overlimit();
            let (t, why) = cx.wakes.earliest(cx.now + Nanos(lacking.unsigned_abs()), WakeReason::Tokens);
            return Next::At(t, why);
        }
        self.filled = cx.now;
        self.tokens = tokens;
        self.peak_tokens = peak_tokens;
        self.inner[0].node.dequeue(cx)
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, cx: &mut Cx) {
        if let Some(shared) = &mut self.shared {
            shared.lease.restart();
        }
        self.filled = cx.now;
        self.tokens = self.depth;
        self.peak_tokens = self.peak_depth;
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Shares for Tbf {
    fn shares(&self, f: &mut dyn FnMut(Share<'_>)) {
        self.shared(0).into_iter().for_each(f);
    }
    fn shared(&self, minor: u16) -> Option<Share<'_>> {
        self.shared.as_ref().filter(|_| minor == 0).map(Joined::shown)
    }
    fn share(&mut self, _minor: u16, lease: Lease) {
        if let Some(shared) = &mut self.shared {
            shared.lease = lease;
        }
    }
}

impl Classes for Tbf {
    fn classes(&self) -> &[Class] {
        &self.inner
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.inner
    }
    fn default_child(&self, env: &Env) -> Option<Node> {
        Some(leaf::plain::<Bfifo>(self.limit.clone(), env))
    }
}

/// Returns the limit of its own FIFO.
fn limit_of(cfg: &Config) -> ByteLimit {
    ByteLimit { limit: cfg.limit.unwrap_or_default() }
}

impl Tbf {
    /// Does the work of `dequeue` with a shared bucket, for a packet of `len` bytes at the head.
    fn dequeue_shared(&mut self, len: u32, cx: &mut Cx) -> Next {
        let (_, peak_tokens) = self.available(cx.now);
        let peak_tokens = peak_tokens - self.charge.ns(len).1;
        let size = self.charge.sizing.size(len);
        let Self { inner: [Class { node, .. }], shared: Some(shared), .. } = self else { return Next::Empty };
        // The peak rate comes first: it is this queue's own, and no other queue shall wait for
        // tokens that are held during a wait for it.
        let answer = match peak_tokens {
            0.. => shared.lease.ask(size, node.books().queued.bytes, cx.now),
            lacking => Err(cx.now + Nanos(lacking.unsigned_abs())),
        };
        if let Err(t) = answer {
            cx.overlimit();
            let (t, why) = cx.wakes.earliest(t, WakeReason::Tokens);
            return Next::At(t, why);
        }
        shared.lease.spend(size);
        let next = node.dequeue(cx);
        (self.filled, self.peak_tokens) = (cx.now, peak_tokens);
        if self.inner[0].node.is_empty() {
            self.rest();
        }
        next
    }

    /// Gives leased tokens back to the other queues: no packet waits here.
    fn rest(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.lease.rest();
        }
    }

    /// Returns the tokens of both buckets at `now` (0 in the second without a peak rate: nothing is
    /// charged there).
    #[inline]
    fn available(&self, now: Instant) -> (i64, i64) {
        let elapsed = to_i64(now.saturating_since(self.filled)).min(self.depth);
        let peak = match self.charge.peak {
            Some(_) => self.peak_tokens.saturating_add(elapsed).min(self.peak_depth),
            None => 0,
        };
        (self.tokens.saturating_add(elapsed).min(self.depth), peak)
    }

    /// Takes parameters and fills the buckets.
    fn configure(&mut self, cfg: &Config) {
        self.charge = Charge::of(cfg);
        // `resolve` has checked both sizes against 32 bits.
        let bytes = |b: Bytes| u32::try_from(b.0).unwrap_or(u32::MAX);
        let peak_size = cfg.mtu.filter(|_| cfg.peakrate.is_some()).map_or(u32::MAX, bytes);
        self.max_size = bytes(cfg.burst).min(peak_size);
        self.depth = self.charge.ns(bytes(cfg.burst)).0;
        self.peak_depth = self.charge.ns(peak_size).1;
        self.tokens = self.depth;
        self.peak_tokens = self.peak_depth;
    }
}

/// Returns the backlog that drains within `latency`: bucket plus rate times latency, or the same at
/// the peak rate if that is less.
fn limit_for(cfg: &Config, latency: Nanos) -> Bytes {
    let at = |rate: Rate, bucket: Bytes| rate.bytes_floor(latency).0.saturating_add(bucket.0);
    let limit = at(cfg.rate, cfg.burst);
    let limit = match (cfg.peakrate, cfg.mtu) {
        (Some(peak), Some(mtu)) => limit.min(at(peak, mtu)),
        _ => limit,
    };
    Bytes(limit.min(u64::from(u32::MAX)))
}
