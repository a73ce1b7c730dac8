//! The way of a host's frames to its device: filters, the choice of a queue, qdiscs.

use txweir_core::model::wire::{Wire, WireConfig};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::path::port::{Choice, Port};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::Sender;
use txweir_core::path::txpath::{BULK, PathConfig};
use txweir_core::{Admitted, Detail, DropReason, Env, Instant, MarkReason, Meta, Nanos, Tally, TxPath, Wake};

use super::NicCounts;
use super::device::{Device, release};
use super::filtering::{self, Gates, Gone, Site};
use super::waiting::Waiting;
use crate::frame::Frame;
use crate::shown::addresses;
use crate::tagged::Asked;

/// How a frame that was handed over was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// As it is.
    Whole,
    /// In segments, of which so many lie below the socket of their sender.
    Pieces(u32),
    /// A queue dropped it at once, or all its segments, the last one for this reason.
    Dropped(DropReason),
}

/// The queues of a NIC, and what frames meet before and after them.
#[derive(Debug)]
pub(super) struct Transmit {
    pub(super) port: Port<Frame>,
    pub(super) device: Device,
    pub(super) waiting: Waiting,
    pub(super) gates: Gates,
    /// It has filters, or a hook for them.
    pub(super) asks: bool,
    /// It has an fq.
    pub(super) paces: bool,
    /// Of the hosts that it is at and that it sends to.
    addresses: [u8; 12],
    taken: Tally,
    /// Dropped by the filters of its egress hook.
    filtered: Tally,
    stolen: Tally,
    turned_away: Tally,
}

impl Transmit {
    pub(super) fn new(path: PathConfig, wire: WireConfig, (at, to): (u32, u32)) -> Result<Self, String> {
        let env = Env { queues: wire.rings, offload: wire.offload, ..path.env };
        let device = Device::new(Wire::new(wire).map_err(|e| e.to_string())?);
        let port = Port::new(PathConfig { env, ..path }).map_err(|e| e.to_string())?;
        Ok(Self {
            waiting: Waiting::new(port.queues()),
            port,
            device,
            gates: Gates::default(),
            asks: false,
            paces: false,
            addresses: addresses(at, to),
            taken: Tally::default(),
            filtered: Tally::default(),
            stolen: Tally::default(),
            turned_away: Tally::default(),
        })
    }

    /// The counts of all but the link.
    pub(super) fn counts(&self) -> NicCounts {
        let (port, path) = (&self.port, self.port.totals().stats());
        let dropped = port.paths().iter().map(|path| path.cx().dropped()).fold(self.filtered, Tally::plus);
        let by_hook = |reason| if reason == DropReason::Filtered { self.filtered.packets } else { 0 };
        NicCounts {
            taken: self.taken,
            direct: path.direct,
            queued: path.queued,
            tx: Tally { packets: path.tx_packets, bytes: path.tx_bytes },
            // A unit that was interrupted has others between its first and its last bit.
            busy: self.device.wire.counts().busy,
            dropped,
            drops: std::array::from_fn(|i| {
                port.totals().drops(DropReason::ALL[i]) + by_hook(DropReason::ALL[i])
            }),
            marks: std::array::from_fn(|i| port.totals().marks(MarkReason::ALL[i])),
            stops: [path.stop_drv, path.stop_stack],
            full: path.full,
            rounds: self.device.wire.rounds(),
            stolen: self.stolen,
            turned_away: self.turned_away,
            ..NicCounts::default()
        }
    }

