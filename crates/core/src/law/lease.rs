//! One rate for several transmit queues on several threads, without a lock: a token bucket in one
//! atomic word, from which each queue leases some sending time at once and spends it by itself.
//!
//! **The bucket** is a clock (the theoretical arrival time of ITU-T I.371's GCRA): the instant up
//! to which sending time has been given out. A full bucket's clock is one depth (the burst at the
//! rate) behind `now`. To take `want` nanoseconds is to raise the clock to `now - depth` if it is
//! below, and to add `want`: the queue then owns the time that ends at the new clock, and may spend
//! each nanosecond of it once that has come. Time in the future is *reserved*: the queue need not
//! ask before. Reservations come in the order of asking, so no queue starves. To give back is to
//! subtract. Each step is one atomic operation that cannot fail: no loop, no lock, no waiting for
//! another thread. The clock publishes no other data, so all its operations are relaxed: the
//! modification order that each atomic word has suffices.
//!
//! **A lease** is at most [`LEASE_NS`], at most [`LEASES_NS`] for all queues together, at most the
//! depth, at most the backlog of the queue; at least one packet. So a queue that has sent its
//! packets holds nothing, and one with a long backlog does one atomic operation for tens of
//! packets. A queue that turns out to be empty gives back the rest of its lease; time that could be
//! spent and was not within [`HOLD_NS`] goes back before more is taken. A queue that is alone sends
//! as it would with a bucket of its own, to the nanosecond.
//!
//! **Exactness.** The clock counts whole nanoseconds. A queue keeps its tokens in *nanobytes*: a
//! nanosecond at r bytes per second is worth exactly r of them, and a byte costs exactly 10^9. A
//! remainder of less than a nanosecond stays with the queue. So nothing is rounded, and in the long
//! run the rate is exact.
//!
//! **The bound.** Let N queues share the rate, and L be the longest lease or the costliest packet,
//! whichever is more. Over any window of length W without a change of the rate, all of them
//! together send
//!
//! - I1: at most rate x (W + N x L) + burst (which is rounded up to whole nanoseconds). Let c be
//!   the clock after the first raise in the window, which begins at s: c >= s - depth. From then on
//!   the clock moves by the time given out, less the time given back, and by raises. The last grant
//!   of which a part is spent in the window began at s + W at the latest, where the clock was then;
//!   so no more than W + depth was given out in between, net, and has come. The time spent was
//!   given out in the window, or was held or reserved when it began: at most L by each queue.
//! - I2: at least rate x (W - N x L), if one of them has packets throughout and asks at the time it
//!   was told, at most a depth late. Then the clock is never so far behind that a raise forgets
//!   time, and at most L per queue was given out and not spent.
//! - I3: a refused queue is told a time at most N x L ahead, and succeeds at that time.
//!
//! With at most [`LEASES_NS`] leased, N x L is a millisecond, whatever N, as long as N packets take
//! less: 1 % of 100 ms. Time that an idle queue does not take was never its own: the others use it
//! at once, or, if they had reserved behind it, when those reservations end, which is within N x L.
//!
//! **Change of the rate.** The clock knows no rate, so there is no pair of clock and rate that
//! could tear. Rate and depth are read together or not at all ([`SharedRate::set`]); a queue that
//! cannot read them at the moment goes on with the old ones. A queue that finds new ones gives back
//! all it has, and asks anew: until then it spends at most L at the old rate.
//!
//! **Cost.** A comparison and two subtractions for most packets; for a lease one or two atomic
//! operations and one division. **Memory.** 256 bytes for the rate (the clock has a pair of cache
//! lines of its own), 88 for a queue.
//!
//! `tests/loom_lease.rs` runs the same code through the interleavings that a weak memory allows;
//! [`Word`] is there for that.

use alloc::sync::Arc;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering;
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicI64;

use crate::base::bound::Bound;
use crate::base::time::Instant;
use crate::base::units::{Bytes, Rate};

