//! The queue behind a handle, in safe code.

use std::ffi::c_void;

use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::sched::cx::Cx;
use txweir_core::{
    Admitted, Completed, DeviceError, DropReason, Instant, Meta, PathConfig, Tree, TxPath, TxQueue, Wake,
};
use txweir_tc::{Policy, show};

/// A program's own pointer, which is never looked behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame(pub *mut c_void);

/// A function that takes back the frame of a dropped packet.
pub type Discard = Box<dyn FnMut(Frame, &Meta, DropReason)>;

/// The device of a call: the room for the packets of a pull, and the function that gets them.
struct Call<'a> {
    room: u32,
    each: &'a mut dyn FnMut(Frame, &Meta),
    /// Packets and bytes that the program's device has finished, until they are told.
    done: (u32, u32),
    discard: &'a mut Option<Discard>,
}

impl<'a> Call<'a> {
    /// Returns a device that takes nothing.
    fn without_room(discard: &'a mut Option<Discard>, each: &'a mut dyn FnMut(Frame, &Meta)) -> Self {
        Self { room: 0, each, done: (0, 0), discard }
    }
}

impl TxQueue for Call<'_> {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min(self.room)
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        self.room = self.room.saturating_sub(1);
        (self.each)(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        if let (packets @ 1.., bytes) = std::mem::take(&mut self.done) {
            sink(Completed { packets, bytes, frame: None });
        }
    }
    fn discard(&mut self, frame: Frame, m: &Meta, reason: DropReason) {
        if let Some(discard) = self.discard {
            discard(frame, m, reason);
        }
    }
}

/// Takes no packet: none comes without room.
fn nothing(_: Frame, _: &Meta) {}

/// A transmit queue.
pub struct Queue {
    path: TxPath<Frame>,
    discard: Option<Discard>,
    hasher: FlowHasher,
    /// Packets that were taken or dropped: those that the program has kept are not among them.
    submitted: u64,
    /// Packets that were dropped beside the path, which has not counted them as drops.
    dropped_beside: u64,
    /// The packet at which a fault ended a submit: it is still the program's.
    kept: Option<Frame>,
}

impl Queue {
    /// Makes a queue with the default root, pfifo_fast.
    ///
    /// # Errors
    /// One line: the byte limit's numbers contradict each other.
    pub fn new(config: PathConfig) -> Result<Self, String> {
        let hasher = FlowHasher::new(config.env.seed);
        let path = TxPath::new(config).map_err(|err| err.to_string())?;
        Ok(Self { path, discard: None, hasher, submitted: 0, dropped_beside: 0, kept: None })
    }

    /// Sets the function that takes back the frames of dropped packets.
    pub fn set_discard(&mut self, discard: Option<Discard>) {
        self.discard = discard;
    }

    /// Reads lines of tc and applies all of them, or none. Packets that wait are kept, and wait
    /// where the new policy puts them.
    ///
    /// # Errors
    /// Text of several lines with the place and the advice: the policy is refused, and nothing has
    /// changed.
    pub fn apply(&mut self, now: Instant, text: &str, name: &str) -> Result<(), String> {
        let policy = Policy::parse(text, name).map_err(|found| found.first().to_string())?;
        // A frame has no bytes here that could be cut for a smaller largest packet.
        let mut uncut = Vec::new();
        let swap = |tree: &mut Tree, cx: &mut Cx| policy.apply(tree, cx);
        let cut = |frame, m: &Meta, _, _: &mut dyn FnMut(Frame, Meta)| uncut.push((frame, *m));
        let mut none = nothing;
        let mut device = Call::without_room(&mut self.discard, &mut none);
        let (done, _) = self.path.swap(now, &mut device, swap, cut);
        self.dropped_beside += uncut.len() as u64;
        uncut.into_iter().for_each(|(frame, m)| device.discard(frame, &m, DropReason::Oversize));
        done.map_err(|err| err.to_string())
    }

