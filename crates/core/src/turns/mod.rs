//! Senders that yield: a sender that has sent its quota and has more goes back into the line, and
//! the next one has its turn.
//!
//! One thread runs many senders (sockets, connections), and each of them would send as much as its
//! window allows. Then the data of the others, acknowledgements above all, stands behind that burst
//! in the device's ring. DragonFly BSD's TCP yields instead (`net.inet.tcp.fairsend`, January
//! 2013): a sender that has sent four segments and wants to send more puts a message to itself at
//! the tail of its thread's queue, and returns. [`FairSend`] is that queue and its rules, for any
//! loop on one thread; [`Gate`] does the same to packets of senders that are elsewhere and cannot
//! be asked to wait.
//!
//! Not all of a sender's output should wait. The caller names the reason for sending ([`Cause`]):
//! data from an application and data for which acknowledgements make room take turns; repairs,
//! opening, closing and answers do not.
//!
//! - F1: between two turns of others, a sender on a fair call sends fewer segments than the quota,
//!   and one unit more: the unit that spends the quota is never cut.
//! - F2: a sender stands in line at most once, and not once it has left.
//! - F3: a sender in line does not run by a fair cause ([`Cause::Data`], [`Cause::Acked`]) until
//!   its turn. An acknowledgement that is owed ([`Cause::Owing`]) takes it out of the line and runs
//!   it at once.
//! - F4: only payload waits: a unit without payload (an acknowledgement, a FIN) goes out though the
//!   quota is spent.
//! - F5: a plain cause neither waits nor yields, and changes nothing in the line: the time of a
//!   retransmission does not depend on the quota.
//!
//! Every call takes constant time, whatever the number of senders; each sender takes 16 bytes. Only
//! `new` allocates.
//!
//! ```
//! use txweir_core::turns::{Cause, FairSend, Pass, Quota, SenderId};
//!
//! /// A sender with `left` segments to send.
//! fn output(fair: &mut FairSend, id: SenderId, cause: Cause, left: &mut u32, wire: &mut Vec<SenderId>) {
//!     let Some(mut burst) = fair.begin(id, cause) else { return };
//!     while *left > 0 && fair.pass(&mut burst, 1, 1448) == Pass::Go {
//!         wire.push(id);
//!         *left -= 1;
//!     }
//! }
//!
//! let mut fair = FairSend::new(2, Quota::segs(4));
//! let (Some(a), Some(b)) = (fair.join(), fair.join()) else { panic!("there is room for two") };
//! let (mut of_a, mut of_b, mut wire) = (10, 1, Vec::new());
//! output(&mut fair, a, Cause::Data, &mut of_a, &mut wire);
//! output(&mut fair, b, Cause::Data, &mut of_b, &mut wire);
//! // The caller's loop: a turn for each sender in line now, then the other work.
//! while let Some(mut burst) = fair.next_turn() {
//!     while of_a > 0 && fair.pass(&mut burst, 1, 1448) == Pass::Go {
//!         wire.push(burst.sender());
//!         of_a -= 1;
//!     }
//! }
//! assert_eq!(wire, [a, a, a, a, b, a, a, a, a, a, a]);
//! ```

mod gate;

use alloc::vec::Vec;

pub use gate::{Gate, GateStats, Load, Offered};

/// Amount that a sender may send before others have had a turn. A turn ends when the first of both
/// limits is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Segments with payload; a super-packet counts as many as it is cut into. 0 for no limit.
    pub segs: u32,
    /// Bytes; 0 for no limit.
    pub bytes: u64,
}

impl Quota {
    /// No limit: no sender yields.
    pub const OFF: Self = Self { segs: 0, bytes: 0 };

    /// Returns a quota of segments; 0 is [`OFF`](Self::OFF).
    #[must_use]
    pub const fn segs(segs: u32) -> Self {
        Self { segs, bytes: 0 }
    }

    /// Returns a quota of bytes; 0 is [`OFF`](Self::OFF).
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { segs: 0, bytes }
    }

    /// True if no sender yields.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.segs == 0 && self.bytes == 0
    }

    /// True if a turn with this many segments and bytes is over.
    #[must_use]
    pub const fn is_spent(&self, segs: u32, bytes: u64) -> bool {
        (self.segs > 0 && segs >= self.segs) || (self.bytes > 0 && bytes >= self.bytes)
    }
}

impl Default for Quota {
    /// Returns four segments, the default of `net.inet.tcp.fairsend`.
    fn default() -> Self {
        Self::segs(4)
    }
}

/// Largest size of an IP packet, headers included (RFC 791 section 3.1).
const IP_MAX: u32 = 65_535;