/// Longest lease: at 10 Gbit/s about 80 full packets per atomic operation. Longer leases would only
/// lengthen bursts.
pub const LEASE_NS: i64 = 100_000;
/// Largest sum of the leases of all queues, beyond one packet each: 1 % of 100 ms.
pub const LEASES_NS: i64 = 1_000_000;
/// Time after which a queue gives back a lease that it could not spend.
pub const HOLD_NS: i64 = 1_000_000;
/// Largest debt: a queue that sends without credit does not keep the others waiting for longer.
const DEBT_NS: u64 = 1_000_000_000;

/// Cost of a byte, in nanobytes.
const BYTE: u64 = 1_000_000_000;
/// Higher rates (563 Tbit/s) count as this, so that a lease in nanobytes fits 63 bits.
const RATE_MAX: u64 = 1 << 46;
/// Largest single grant, 52 days: so a few hundred queues cannot overflow the clock, whatever their
/// packets cost.
const GRANT_MAX: i64 = 1 << 52;
/// Initial value of a clock: any time is later by more than any depth, so the bucket is full.
const LONG_AGO: i64 = i64::MIN / 2;

/// A word that threads share: [`AtomicI64`], or the substitute of a model checker.
pub trait Word {
    /// Returns a word with this value.
    fn new(value: i64) -> Self;
    /// See [`AtomicI64::load`].
    fn load(&self, order: Ordering) -> i64;
    /// See [`AtomicI64::store`].
    fn store(&self, value: i64, order: Ordering);
    /// See [`AtomicI64::fetch_add`].
    fn fetch_add(&self, value: i64, order: Ordering) -> i64;
    /// See [`AtomicI64::fetch_max`].
    fn fetch_max(&self, value: i64, order: Ordering) -> i64;
    /// See [`AtomicI64::compare_exchange`]; true if the value was exchanged.
    fn exchange(&self, old: i64, new: i64, order: Ordering) -> bool;
}

impl Word for AtomicI64 {
    fn new(value: i64) -> Self {
        Self::new(value)
    }
    #[inline]
    fn load(&self, order: Ordering) -> i64 {
        self.load(order)
    }
    fn store(&self, value: i64, order: Ordering) {
        self.store(value, order);
    }
    #[inline]
    fn fetch_add(&self, value: i64, order: Ordering) -> i64 {
        self.fetch_add(value, order)
    }
    #[inline]
    fn fetch_max(&self, value: i64, order: Ordering) -> i64 {
        self.fetch_max(value, order)
    }
    fn exchange(&self, old: i64, new: i64, order: Ordering) -> bool {
        self.compare_exchange(old, new, order, Ordering::Relaxed).is_ok()
    }
}

/// Two cache lines (processors fetch them in pairs) without other data.
#[derive(Debug)]
#[repr(align(128))]
struct Alone<W>(W);

/// A rate that queues share.
#[derive(Debug)]
pub struct SharedRate<W: Word = AtomicI64> {
    /// The instant, in ns, up to which sending time was given out. Written with every lease.
    clock: Alone<W>,
    /// Counts changes of `rate` and `depth`, by two; odd during a change. This field and those
    /// below are rarely written.
    version: W,
    /// Bytes per second.
    rate: W,
    /// The burst, in ns at the rate.
    depth: W,
    /// Number of queues that have joined.
    queues: W,
}

/// The numbers that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    version: i64,
    rate: u64,
    depth: i64,
}

impl SharedRate {
    /// Returns a rate, at least 1 byte/s, with a full bucket.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self::with(rate, burst)
    }
}

impl<W: Word> SharedRate<W> {
    /// Does the work of [`SharedRate::new`] for any kind of word.
    pub fn with(rate: Rate, burst: Bytes) -> Self {
        let (rate, depth) = Self::numbers(rate, burst);
        Self {
            clock: Alone(W::new(LONG_AGO)),
            version: W::new(0),
            rate: W::new(rate),
            depth: W::new(depth),
            queues: W::new(0),
        }
    }