    /// Submits packets in their order; `fate` gets the outcome of each that was looked at. Returns
    /// the number of packets before the first one without room, or of all.
    pub fn submit(
        &mut self,
        now: Instant,
        metas: &[Meta],
        frames: &mut impl Iterator<Item = Frame>,
        fate: impl FnMut(&Meta, Admitted<Frame>),
    ) -> usize {
        let mut none = nothing;
        let cut = self.path.stats().cut;
        let device = &mut Call::without_room(&mut self.discard, &mut none);
        let n = self.path.submit_burst(now, metas, frames, device, fate);
        // A packet that fits only in pieces is one of these, and the program has it.
        self.submitted += n as u64 - (self.path.stats().cut - cut);
        n
    }

    /// Drops a packet that was never queued: counts it, and gives its frame to the discard
    /// function.
    pub fn discard(&mut self, frame: Frame, m: &Meta, reason: DropReason) {
        self.submitted += 1;
        self.dropped_beside += 1;
        Call::without_room(&mut self.discard, &mut nothing).discard(frame, m, reason);
    }

    /// Takes up to `most` packets that may leave now; `each` gets them in their order. Returns the
    /// time of the next call.
    pub fn pull(&mut self, now: Instant, most: u32, mut each: impl FnMut(Frame, &Meta)) -> Wake {
        let device = &mut Call { room: most, each: &mut each, done: (0, 0), discard: &mut self.discard };
        self.path.drain(now, most, device)
    }

    /// Tells the byte limit that the program's device has finished packets that a pull gave it.
    pub fn completed(&mut self, now: Instant, packets: u32, bytes: u32) {
        let mut none = nothing;
        let mut device = Call::without_room(&mut self.discard, &mut none);
        device.done = (packets, bytes);
        self.path.reap(now, &mut device, |_| {});
    }

    /// True once after a submit found no room, when there is room again.
    pub fn take_wake(&mut self) -> bool {
        self.path.take_wake()
    }

    /// Drops all packets that wait.
    pub fn purge(&mut self, now: Instant) {
        self.path.purge(now, &mut Call::without_room(&mut self.discard, &mut nothing));
    }

    /// Notes that a fault has ended a submit at this packet, which is still the program's.
    pub(crate) const fn keep(&mut self, frame: Frame) {
        self.kept = Some(frame);
    }

    /// Gives the frames that wait to the discard function, past the qdiscs, in which a fault was
    /// found. A frame that [`keep`](Self::keep) was told about is not among them.
    pub(crate) fn abandon(&mut self) {
        let Some(mut discard) = self.discard.take() else { return };
        let mut kept = self.kept.take();
        self.discard = Some(Box::new(move |frame: Frame, m: &Meta, reason| match kept == Some(frame) {
            true => kept = None,
            false => discard(frame, m, reason),
        }));
        let mut none = nothing;
        let mut device = Call::without_room(&mut self.discard, &mut none);
        // Behind a pool that is replaced the path gives back all frames that it has.
        self.path.configure(Instant::ZERO, &mut device, |_, cx| cx.pool = Cx::new(1, 0).pool);
    }

    /// Returns the facts that the headers of an Ethernet frame tell.
    pub fn read(&self, frame: &[u8], wire_bytes: u32) -> Meta {
        Meta::of(&Headers::parse_ethernet(frame), wire_bytes, &self.hasher)
    }

    /// Returns the qdiscs as `tc -s qdisc show` prints them, or as `tc -s -j`.
    pub fn show(&self, json: bool) -> String {
        match json {
            true => show::json(self.path.tree(), None, true),
            false => show::text(self.path.tree(), None, true),
        }
    }

    /// Returns the packets that were taken or dropped so far.
    pub(crate) const fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Returns the packets that were dropped so far, whatever the policy was then.
    pub(crate) const fn dropped(&self) -> u64 {
        self.path.cx().dropped().packets + self.dropped_beside
    }

    /// Returns the path, to read its counters.
    pub const fn path(&self) -> &TxPath<Frame> {
        &self.path
    }
}
