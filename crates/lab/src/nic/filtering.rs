//! Filters and actions of a NIC: at the hooks of what it sends and of what has come in for it, and at its qdiscs.

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId};
use txweir_core::packet::headers::Headers;
use txweir_core::path::entry::{self, Entry, HookCounts, Hooked, Passed, Ways};
use txweir_core::path::select::{Selector, Sender};
use txweir_core::{Admitted, Detail, DropReason, Instant, Meta, Tree, TxPath};
use txweir_tc::tool::Hook;

use super::{Nic, meta_of};
use crate::engine::Engine;
use crate::event::What;
use crate::frame::Frame;
use crate::shown::Shown;
use crate::tagged::Asked;
use crate::tagged::ETHERNET;

/// The only port that there is: the NIC itself.
const ITSELF: PortId = PortId(1);

/// What filters and actions a NIC has, and what they have counted.
#[derive(Debug)]
pub(super) struct Sieve {
    pub(super) filters: Filters,
    pub(super) state: State,
    pub(super) hook: Option<Hook>,
    /// The filters of its hooks, if they have any.
    ingress: Option<BlockId>,
    egress: Option<BlockId>,
    /// What its hooks have counted.
    pub(super) counted: HookCounts,
}

impl Sieve {
    /// None yet. The seed keys hashes and decides draws.
    pub(super) fn new(seed: u64) -> Self {
        let (filters, state) = (Filters::new().with_seed(seed), State::new(seed));
        Self { filters, state, hook: None, ingress: None, egress: None, counted: HookCounts::default() }
    }

    /// After every change: what counts has room, and which filters are asked is known.
    pub(super) fn fit(&mut self, tree: &Tree) {
        self.filters.fit(&mut self.state);
        self.ingress = self.hook.and_then(|_| tree.block(Hook::INGRESS));
        self.egress = self.hook.and_then(|_| tree.block(Hook::EGRESS));
    }

    /// Asks about a frame that goes out; nothing if it goes no further.
    fn ask(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        addresses: &[u8; 12],
        selector: &Selector,
        paths: &[TxPath<Frame>],
    ) -> Result<Asked, (Meta, Gone)> {
        let mut meta = meta_of(frame);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.to = Some(Hooked { port: ITSELF, block: self.egress });
        entry.queues = u32::from(selector.queues());
        let passed = entry.pass(&mut packet, &mut OfNic { selector, paths, now });
        self.counted.add(entry.counted[1]);
        let (queue, route) = match passed {
            Passed::Queue(queue, route) => (usize::from(queue), route),
            Passed::Dropped => return Err((meta, Gone::Dropped)),
            Passed::Stolen => return Err((meta, Gone::Stolen)),
        };
        put_back(&shown, &meta, frame, addresses);
        Ok(Asked { meta, queue, route })
    }

    /// Asks about a frame that has come in; why it goes no further, if so.
    fn ask_arrived(&mut self, now: Instant, frame: &mut Frame, addresses: &[u8; 12]) -> Option<Gone> {
        let block = Some(self.ingress?);
        let mut meta = meta_of(frame);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.from = Some(Hooked { port: ITSELF, block });
        let asked = entry.ask_hooks(&mut packet);
        self.counted.add(entry.counted[0]);
        match asked {
            entry::HookVerdict::Go => {}
            entry::HookVerdict::Dropped => return Some(Gone::Dropped),
            entry::HookVerdict::Stolen => return Some(Gone::Stolen),
        }
        put_back(&shown, &meta, frame, addresses);
        None
    }
}

/// The rings of a NIC, each with a path of its own.
struct OfNic<'a> {
    selector: &'a Selector,
    paths: &'a [TxPath<Frame>],
    now: Instant,
}

impl Ways for OfNic<'_> {
    fn choose(&mut self, meta: &mut Meta, asked: Option<u16>) -> u16 {
        match asked {
            Some(queue) => self.selector.chosen(queue).unwrap_or(0),
            None => self.selector.select(meta, &Sender::default(), None, self.now),
        }
    }
    fn tree(&self, queue: u16) -> Option<&Tree> {
        self.paths.get(usize::from(queue)).map(TxPath::tree)
    }
}

/// Why a frame goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Dropped,
    Stolen,
}

fn read(shown: &Shown, frame: &Frame) -> Headers {
    use txweir_core::classify::packet::FrameBytes;
    match frame.link_len() {
        0 => Headers::parse_ip(shown.bytes()),
        _ => Headers::parse_ethernet(shown.bytes()),
    }
}