    fn numbers(rate: Rate, burst: Bytes) -> (i64, i64) {
        let rate = rate.0.clamp(1, RATE_MAX);
        // The depth is rounded up, so that a packet as large as the burst fits a full bucket.
        let depth = (u128::from(burst.0) * u128::from(BYTE)).div_ceil(u128::from(rate));
        (rate as i64, i64::try_from(depth).unwrap_or(GRANT_MAX).min(GRANT_MAX))
    }

    /// Sets another rate and burst for all queues: each takes both, or goes on with both old ones
    /// until it looks again. False, and nothing is changed, while another thread runs this method.
    #[must_use]
    pub fn set(&self, rate: Rate, burst: Bytes) -> bool {
        let (rate, depth) = Self::numbers(rate, burst);
        let version = self.version.load(Ordering::Relaxed);
        // Acquire: the stores of the previous change come before these.
        if version & 1 == 1 || !self.version.exchange(version, version + 1, Ordering::Acquire) {
            return false;
        }
        // Release: a thread that reads one of these finds the version odd or later when it looks
        // again.
        self.rate.store(rate, Ordering::Release);
        self.depth.store(depth, Ordering::Release);
        // Release: a thread that reads this version finds these two values or later ones.
        self.version.store(version + 2, Ordering::Release);
        true
    }

    /// Returns the rate and the burst's time together; `None` during a change.
    fn shape(&self) -> Option<Shape> {
        // Acquire: see `set`. The last load cannot move before those of the values, which acquire
        // as well.
        let version = self.version.load(Ordering::Acquire);
        let rate = self.rate.load(Ordering::Acquire);
        let depth = self.depth.load(Ordering::Acquire);
        let whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        whole.then_some(Shape { version, rate: rate.unsigned_abs(), depth })
    }

    /// Returns the rate and the depth of the bucket, in ns at that rate; `None` while another
    /// thread changes them.
    pub fn rate(&self) -> Option<(Rate, i64)> {
        self.shape().map(|s| (Rate(s.rate), s.depth))
    }