/// Returns the segments of the largest unit that a sender hands down at once where the device cuts
/// up to `aggregate` bytes of payload, for segments of `mss` bytes behind `headers` bytes of
/// network and transport header. The unit has at least two segments if `aggregate` is less than
/// one, whole segments only, and never more than an IP packet holds.
///
/// One such unit may be more than a quota; then it is a turn of its own. DragonFly's default
/// `aggregate` is 6000.
#[must_use]
pub const fn unit_segs(aggregate: u32, mss: u32, headers: u32) -> u32 {
    let mss = if mss == 0 { 1 } else { mss };
    let room = IP_MAX.saturating_sub(headers);
    let wanted = if aggregate < mss { mss.saturating_mul(2) } else { aggregate };
    let unit = if wanted < room { wanted } else { room };
    if unit < mss { 1 } else { unit / mss }
}

/// Reason for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The application has passed data. Takes turns.
    Data,
    /// An acknowledgement has come and made room. Takes turns.
    Acked,
    /// As `Acked`, and an acknowledgement is owed now or a SACK report is wanted. It yields like
    /// the others, but does not wait for a turn.
    Owing,
    /// The application's data is urgent. Plain, as are all causes below.
    Urgent,
    /// Data was lost: fast retransmission, recovery by SACK.
    Recovery,
    /// A timer ran out: retransmission, persist, delayed acknowledgement, keep-alive.
    Timer,
    /// The connection is opened, closed, shut down or reset.
    Control,
    /// The application has read, and the window must be announced.
    Window,
    /// A segment is answered at once: in order with an acknowledgement due, out of the window, a
    /// challenge (RFC 5961).
    Answer,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 9] = [
        Self::Data,
        Self::Acked,
        Self::Owing,
        Self::Urgent,
        Self::Recovery,
        Self::Timer,
        Self::Control,
        Self::Window,
        Self::Answer,
    ];

    /// True if a call for this reason yields when its quota is spent.
    #[must_use]
    pub const fn is_fair(self) -> bool {
        matches!(self, Self::Data | Self::Acked | Self::Owing)
    }
}

/// A sender that has joined. Once it has left, its id names no sender, even after another has got
/// its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SenderId {
    index: u32,
    generation: u32,
}

impl SenderId {
    /// Returns its place, below the number given to [`FairSend::new`], by which the caller may
    /// index its own data.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// One call of a sender's output: the amount sent, and its limit.
#[must_use]
#[derive(Debug)]
pub struct Burst {
    sender: SenderId,
    quota: Quota,
    segs: u32,
    bytes: u64,
}

impl Burst {
    /// Returns the sender.
    pub const fn sender(&self) -> SenderId {
        self.sender
    }

    /// True if its turn is over for payload.
    pub const fn is_spent(&self) -> bool {
        self.quota.is_spent(self.segs, self.bytes)
    }

    /// Returns the segments up to the end of the turn, so that a stack can size its super-packets;
    /// `u32::MAX` without a quota of segments.
    pub const fn room_segs(&self) -> u32 {
        match self.quota.segs {
            0 => u32::MAX,
            segs => segs.saturating_sub(self.segs),
        }
    }

    /// Adds the amount sent, for a stack that knows it only afterwards: see [`FairSend::defer`].
    pub const fn count(&mut self, segs: u32, bytes: u64) {
        self.segs = self.segs.saturating_add(segs);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Decision about a sender's next unit.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The sender sends it.
    Go,
    /// The sender returns; it stands in line now and its turn comes.
    Yield,
}

crate::stats! {
    /// Counts of calls and turns.
    pub struct FairStats {
        /// Turns given to senders that stood in line.
        turns: u64,
        /// Times a sender with more to send yielded.
        yields: u64,
        /// Calls by a fair cause that did nothing, because the sender stood in line.
        suppressed: u64,
        /// Times a sender left the line because it owed an acknowledgement.
        cancelled: u64,
        /// Calls by a plain cause.
        plain: u64,
    }
}

/// The line of one thread: the senders with more to send, in the order in which they yielded.
#[derive(Clone, Debug)]
pub struct FairSend {
    slots: Vec<Slot>,
    /// The first free place.
    free: u32,
    head: u32,
    tail: u32,
    len: u32,
    quota: Quota,
    stats: FairStats,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    at: At,
    prev: u32,
    /// In a free place, the next free one.
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Free,
    Idle,
    InLine,
}

/// No sender.
const NONE: u32 = u32::MAX;

impl FairSend {
    /// Returns a line for at most `senders` senders at a time.
    #[must_use]
    pub fn new(senders: u32, quota: Quota) -> Self {
        let senders = senders.min(NONE - 1);
        let slot = |i| Slot { generation: 0, at: At::Free, prev: NONE, next: i + 1 };
        let mut slots: Vec<Slot> = (0..senders).map(slot).collect();
        if let Some(last) = slots.last_mut() {
            last.next = NONE;
        }
        let free = if senders > 0 { 0 } else { NONE };
        Self { slots, free, head: NONE, tail: NONE, len: 0, quota, stats: FairStats::default() }
    }

    /// Adds a sender; `None` if all places are taken.
    pub fn join(&mut self) -> Option<SenderId> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        self.free = slot.next;
        (slot.at, slot.prev, slot.next) = (At::Idle, NONE, NONE);
        Some(SenderId { index, generation: slot.generation })
    }

