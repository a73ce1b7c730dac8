//! The queue behind a handle, in safe code.

use std::ffi::c_void;

use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::sched::cx::Cx;
use txweir_core::{
    Admitted, Completed, DeviceError, DropReason, Env, Instant, Meta, PathConfig, Tree, TxPath, TxQueue, Wake,
};
use txweir_tc::{Policy, show};

/// A program's own pointer, which is never looked behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame(pub *mut c_void);

/// A function that takes back the frame of a dropped packet.
pub type Discard = Box<dyn FnMut(Frame, &Meta, DropReason)>;

/// The device of a queue that is pulled: the room for the packets of one pull, and the packets that
/// have come out.
struct Pulled {
    room: u32,
    out: Vec<(Frame, Meta)>,
    /// Packets and bytes that the program's device has finished, until they are told.
    done: (u32, u32),
    discard: Option<Discard>,
}

impl TxQueue for Pulled {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min(self.room)
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        self.room = self.room.saturating_sub(1);
        self.out.push((frame, *m));
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
        if let Some(discard) = &mut self.discard {
            discard(frame, m, reason);
        }
    }
}

/// A transmit queue.
pub struct Queue {
    path: TxPath<Frame>,
    device: Pulled,
    hasher: FlowHasher,
}

impl Queue {
    /// Makes a queue with the default root, pfifo_fast.
    ///
    /// # Errors
    /// One line: the byte limit's numbers contradict each other.
    pub fn new(config: PathConfig) -> Result<Self, String> {
        let hasher = FlowHasher::new(config.env.seed);
        let path = TxPath::new(config).map_err(|err| err.to_string())?;
        let device = Pulled { room: 0, out: Vec::new(), done: (0, 0), discard: None };
        Ok(Self { path, device, hasher })
    }

    /// Sets the function that takes back the frames of dropped packets.
    pub fn set_discard(&mut self, discard: Option<Discard>) {
        self.device.discard = discard;
    }

    /// Returns the properties of the device that the qdiscs know.
    pub fn env(&self) -> &Env {
        self.path.tree().env()
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
        let (done, _) = self.path.swap(now, &mut self.device, swap, cut);
        uncut.into_iter().for_each(|(frame, m)| self.device.discard(frame, &m, DropReason::Oversize));
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
        self.path.submit_burst(now, metas, frames, &mut self.device, fate)
    }

    /// Takes up to `most` packets that may leave now; `each` gets them in their order. Returns the
    /// time of the next call.
    pub fn pull(&mut self, now: Instant, most: u32, mut each: impl FnMut(Frame, &Meta)) -> Wake {
        self.device.room = most;
        let wake = self.path.drain(now, most, &mut self.device);
        self.device.room = 0;
        self.device.out.drain(..).for_each(|(frame, m)| each(frame, &m));
        wake
    }

    /// Tells the byte limit that the program's device has finished packets that a pull gave it.
    pub fn completed(&mut self, now: Instant, packets: u32, bytes: u32) {
        self.device.done = (packets, bytes);
        self.path.reap(now, &mut self.device, |_| {});
    }

    /// True once after a submit found no room, when there is room again.
    pub fn take_wake(&mut self) -> bool {
        self.path.take_wake()
    }

    /// Drops all packets that wait.
    pub fn purge(&mut self, now: Instant) {
        self.path.purge(now, &mut self.device);
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

    /// Returns the path, to read its counters.
    pub const fn path(&self) -> &TxPath<Frame> {
        &self.path
    }
}