    /// Returns the number of queues that have joined.
    pub fn queues(&self) -> u32 {
        // The number only sizes leases, so either of two neighbouring values is right.
        u32::try_from(self.queues.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the instant, in ns, up to which sending time was given out.
    pub fn clock(&self) -> i64 {
        self.clock.0.load(Ordering::Relaxed)
    }
}

/// A queue's part in a shared rate: the credit that it may spend without asking. A drop gives it
/// back.
#[derive(Debug)]
pub struct Lease<W: Word = AtomicI64> {
    shared: Arc<SharedRate<W>>,
    shape: Shape,
    /// Credit that may be spent, nanobytes.
    credit: u64,
    /// Time until which the credit is held, ns; later it goes back.
    until: i64,
    /// Reserved time that ends at `ready` and has not become credit, ns; 0 for none.
    reserved: i64,
    ready: i64,
    /// Nanobytes that were sent and not yet paid for.
    debt: u64,
    /// Longest lease with `queues` queues, nanobytes.
    longest: u64,
    queues: i64,
}

impl Lease {
    /// Returns the only lease of a new rate.
    pub fn alone(rate: Rate, burst: Bytes) -> Self {
        let (r, depth) = SharedRate::<AtomicI64>::numbers(rate, burst);
        let shape = Shape { version: 0, rate: r.unsigned_abs(), depth };
        Self::of(Arc::new(SharedRate::new(rate, burst)), shape)
    }
}

impl<W: Word> Lease<W> {
    /// Joins the queues that share a rate. `None` while another thread changes it.
    pub fn join(shared: Arc<SharedRate<W>>) -> Option<Self> {
        let shape = shared.shape()?;
        Some(Self::of(shared, shape))
    }

    fn of(shared: Arc<SharedRate<W>>, shape: Shape) -> Self {
        shared.queues.fetch_add(1, Ordering::Relaxed);
        let (until, longest) = (i64::MIN, 0);
        Self { shared, shape, credit: 0, until, reserved: 0, ready: 0, debt: 0, longest, queues: 0 }
    }

    /// Gives everything back, and fills the bucket if no other queue shares the rate.
    pub fn restart(&mut self) {
        self.give_back();
        (self.credit, self.debt) = (0, 0);
        if self.shared.queues() == 1 {
            // A queue that joins at this moment may find the bucket full once more: a burst at
            // most.
            self.shared.clock.0.store(LONG_AGO, Ordering::Relaxed);
        }
    }

    /// Returns the rate that the queue shares.
    pub const fn shared(&self) -> &Arc<SharedRate<W>> {
        &self.shared
    }

    /// Asks for permission to send a packet of `size` bytes now; spends nothing yet. `queued` is
    /// the backlog in bytes with this packet: no more is leased, but at least this packet.
    ///
    /// # Errors
    /// The time at which to ask again.
    #[inline]
    pub fn ask(&mut self, size: u64, queued: u64, now: Instant) -> Result<(), Instant> {
        let (cost, now) = (size.saturating_mul(BYTE), ns(now));
        match cost <= self.credit && now <= self.until {
            true => Ok(()),
            false => self.renew(cost, queued.saturating_mul(BYTE), now),
        }
    }

    /// Spends the credit for a packet that was allowed to leave.
    #[inline]
    pub const fn spend(&mut self, size: u64) {
        self.credit = self.credit.saturating_sub(size.saturating_mul(BYTE));
    }

    /// Charges a packet of `size` bytes that has already left, and returns `Ok` once it is paid for
    /// and the next may leave. The debt is limited to a second's worth. `queued` is the backlog
    /// behind it, in bytes.
    ///
    /// # Errors
    /// The time at which the debt is paid, or at which to call this again, with `size` 0.
    pub(crate) fn owe(&mut self, size: u64, queued: u64, now: Instant) -> Result<(), Instant> {
        let cost = size.saturating_mul(BYTE);
        let most = self.shape.rate.saturating_mul(DEBT_NS).min(1 << 62).max(cost);
        self.debt = self.debt.saturating_add(cost).min(most);
        let now = ns(now);
        if self.debt > self.credit || now > self.until {
            self.renew(self.debt, self.debt.saturating_add(queued.saturating_mul(BYTE)), now)?;
        }
        self.credit -= core::mem::take(&mut self.debt);
        Ok(())
    }

    /// Gives back the rest of the lease, because the queue is empty.
    #[inline]
    pub fn rest(&mut self) {
        if self.reserved > 0 || self.credit >= self.shape.rate {
            self.give_back();
        }
    }

    /// Does the work of `ask` when the credit does not suffice.
    #[inline(never)]
    fn renew(&mut self, cost: u64, queued: u64, now: i64) -> Result<(), Instant> {
        self.follow();
        if now > self.until {
            self.give_back();
        }
        // The turns are: the rest of a reservation; a reservation that brings enough; or, for
        // a cost beyond the deepest bucket, one of the bucket's depth, and one that is not ready.
        let mut bound = Bound::of(4);
        loop {
            bound.turn();
            let ready = (self.reserved - (self.ready - now).max(0)).max(0);
            self.reserved -= ready;
            // The sum is at most the aim of `take` and a nanosecond's worth, so 64 bits hold it.
            self.credit = self.credit.saturating_add(ready.unsigned_abs().saturating_mul(self.shape.rate));
            if self.credit >= cost {
                self.until = now.saturating_add(HOLD_NS);
                return Ok(());
            }
            if self.reserved > 0 {
                // A waiting queue keeps its credit: however late it asks again, it succeeds.
                self.until = i64::MAX;
                let begin = self.ready - self.reserved;
                return Err(at(begin + self.lacking(cost).min(self.reserved)));
            }
            let aim = cost.max(queued.min(self.longest));
            self.reserved = self.lacking(aim);
            self.ready = self.take(self.reserved, now);
        }
    }

    /// Returns the time that brings the credit up to `aim` nanobytes.
    fn lacking(&self, aim: u64) -> i64 {
        let ns = aim.saturating_sub(self.credit).div_ceil(self.shape.rate);
        i64::try_from(ns).unwrap_or(GRANT_MAX).min(GRANT_MAX)
    }

    /// Takes `want` ns off the bucket. Returns the instant at which the taken time ends.
    fn take(&self, want: i64, now: i64) -> i64 {
        let clock = &self.shared.clock.0;
        let full = now - self.shape.depth;
        // The clock is rarely below, and a load is cheaper than a write.
        if clock.load(Ordering::Relaxed) < full {
            clock.fetch_max(full, Ordering::Relaxed);
        }
        clock.fetch_add(want, Ordering::Relaxed).saturating_add(want)
    }

    /// Puts the whole nanoseconds of the lease back into the bucket.
    #[cold]
    fn give_back(&mut self) {
        let whole = self.credit / self.shape.rate;
        self.credit -= whole * self.shape.rate;
        let whole = i64::try_from(whole).unwrap_or(i64::MAX);
        let held = core::mem::take(&mut self.reserved).saturating_add(whole);
        if held > 0 {
            self.shared.clock.0.fetch_add(-held, Ordering::Relaxed);
        }
    }

    /// Takes over a new rate and the number of queues.
    fn follow(&mut self) {
        let mut changed = false;
        // `shape` has the acquire; a version read late is equivalent to one written late.
        if self.shared.version.load(Ordering::Relaxed) != self.shape.version
            && let Some(shape) = self.shared.shape()
        {
            self.give_back();
            // The rest is less than a nanosecond's worth at the old rate.
            self.credit = 0;
            self.shape = shape;
            changed = true;
        }
        let queues = self.shared.queues.load(Ordering::Relaxed);
        if changed || queues != self.queues {
            self.queues = queues;
            let longest = LEASE_NS.min(LEASES_NS / queues.max(1)).min(self.shape.depth);
            self.longest = longest.unsigned_abs().saturating_mul(self.shape.rate);
        }
    }
}

impl<W: Word> Clone for Lease<W> {
    /// Joins as one more queue, with no credit yet.
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.shared), self.shape)
    }
}