    /// Changes the qdiscs, before the run.
    pub(super) fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        let done = self.port.control(now, &mut self.device).configure(f);
        self.device.fit_scheduler(self.port.trees().root().qdisc());
        done
    }

    /// Takes a frame, or gives back what there is no room for. A frame that comes back has what
    /// filters said with it. `site` has the filters, if it has any.
    #[inline]
    pub(super) fn submit(
        &mut self,
        now: Instant,
        site: Option<&mut Site>,
        frame: Frame,
    ) -> Result<Taken, Frame> {
        if let Some(site) = site.filter(|_| self.asks) {
            return self.submit_filtered(now, site, frame);
        }
        let m = self.chosen(now, &frame);
        self.queue(now, frame, m, None)
    }

    /// Returns the metadata of a frame for which the port chooses the queue.
    #[inline(always)]
    fn chosen(&mut self, now: Instant, frame: &Frame) -> Meta {
        let mut m = meta_of(frame);
        self.port.chooser_mut().choose_for(&mut m, Choice::By(&Sender::default(), None), now);
        m
    }

    #[inline(never)]
    fn submit_filtered(&mut self, now: Instant, site: &mut Site, mut frame: Frame) -> Result<Taken, Frame> {
        let Self { gates, port, addresses, .. } = self;
        let asked = match frame.take_asked() {
            Some(asked) => Ok(Asked { meta: part_of(&asked.meta, &frame), ..asked }),
            None => site.ask(now, &mut frame, addresses, gates, port),
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err((meta, gone)) => {
                self.taken.add(meta.wire_len);
                match gone {
                    Gone::Dropped => self.filtered.add(meta.wire_len),
                    Gone::Stolen => self.stolen.add(meta.wire_len),
                }
                release(&mut self.device.released, &mut frame);
                return Ok(Taken::Whole);
            }
        };
        self.queue(now, frame, asked.meta, Some(&asked)).map_err(|frame| frame.with_asked(asked))
    }

    /// To the queue that was chosen, which is in the metadata.
    #[inline(always)]
    fn queue(&mut self, now: Instant, frame: Frame, m: Meta, asked: Option<&Asked>) -> Result<Taken, Frame> {
        let (queue, bytes) = (m.queue, m.wire_len);
        let taken = match self.admit(now, frame, m, asked) {
            Admitted::Sent | Admitted::Queued => Taken::Whole,
            Admitted::Dropped(reason) => Taken::Dropped(reason),
            Admitted::Full(frame) => {
                self.refused(queue);
                return Err(frame);
            }
            Admitted::Cut(unit, _) => return self.queue_segments(now, &unit, asked),
        };
        self.taken.add(bytes);
        Ok(taken)
    }

    /// A unit that a qdisc wants in pieces goes as segments; the rest of it comes back if there is
    /// no room.
    #[inline(never)]
    fn queue_segments(&mut self, now: Instant, unit: &Frame, asked: Option<&Asked>) -> Result<Taken, Frame> {
        let (mut below, mut some, mut dropped) = (0, false, None);
        for i in 0..unit.segs() {
            let mut segment = unit.segment(i);
            below += segment.below.cut();
            let m = match asked {
                Some(asked) => part_of(&asked.meta, &segment),
                None => self.chosen(now, &segment),
            };
            let (queue, bytes) = (m.queue, m.wire_len);
            match self.admit(now, segment, m, asked) {
                Admitted::Full(_) | Admitted::Cut(..) => {
                    self.refused(queue);
                    return Err(unit.part(i, unit.segs() - i));
                }
                Admitted::Sent | Admitted::Queued => some = true,
                Admitted::Dropped(reason) => dropped = Some(reason),
            }
            self.taken.add(bytes);
        }
        Ok(match dropped.filter(|_| !some) {
            Some(reason) => Taken::Dropped(reason),
            None => Taken::Pieces(below),
        })
    }

    /// The path of this queue has given a frame back.
    fn refused(&mut self, queue: u16) {
        self.waiting.refused(if self.port.is_split() { queue.into() } else { 0 });
    }

    /// In line, or frame and metadata would be copied once more for each packet.
    #[inline(always)]
    fn admit(&mut self, now: Instant, frame: Frame, mut m: Meta, asked: Option<&Asked>) -> Admitted<Frame> {
        let Self { port, device, .. } = self;
        device.begin(now);
        // The path notes it of packets that it queues; a probe reads it of those too that go to the
        // device directly.
        m.enqueued = now;
        let wants = port.path(m.queue).is_some_and(TxPath::wants_detail);
        let known = wants.then(|| {
            let detail = detail_of(&frame, port.env().seed);
            Detail { route: asked.map(|asked| asked.route).unwrap_or_default(), ..detail }
        });
        port.submit(now, frame, &m, known.as_ref(), device)
    }

    /// Asks the ingress hook about a frame that has come in; false if it goes no further.
    #[inline]
    pub(super) fn arrived(&mut self, now: Instant, site: Option<&mut Site>, frame: &mut Frame) -> bool {
        match site.filter(|_| self.asks) {
            Some(site) => self.let_in(now, site, frame),
            None => true,
        }
    }

    #[inline(never)]
    fn let_in(&mut self, now: Instant, site: &mut Site, frame: &mut Frame) -> bool {
        let bytes = frame.wire_len();
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.addresses;
        match site.ask_arrived(now, frame, &[g, h, i, j, k, l, a, b, c, d, e, f], &self.gates) {
            None => return true,
            Some(Gone::Dropped) => self.turned_away.add(bytes),
            Some(Gone::Stolen) => self.stolen.add(bytes),
        }
        false
    }

    /// Takes what the device has `reported` as finished, if anything, and moves packets from the
    /// qdiscs to the device. Gives the time before which no more may leave, if a qdisc waits for
    /// one.
    pub(super) fn refill(&mut self, now: Instant, reported: bool) -> Option<Instant> {
        let Self { port, device, .. } = self;
        if reported {
            for queue in 0..port.queues() {
                port.reap(now, queue, device, |_| {});
            }
        }
        device.begin(now);
        let mut wake: Option<Instant> = None;
        // There is a path for each queue, or one.
        for path in 0..port.paths().len() as u16 {
            // While the ring is full or the byte limit reached, only a completion lets anything go.
            if port.path(path).is_some_and(|path| path.tx().stops().stopped()) {
                continue;
            }
            let at = loop {
                match port.drain(now, path, BULK, device) {
                    Wake::More => {}
                    Wake::At(at, _) => break Some(at),
                    Wake::Idle | Wake::Device => break None,
                }
            };
            wake = wake.into_iter().chain(at).min();
        }
        wake
    }
}