/// What actions have made of a frame stays with it.
fn put_back(shown: &Shown, meta: &Meta, frame: &mut Frame, addresses: &[u8; 12]) {
    shown.put_back(frame, addresses);
    (frame.priority, frame.mark, frame.ds) = (meta.priority, meta.mark, meta.ds);
}

/// What a qdisc sees of a part of a unit whose filters have been asked.
fn part_of(whole: &Meta, part: &Frame) -> Meta {
    let m = meta_of(part);
    let mut known = *whole;
    (known.len, known.wire_len, known.segs) = (m.len, m.wire_len, m.segs);
    (known.gso_size, known.header_len) = (m.gso_size, m.header_len);
    known
}

impl Nic {
    /// Its filters and actions, and what they have counted, if it has any.
    pub fn filters(&self) -> Option<(&Filters, &State)> {
        self.sieve.as_ref().map(|sieve| (&sieve.filters, &sieve.state))
    }

    /// Whether what has come in for it is to be asked about: see [`Nic::arrived`].
    pub fn asks_arrived(&self) -> bool {
        self.sieve.as_ref().is_some_and(|sieve| sieve.ingress.is_some())
    }

    /// A frame has come in over the link that leads back from where this NIC sends to; false if it goes no further.
    pub fn arrived(&mut self, now: Instant, frame: &mut Frame) -> bool {
        let Some(sieve) = &mut self.sieve else { return true };
        let bytes = frame.wire_len();
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.addresses;
        let gone = sieve.ask_arrived(now, frame, &[g, h, i, j, k, l, a, b, c, d, e, f]);
        match gone {
            None => return true,
            Some(Gone::Dropped) => self.turned_away.add(bytes),
            Some(Gone::Stolen) => self.stolen.add(bytes),
        }
        false
    }

    /// Like `submit`, of a NIC with filters. A frame that comes back has what they said with it.
    pub(super) fn submit_filtered(&mut self, engine: &Engine<What>, mut frame: Frame) -> Result<(), Frame> {
        let now = engine.now();
        let Self { sieve, selector, paths, addresses, .. } = self;
        let Some(sieve) = sieve else { return Err(frame) };
        let asked = match frame.take_asked() {
            Some(asked) => Ok(Asked { meta: part_of(&asked.meta, &frame), ..asked }),
            None => sieve.ask(now, &mut frame, addresses, selector, paths),
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err((meta, gone)) => {
                self.taken.add(meta.wire_len);
                match gone {
                    Gone::Dropped => self.filtered.add(meta.wire_len),
                    Gone::Stolen => self.stolen.add(meta.wire_len),
                }
                return Ok(());
            }
        };
        let queue = asked.queue;
        let done = match self.admit_asked(now, frame, &asked) {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {
                self.taken.add(asked.meta.wire_len);
                Ok(())
            }
            Admitted::Full(frame) => Err(frame),
            Admitted::Cut(unit, _) => self.submit_parts(now, &unit, &asked),
        };
        done.map_err(|frame| {
            self.full = queue;
            frame.with_asked(asked)
        })
    }

    fn submit_parts(&mut self, now: Instant, unit: &Frame, asked: &Asked) -> Result<(), Frame> {
        let mut some = false;
        for i in 0..unit.segs() {
            let mut segment = unit.segment(i);
            self.cut_below += segment.cut_below();
            let part = Asked { meta: part_of(&asked.meta, &segment), ..*asked };
            match self.admit_asked(now, segment, &part) {
                Admitted::Full(_) | Admitted::Cut(..) => return Err(unit.part(i, unit.segs() - i)),
                Admitted::Sent | Admitted::Queued => some = true,
                Admitted::Dropped(_) => {}
            }
            self.taken.add(part.meta.wire_len);
        }
        if some {
            self.dropped_newcomer = None;
        }
        Ok(())
    }

    fn admit_asked(&mut self, now: Instant, frame: Frame, asked: &Asked) -> Admitted<Frame> {
        self.admit(now, asked.queue, frame, asked.meta, |detail| Detail { route: asked.route, ..detail })
    }

    /// Drops of hooks have their reason too.
    pub(super) const fn filtered_by_hook(&self, reason: DropReason) -> u64 {
        match reason {
            DropReason::Filtered => self.filtered.packets,
            _ => 0,
        }
    }
}

/// Where a packet that has no link header of its own begins.
pub(super) fn network_at(frame: &Frame) -> u16 {
    u16::try_from(frame.link_len()).unwrap_or(ETHERNET as u16)
}
