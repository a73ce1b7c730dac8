//! Filters and actions of a NIC: at the hooks of what it sends and of what has come in for it, and
//! at its qdiscs.

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId};
use txweir_core::packet::headers::Headers;
use txweir_core::path::entry::{self, Entry, Hooked, Passed};
use txweir_core::path::port::Port;
use txweir_core::path::select::Sender;
use txweir_core::{Instant, Meta};
use txweir_tc::tool::Hook;

use super::transmit::meta_of;
use crate::frame::Frame;
use crate::shown::Shown;
use crate::tagged::Asked;
use crate::tagged::ETHERNET;

/// The only port that there is: the NIC itself.
const ITSELF: PortId = PortId(1);

/// The filters and actions of a NIC, and their counters.
#[derive(Debug)]
pub(super) struct Sieve {
    pub(super) filters: Filters,
    pub(super) state: State,
    pub(super) hook: Option<Hook>,
    /// The filters of its hooks, if they have any.
    ingress: Option<BlockId>,
    egress: Option<BlockId>,
}

impl Sieve {
    /// None yet. The seed keys hashes and decides draws.
    pub(super) fn new(seed: u64) -> Self {
        let (filters, state) = (Filters::new().with_seed(seed), State::new(seed));
        Self { filters, state, hook: None, ingress: None, egress: None }
    }

    /// After every change: what counts has room, and which filters are asked is known.
    pub(super) fn fit(&mut self, port: &Port<Frame>) {
        self.filters.fit(&mut self.state);
        self.ingress = self.hook.and_then(|_| port.block(Hook::INGRESS));
        self.egress = self.hook.and_then(|_| port.block(Hook::EGRESS));
    }

    /// Asks about a frame that goes out and has its queue chosen; the reason, if it goes no
    /// further.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        addresses: &[u8; 12],
        port: &mut Port<Frame>,
    ) -> Result<Asked, (Meta, Gone)> {
        let mut meta = meta_of(frame);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.to = Some(Hooked { port: ITSELF, block: self.egress });
        entry.queues = u32::from(port.queues());
        let route = match port.pass(&mut entry, &mut packet, &Sender::default(), None) {
            Passed::Queue(_, route) => route,
            Passed::Dropped => return Err((meta, Gone::Dropped)),
            Passed::Stolen => return Err((meta, Gone::Stolen)),
        };
        put_back(&shown, &meta, frame, addresses);
        Ok(Asked { meta, route })
    }

    /// Asks about a frame that has come in; why it goes no further, if so.
    pub(super) fn ask_arrived(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        addresses: &[u8; 12],
    ) -> Option<Gone> {
        let block = Some(self.ingress?);
        let mut meta = meta_of(frame);
        let mut shown = Shown::of(frame, addresses);
        let headers = read(&shown, frame);
        let mut packet = Packet::new(&mut shown, &mut meta, headers);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.from = Some(Hooked { port: ITSELF, block });
        match entry.ask_hooks(&mut packet) {
            entry::HookVerdict::Go => {}
            entry::HookVerdict::Dropped => return Some(Gone::Dropped),
            entry::HookVerdict::Stolen => return Some(Gone::Stolen),
        }
        put_back(&shown, &meta, frame, addresses);
        None
    }
}

/// Why a frame goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
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

/// Writes the changes that actions made back into the frame.
fn put_back(shown: &Shown, meta: &Meta, frame: &mut Frame, addresses: &[u8; 12]) {
    shown.put_back(frame, addresses);
    (frame.priority, frame.mark, frame.ds) = (meta.priority, meta.mark, meta.ds);
}

/// Where a packet that has no link header of its own begins.
pub(super) fn network_at(frame: &Frame) -> u16 {
    u16::try_from(frame.link_len()).unwrap_or(ETHERNET as u16)
}