impl<W: Word> Drop for Lease<W> {
    fn drop(&mut self) {
        self.give_back();
        self.shared.queues.fetch_add(-1, Ordering::Relaxed);
    }
}

/// Returns a time as the clock counts it; late times are cut, so that sums do not overflow.
#[inline]
fn ns(t: Instant) -> i64 {
    i64::try_from(t.0).unwrap_or(i64::MAX).min(i64::MAX / 2)
}

fn at(ns: i64) -> Instant {
    Instant(ns.unsigned_abs())
}

#[cfg(target_pointer_width = "64")] // a 32-bit ABI may align 64-bit words to 4
const _: () = assert!(size_of::<SharedRate>() == 256 && size_of::<Lease>() == 88, "the header states these");

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a shared rate of 1 Gbit/s: a packet of 1250 bytes takes 10 us.
    fn gigabit(burst: u64) -> Arc<SharedRate> {
        Arc::new(SharedRate::new(Rate(125_000_000), Bytes(burst)))
    }
    fn lease(shared: &Arc<SharedRate>) -> Lease {
        Lease::join(Arc::clone(shared)).expect("no other thread changes the rate")
    }
    /// Sends packets of 1250 bytes at `now` until the lease refuses one.
    fn send(lease: &mut Lease, mut packets: u64, now: u64) -> (u64, Option<u64>) {
        let mut sent = 0;
        while packets > 0 {
            match lease.ask(1250, packets * 1250, Instant(now)) {
                Ok(()) => lease.spend(1250),
                Err(t) => return (sent, Some(t.0)),
            }
            (sent, packets) = (sent + 1, packets - 1);
        }
        lease.rest();
        (sent, None)
    }

    #[test]
    fn a_burst_then_the_rate() {
        let shared = gigabit(5 * 1250);
        let mut q = lease(&shared);
        // Leases are as long as the bucket is deep: 50 us. Each packet leaves when its part of one
        // has come.
        assert_eq!(send(&mut q, 100, 1_000_000), (5, Some(1_010_000)));
        assert_eq!(shared.clock(), 1_050_000);
        assert_eq!(send(&mut q, 95, 1_009_999), (0, Some(1_010_000)));
        assert_eq!(send(&mut q, 95, 1_010_000), (1, Some(1_020_000)));
        assert_eq!(send(&mut q, 94, 1_050_000), (4, Some(1_060_000)));
        // Late by less than the depth: nothing is lost.
        assert_eq!(send(&mut q, 90, 1_149_000), (9, Some(1_150_000)));
        // Only two packets wait, so no more is reserved.
        assert_eq!(send(&mut q, 3, 1_150_000), (1, Some(1_160_000)));
        assert_eq!((send(&mut q, 2, 1_170_000), shared.clock(), q.credit), ((2, None), 1_170_000, 0));
    }

    #[test]
    fn who_asks_first_is_served_first() {
        let shared = gigabit(10 * 1250);
        let mut queues = [lease(&shared), lease(&shared), lease(&shared)];
        assert_eq!(send(&mut queues[0], 11, 100_000), (10, Some(110_000)));
        assert_eq!(send(&mut queues[1], 20, 100_000), (0, Some(120_000)));
        assert_eq!(send(&mut queues[2], 2, 100_000), (0, Some(220_000)));
        assert_eq!(shared.clock(), 230_000);
        // The time that the second reserved and does not need moves the clock, not the third's
        // time.
        queues[1].rest();
        assert_eq!(shared.clock(), 130_000);
        assert_eq!(send(&mut queues[2], 2, 219_999), (0, Some(220_000)));
        assert_eq!(send(&mut queues[2], 2, 220_000), (1, Some(230_000)));
        assert_eq!(send(&mut queues[1], 10, 230_000), (10, None));
    }

    #[test]
    fn what_cannot_be_spent_goes_back() {
        let shared = gigabit(100 * 1250);
        let mut stopped = lease(&shared);
        // The device takes one of ten packets, and no more for 2 ms.
        assert_eq!(stopped.ask(1250, 12_500, Instant(1_000_000)), Ok(()));
        stopped.spend(1250);
        assert_eq!((shared.clock(), stopped.credit), (100_000, 9 * 1250 * BYTE));
        assert_eq!(stopped.ask(1250, 11_250, Instant(2_000_000)), Ok(()));
        assert_eq!(shared.clock(), 100_000);
        assert_eq!(stopped.ask(1250, 1250, Instant(3_000_000)), Ok(()));
        // 90 us came back, the bucket was full, and one packet was taken.
        assert_eq!((shared.clock(), stopped.credit), (2_010_000, 1250 * BYTE));
        drop(stopped);
        assert_eq!((shared.clock(), shared.queues()), (2_000_000, 0));
    }

    #[test]
    fn a_reservation_is_not_forgotten_by_who_comes_late() {
        let shared = gigabit(1250);
        let mut q = lease(&shared);
        assert_eq!(send(&mut q, 3, 0), (1, Some(10_000)));
        assert_eq!(send(&mut q, 2, 50_000_000), (2, None));
    }

    #[test]
    fn what_was_sent_first_is_paid_for() {
        let shared = gigabit(10 * 1250);
        let mut q = lease(&shared);
        // The last packet takes no more than itself. With more packets behind it, a whole lease is
        // taken.
        assert_eq!((q.owe(1250, 0, Instant(100_000)), shared.clock()), (Ok(()), 10_000));
        assert_eq!((q.owe(1250, 1 << 40, Instant(100_000)), shared.clock()), (Ok(()), 110_000));
        assert_eq!((q.credit, q.reserved), (8 * 1250 * BYTE, 10_000));
        // Ten packets at once: eight are paid for, one when its time comes, and one is to be taken
        // then.
        assert_eq!(q.owe(12_500, 0, Instant(100_000)), Err(Instant(110_000)));
        assert_eq!(q.owe(0, 0, Instant(109_999)), Err(Instant(110_000)));
        assert_eq!((q.owe(0, 0, Instant(110_000)), shared.clock()), (Err(Instant(120_000)), 120_000));
        assert_eq!((q.owe(0, 0, Instant(120_000)), q.debt, q.credit), (Ok(()), 0, 0));
        // The debt beyond a second's worth is forgotten.
        assert_eq!(q.owe(100_000_000, 0, Instant(120_000)), Err(Instant(800_120_000)));
        assert_eq!(q.owe(100_000_000, 0, Instant(120_000)), Err(Instant(800_120_000)));
        assert_eq!(q.owe(0, 0, Instant(800_120_000)), Err(Instant(1_000_120_000)));
        assert_eq!(q.owe(0, 0, Instant(1_000_120_000)), Ok(()));
    }

    #[test]
    fn nothing_is_rounded() {
        // 7 bytes in a second: a byte takes 142 857 142.857... ns.
        let shared = Arc::new(SharedRate::new(Rate(7), Bytes(1)));
        let mut q = lease(&shared);
        let (mut now, mut sent) = (0, 0);
        while sent < 7_001 {
            match q.ask(1, 1, Instant(now)) {
                Ok(()) => (sent, _) = (sent + 1, q.spend(1)),
                Err(t) => now = t.0,
            }
        }
        // The first byte is the burst; those after it take a second for each seven, and the bucket
        // begins 1/7 s back.
        assert_eq!(now, 1_000_000_000_000);
    }

    #[test]
    fn leases_get_shorter_with_many_queues() {
        let shared = gigabit(1_000_000);
        let mut queues: alloc::vec::Vec<Lease> = (0..20).map(|_| lease(&shared)).collect();
        assert_eq!(queues[7].ask(1250, 1_000_000, Instant(8_000_000)), Ok(()));
        assert_eq!(shared.clock(), 50_000);
        queues.truncate(8);
        assert_eq!(send(&mut queues[7], 5, 8_000_000), (5, None));
        assert_eq!(queues[7].ask(1250, 1_000_000, Instant(8_000_000)), Ok(()));
        assert_eq!(shared.clock(), 150_000);
    }

    #[test]
    fn a_new_rate_is_taken_whole() {
        let shared = gigabit(12_500);
        let mut q = lease(&shared);
        assert_eq!(send(&mut q, 20, 1_000_000), (10, Some(1_010_000)));
        assert!(shared.set(Rate(1_250_000), Bytes(2_500)));
        assert_eq!(shared.rate(), Some((Rate(1_250_000), 2_000_000)));
        // The reservation is given back; a packet takes 1 ms now, counted from the clock at that
        // moment.
        assert_eq!(send(&mut q, 10, 1_050_000), (0, Some(2_000_000)));
        assert_eq!(send(&mut q, 10, 2_000_000), (1, Some(3_000_000)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        for (rate, burst) in [(0, 0), (1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 1), (1, 1)] {
            let shared = Arc::new(SharedRate::new(Rate(rate), Bytes(burst)));
            let mut queues = [lease(&shared), lease(&shared), lease(&shared)];
            for now in [0, 1, u64::MAX / 2, u64::MAX] {
                for q in &mut queues {
                    for size in [0, 1, u64::from(u32::MAX) * 2, u64::MAX / 2] {
                        if q.ask(size, u64::MAX, Instant(now)).is_ok() {
                            q.spend(size);
                        }
                    }
                    q.rest();
                }
            }
        }
    }
}