    /// Removes a sender, and its turn if it stands in line. False if it had left before.
    pub fn leave(&mut self, id: SenderId) -> bool {
        let Some(at) = self.at(id) else { return false };
        if at == At::InLine {
            self.unlink(id.index);
        }
        let free = self.free;
        let slot = &mut self.slots[id.index()];
        // Only after four billion senders at the same place would an old id be valid again.
        slot.generation = slot.generation.wrapping_add(1);
        (slot.at, slot.next) = (At::Free, free);
        self.free = id.index;
        true
    }

    /// Sets the quota of calls that begin from now on. Senders in line get their turn in any case.
    pub const fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the number of senders in line.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.len as usize
    }

    /// True if a sender stands in line.
    #[must_use]
    pub fn is_waiting(&self, id: SenderId) -> bool {
        self.at(id) == Some(At::InLine)
    }

    /// Returns the counts.
    #[must_use]
    pub const fn stats(&self) -> FairStats {
        self.stats
    }

    /// Begins a call of a sender's output. `None` if it must do nothing, because it stands in line
    /// and its turn comes, or because it has left.
    pub fn begin(&mut self, id: SenderId, cause: Cause) -> Option<Burst> {
        let at = self.at(id)?;
        if !cause.is_fair() {
            self.stats.plain += 1;
            return Some(Burst { sender: id, quota: Quota::OFF, segs: 0, bytes: 0 });
        }
        if at == At::InLine {
            if cause != Cause::Owing {
                self.stats.suppressed += 1;
                return None;
            }
            self.stats.cancelled += 1;
            self.unlink(id.index);
        }
        Some(self.burst(id))
    }

    /// Takes the first sender out of the line and begins its turn.
    ///
    /// A loop with other work, such as receiving, gives one turn to each sender that is in line at
    /// its beginning ([`waiting`](Self::waiting)), and then does that work: the line may never end.
    pub fn next_turn(&mut self) -> Option<Burst> {
        let index = self.head;
        let generation = self.slots.get(index as usize)?.generation;
        self.unlink(index);
        self.stats.turns += 1;
        Some(self.burst(SenderId { index, generation }))
    }

    /// Asks for permission to send a unit of `segs` segments with payload (0: an acknowledgement, a
    /// FIN) and `bytes` bytes. The caller asks once the device has room for the unit, because `Go`
    /// counts it.
    pub fn pass(&mut self, burst: &mut Burst, segs: u32, bytes: u64) -> Pass {
        if segs > 0 && burst.is_spent() {
            self.defer(burst);
            return Pass::Yield;
        }
        burst.count(segs, if segs > 0 { bytes } else { 0 });
        Pass::Go
    }

    /// Puts the sender at the end of the line, for a stack that does not know whether there is more
    /// before it tries: it sends, [counts](Burst::count), and defers once the burst [is
    /// spent](Burst::is_spent). At worst the turn is in vain.
    pub fn defer(&mut self, burst: &Burst) {
        let SenderId { index, .. } = burst.sender;
        if self.at(burst.sender) != Some(At::Idle) {
            return;
        }
        self.stats.yields += 1;
        let last = core::mem::replace(&mut self.tail, index);
        match self.slots.get_mut(last as usize) {
            Some(before) => before.next = index,
            None => self.head = index,
        }
        let slot = &mut self.slots[index as usize];
        (slot.at, slot.prev, slot.next) = (At::InLine, last, NONE);
        self.len += 1;
    }

    fn burst(&self, sender: SenderId) -> Burst {
        Burst { sender, quota: self.quota, segs: 0, bytes: 0 }
    }

    /// Returns the state of a sender; `None` if it has left.
    fn at(&self, id: SenderId) -> Option<At> {
        let slot = self.slots.get(id.index())?;
        (slot.generation == id.generation && slot.at != At::Free).then_some(slot.at)
    }

    /// Takes a sender out of the line.
    fn unlink(&mut self, index: u32) {
        let Slot { prev, next, .. } = self.slots[index as usize];
        match self.slots.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.tail = prev,
        }
        let slot = &mut self.slots[index as usize];
        (slot.at, slot.prev, slot.next) = (At::Idle, NONE, NONE);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_whole_segments_that_an_ip_packet_holds() {
        // Device limit, segment, headers: segments of a unit.
        let cases = [
            (6000, 1460, 40, 4),
            (6000, 1448, 52, 4),
            (65_535, 1460, 40, 44),
            (65_535, 1448, 52, 45),
            (1000, 1460, 40, 2),
            (1460, 1460, 40, 1),
            (1_000_000, 1460, 40, 44),
            (0, 65_000, 40, 1),
            (6000, 0, 0, 6000),
        ];
        for (aggregate, mss, headers, segs) in cases {
            assert_eq!(unit_segs(aggregate, mss, headers), segs, "{aggregate} {mss} {headers}");
        }
    }

    #[test]
    fn a_slot_is_sixteen_bytes() {
        assert_eq!(core::mem::size_of::<Slot>(), 16);
    }
}