/// Returns the further fields of a frame, for the qdiscs that want them. The Ethernet header is
/// counted and not stored.
fn detail_of(frame: &Frame, seed: u64) -> Detail {
    let headers = Headers::parse_ip(frame.header());
    let detail = Detail::of(&headers, frame.header(), &FlowHasher::new(seed));
    Detail { l3_offset: Some(filtering::network_at(frame)), ..detail }
}

/// Returns the metadata of a frame.
#[inline]
pub(super) fn meta_of(frame: &Frame) -> Meta {
    // Headers are at most 86 bytes.
    let header_len = u16::try_from(frame.header_len()).unwrap_or(u16::MAX);
    let mut m = Meta::new(frame.len()).hash(frame.hash).priority(frame.priority).ecn(frame.ecn());
    (m.protocol, m.ds, m.mark) = (frame.protocol, frame.ds, frame.mark);
    m.tcp_control = frame.payload_len() == 0 && Headers::parse_ip(frame.header()).is_tcp_control();
    if frame.ahead > 0 {
        m.txtime = frame.sent + Nanos(u64::from(frame.ahead));
    }
    if frame.gso_size() == 0 { m } else { m.gso(header_len, frame.gso_size()) }
}

/// Returns the metadata of a part of a unit whose queue is chosen.
fn part_of(whole: &Meta, part: &Frame) -> Meta {
    let m = meta_of(part);
    let mut known = *whole;
    (known.len, known.wire_len, known.segs) = (m.len, m.wire_len, m.segs);
    (known.gso_size, known.header_len) = (m.gso_size, m.header_len);
    known
}
