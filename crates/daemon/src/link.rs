//! `Link`: a name, a transmit path, and the device behind it.

mod copies;
mod sketch;

use std::io::ErrorKind;

use txweir_core::base::queues::QueueSet;
use txweir_core::model::wire::{DescriptorCost, WireConfig};
use txweir_core::path::entry::HookCounts;
use txweir_core::text::value::text_of;
use txweir_core::turns::Quota;
use txweir_core::{Env, Instant, Rate};
use txweir_device::{Counters, Endpoint, IfName, Kind, LinkIo, OpenError};
use txweir_runtime::{Direction, DirectionConfig, E1000_DESCRIPTORS, WireSpec};
use txweir_tc::tool::Hook;

use crate::end::End;
use crate::grammar::{Change, LinkType, Make, Send};
use crate::machine::{Local, Machine};
use crate::passed::Passed;
use crate::queue_map::QueueMap;
use crate::traffic::{HEADERS, Traffic};
use crate::watch::Watch;
pub(crate) use copies::{Copies, Owners, holders, may_have_all, owners};
use copies::{ends, no_workers, open};
pub(crate) use sketch::Noted;

/// Bytes of an Ethernet header.
const LINK_HEADER: u32 = 14;
/// The reason for which a link without a device has no rate.
const NO_RATE: &str =
    "a null link takes what it is sent at once: expected type wire, tap, packet, xdp, vhost or vxlan";
/// The transmit queue length that ip(8) shows for a new Ethernet device.
const TXQUEUELEN: u32 = 1000;
/// MTU of Ethernet (RFC 894).
const MTU: u32 = 1500;

/// A link of the daemon.
#[derive(Debug)]
pub struct Link {
    /// Its name, which no other link has.
    pub name: IfName,
    /// The type of the device behind it.
    pub kind: LinkType,
    /// Number of transmit queues.
    pub queues: u32,
    /// The interface of a live link.
    pub endpoint: Option<Endpoint>,
    /// The link by which frames leave that come in here.
    pub peer: Option<IfName>,
    /// Its transmit path, up to the device.
    pub way: Direction<End>,
    /// Frames by where they came from and where they went.
    pub passed: Passed,
    /// The hook that tc has put on it.
    pub hook: Option<Hook>,
    /// Counters of its hooks.
    pub hook_counts: HookCounts,
    /// The time of the request that is performed.
    pub now: Instant,
    /// The next attempt to open an interface that is not there; `None` while it is there, or the
    /// loop has not noticed its absence.
    pub retry: Option<Instant>,
    /// The state of the watchdog of its interface.
    pub(crate) watch: Watch,
    /// True while the interface has not been there yet and its MTU will be the link's.
    finds_mtu: bool,
    /// The wire as it was given, with its present rate.
    wire: Option<WireSpec>,
    /// Counters of its interface before it was opened again.
    before: Counters,
    /// The bytes of tables of its qdiscs, once they were added up after a change.
    pub(crate) tables: Option<u64>,
    /// Its copies on other threads.
    pub(crate) copies: Copies,
}

/// The properties that all parts of a link have in common, each part on a worker of its own.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The wire; `None` for a link that is as fast as its interface.
    pub wire: Option<WireSpec>,
    /// Number of transmit queues.
    pub queues: u16,
    /// MTU, bytes.
    pub mtu: u32,
    /// Key of the flow hash.
    pub seed: u64,
}

/// Returns a number of transmit queues as core counts them; the grammar accepts at most 4096.
pub(crate) fn number_of(queues: u32) -> u16 {
    u16::try_from(queues).unwrap_or(QueueSet::QUEUES_MAX)
}

/// Returns what all links have in common. An idle qdisc takes no table, and the budget for tables
/// is that of all links together (`Links::set_tables`).
fn env() -> Env {
    Env { lazy: true, memory: u64::MAX, ..Env::default() }
}

/// Returns the default wire of [`WireSpec`] with this rate.
fn wire_of(rate: Rate) -> WireSpec {
    // The points are distinct and in range; otherwise one descriptor per packet would be used.
    let descriptors =
        DescriptorCost::from_points(&E1000_DESCRIPTORS).unwrap_or_else(|_| DescriptorCost::one());
    let wire = WireConfig { rate, descriptors, ..WireConfig::default() };
    WireSpec { wire, bql: DirectionConfig::default().bql }
}

impl Link {
    /// Makes a link with the default qdisc, and opens the interface of a live one on `machine`. If
    /// there is no such interface and `awaits` is true, the link waits for it. `turn`: the number
    /// by which ways with one owner go to the workers in turns. The caller sets the peer.
    ///
    /// # Errors
    /// One line that names the impossible parameter.
    pub fn new(make: &Make, machine: &dyn Machine, awaits: bool, turn: usize) -> Result<Self, String> {
        let kind = make.kind.unwrap_or_default();
        let change = &make.change;
        let says = |key: &str, what: &str| Err(format!("link {} {key}: {what}", change.name));
        let workers = usize::from(make.workers.unwrap_or(0));
        if let Some(why) = no_workers(kind).filter(|_| workers > 0) {
            return says("workers", why);
        }
        if kind == LinkType::Null && (make.wire.is_some() || change.rate.is_some()) {
            let key = if make.wire.is_some() { "wire" } else { "rate" };
            return says(key, NO_RATE);
        }
        let wire = match (&make.wire, change.rate, kind) {
            (Some(spec), ..) => Some(spec.clone()),
            (None, Some(rate), _) => Some(wire_of(rate)),
            (None, None, LinkType::Wire) => Some(wire_of(WireConfig::default().rate)),
            _ => None,
        };
        // Each worker has a queue, unless a wire has all of them.
        let queues = change.queues.unwrap_or(match wire {
            None if workers > 0 => u32::try_from(workers).unwrap_or(1),
            _ => 1,
        });
        let map = make.queue_map.clone().unwrap_or_default();
        map.check(number_of(queues)).map_err(|e| format!("link {} queue-map: {e}", change.name))?;
        let endpoint = endpoint(make, kind)?;
        let (mut ends, found_mtu) = match &endpoint {
            None => (vec![End::null()], None),
            Some(endpoint) => match open(machine, endpoint, workers) {
                Ok(handles) => {
                    let mtu = handles.first().and_then(mtu_of);
                    (ends(handles, workers, turn), mtu)
                }
                Err(error) if awaits && error.is_missing() => {
                    ((0..=workers).map(|_| End::awaited(&error)).collect(), None)
                }
                Err(error) => return Err(format!("link {}: {error}", change.name)),
            },
        };
        let env = Env {
            mtu: change.mtu.or(found_mtu).unwrap_or(MTU),
            link_header: LINK_HEADER,
            tx_queue_len: change.txqueuelen.unwrap_or(TXQUEUELEN),
            queues: number_of(queues),
            link_rate: wire.as_ref().map(|spec| spec.wire.rate),
            seed: machine.seed(change.name.as_str()),
            ..env()
        };
        let copy = |end| {
            let mut link = Self::with(change.name.clone(), kind, env, wire.clone(), end, PACKETS)?;
            link.endpoint = endpoint.clone();
            link.way.classifier_mut().set_prio_synack(change.prio_synack.unwrap_or(true));
            link.way.control(Instant::ZERO).set_fairsend(Quota::segs(change.fairsend.unwrap_or(0)));
            Ok::<_, String>(link)
        };
        let others = ends.split_off(1).into_iter().map(copy).collect::<Result<_, _>>()?;
        let mut link = copy(ends.pop().unwrap_or_else(End::null))?;
        link.finds_mtu = link.is_away() && change.mtu.is_none();
        link.copies = Copies { workers, map, turn, others, ..Copies::default() };
        Ok(link)
    }

    /// Makes the stub of a link that a worker without a part of it has: it reads the headers of
    /// frames that go there and chooses their queues as the link does ([`follow`](Self::follow)),
    /// and no frame waits in it.
    ///
    /// # Errors
    /// As [`new`](Self::new); none is expected, because the link is there.
    pub(crate) fn stub(&self) -> Result<Self, String> {
        let env = Env { queues: 1, ..*self.env() };
        let mut stub = Self::with(self.name.clone(), self.kind, env, None, End::spare(), 1)?;
        stub.endpoint.clone_from(&self.endpoint);
        stub.copies.is_stub = true;
        Ok(stub)
    }

    /// Returns the interface that a new link of this description has.
    ///
    /// # Errors
    /// One line that names the impossible parameter.
    pub(crate) fn endpoint_of(make: &Make) -> Result<Option<Endpoint>, String> {
        endpoint(make, make.kind.unwrap_or_default())
    }

    /// Makes a link that sends through this wire, if it has one, by an interface that is open
    /// already.
    ///
    /// # Errors
    /// One line that names the impossible parameter.
    pub fn over(
        name: IfName,
        endpoint: Endpoint,
        io: LinkIo,
        wire: Option<WireSpec>,
    ) -> Result<Self, String> {
        let seed = Local.seed(name.as_str());
        let mtu = mtu_over(&io, &endpoint)?;
        Self::part(name, endpoint, Some(io), &Part { wire, queues: 1, mtu, seed })
    }

    /// Makes the part of a link that one of several workers has. Its queues are the device's own; a
    /// worker without a handle of the interface never sends by it.
    ///
    /// # Errors
    /// One line that names the impossible parameter.
    pub(crate) fn part(
        name: IfName,
        endpoint: Endpoint,
        io: Option<LinkIo>,
        part: &Part,
    ) -> Result<Self, String> {
        let env = Env {
            mtu: part.mtu,
            link_rate: part.wire.as_ref().map(|wire| wire.wire.rate),
            queues: part.queues,
            seed: part.seed,
            ..env()
        };
        let word = io.as_ref().map(|io| io.kind());
        let kind = LinkType::Live(word.and_then(Kind::of).unwrap_or(Kind::Auto));
        let end = io.map_or_else(End::spare, End::Live);
        let mut link = Self::with(name, kind, env, part.wire.clone(), end, PACKETS)?;
        link.endpoint = Some(endpoint);
        Ok(link)
    }

    /// Makes a link whose frames go to this end, and in whose qdiscs this number of packets can
    /// wait.
    fn with(
        name: IfName,
        kind: LinkType,
        env: Env,
        wire: Option<WireSpec>,
        end: End,
        packets: usize,
    ) -> Result<Self, String> {
        let (model, bql) = match wire.clone() {
            Some(WireSpec { wire, bql }) => (Some(wire), bql),
            None => (None, None),
        };
        let config = DirectionConfig { wire: model, bql, env, packets, ..DirectionConfig::default() };
        let way = Direction::new(config, end).map_err(|e| format!("link {name}: {e}"))?;
        Ok(Self {
            name,
            kind,
            queues: u32::from(env.queues),
            endpoint: None,
            peer: None,
            way,
            passed: Passed::default(),
            hook: None,
            hook_counts: HookCounts::default(),
            now: Instant::ZERO,
            retry: None,
            watch: Watch::default(),
            finds_mtu: false,
            wire,
            before: Counters::default(),
            tables: None,
            copies: Copies::default(),
        })
    }

    /// Returns its interface as it was given, or its name if it has none.
    #[must_use]
    pub fn interface(&self) -> String {
        self.endpoint.as_ref().map_or_else(|| self.name.to_string(), Endpoint::to_string)
    }

    /// Returns the description of the link that its qdiscs get.
    #[must_use]
    pub fn env(&self) -> &Env {
        self.way.port().env()
    }

    /// Returns its wire, at the present rate.
    #[must_use]
    pub const fn wire(&self) -> Option<&WireSpec> {
        self.wire.as_ref()
    }

    /// Returns the bytes of tables that its qdiscs have, those of all copies.
    pub(crate) fn tables(&mut self) -> u64 {
        if let Some(known) = self.tables {
            return known;
        }
        let counted = self.real().map(|link| link.way.port().trees().tables()).fold(0, u64::saturating_add);
        self.tables = Some(counted);
        counted
    }

    /// Checks that these changes can be made, except the peer, which the caller checks.
    ///
    /// # Errors
    /// One line that names the refused change.
    pub fn check(&self, change: &Change) -> Result<(), String> {
        if let Some(queues) = change.queues.filter(|queues| *queues != self.queues)
            && let Err(err) = self.way.check_queues(number_of(queues))
        {
            return Err(format!("link {} queues: {err}", self.name));
        }
        if let Some(queues) = change.queues {
            let fits = self.copies.map.check(number_of(queues));
            fits.map_err(|e| format!("link {} queues: queue-map: {e}", self.name))?;
        }
        match (change.rate, &self.wire) {
            (Some(_), None) => Err(match self.kind {
                LinkType::Null => format!("link {} rate: {NO_RATE}", self.name),
                _ => format!(
                    "link {} rate: it was added without --rate and without --wire, and is as fast as its interface: \
                     delete it, and add it with one",
                    self.name
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the link is as `make` describes it, or can be changed to that.
    ///
    /// # Errors
    /// One line that names the difference.
    pub(crate) fn check_same(&self, make: &Make) -> Result<(), String> {
        let differs = |key: &str, is: &str, given: &str| {
            let how = "delete the link and add it";
            Err(format!(
                "link {} {key}: expected {is}, as it is, given {given} (to change it, {how})",
                self.name
            ))
        };
        if let Some(kind) = make.kind.filter(|kind| *kind != self.kind) {
            return differs("type", self.kind.name(), kind.name());
        }
        if make.interface.is_some()
            && let wanted = endpoint(make, self.kind)?
            && wanted != self.endpoint
        {
            let text =
                |e: &Option<Endpoint>| e.as_ref().map_or_else(|| "none".to_owned(), Endpoint::to_string);
            return differs("if", &text(&self.endpoint), &text(&wanted));
        }
        let is = self.copies.workers;
        if let Some(given) = make.workers.map(usize::from).filter(|given| *given != is) {
            return differs("workers", &is.to_string(), &given.to_string());
        }
        if let Some(given) = make.queue_map.as_ref().filter(|given| **given != self.copies.map) {
            return differs("queue-map", &self.copies.map.to_string(), &given.to_string());
        }
        if let Some(given) = &make.wire {
            let mut wanted = given.clone();
            let is = self.wire.as_ref().map_or_else(|| "none".to_owned(), WireSpec::to_string);
            if let Some(present) = &self.wire {
                wanted.wire.rate = present.wire.rate;
            }
            if self.wire.as_ref() != Some(&wanted) {
                return differs("wire", &format!("{is} or another rate"), &given.to_string());
            }
        }
        self.check(&make.change)
    }

    /// Returns the changes that [`change`](Self::change) would make, one line each.
    #[must_use]
    pub fn differences(&self, change: &Change) -> Vec<String> {
        let env = self.env();
        let mut said = Vec::new();
        let mut differs = |key: &str, is: String, wanted: String| {
            if is != wanted {
                said.push(format!("~ link {} {key} {is} -> {wanted}", self.name));
            }
        };
        let number = |n: u32| n.to_string();
        differs("mtu", number(env.mtu), number(change.mtu.unwrap_or(env.mtu)));
        let len = env.tx_queue_len;
        differs("txqueuelen", number(len), number(change.txqueuelen.unwrap_or(len)));
        differs("queues", number(self.queues), number(change.queues.unwrap_or(self.queues)));
        let is = self.way.classifier().prio_synack();
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        differs("prio-synack", word(is), word(change.prio_synack.unwrap_or(is)));
        let fairsend = self.way.fairsend().segs;
        differs("fairsend", number(fairsend), number(change.fairsend.unwrap_or(fairsend)));
        if let (Some(is), Some(wanted)) = (env.link_rate, change.rate) {
            differs("rate", text_of(&is), text_of(&wanted));
        }
        said
    }

    /// Makes changes that [`check`](Self::check) has accepted, to each copy.
    pub fn change(&mut self, now: Instant, change: &Change) {
        self.each_real(&mut |copy| copy.change_one(now, change));
    }

    fn change_one(&mut self, now: Instant, change: &Change) {
        let mut env = *self.env();
        env.mtu = change.mtu.unwrap_or(env.mtu);
        self.finds_mtu &= change.mtu.is_none();
        env.tx_queue_len = change.txqueuelen.unwrap_or(env.tx_queue_len);
        if let (Some(rate), Some(spec)) = (change.rate, &mut self.wire) {
            spec.wire.rate = rate;
            env.link_rate = Some(rate);
            self.way.control(now).set_rate(rate);
        }
        if let Some(on) = change.prio_synack {
            self.way.classifier_mut().set_prio_synack(on);
        }
        if let Some(segs) = change.fairsend.filter(|segs| *segs != self.way.fairsend().segs) {
            self.way.control(now).set_fairsend(Quota::segs(segs));
        }
        if env != *self.env() {
            self.way.control(now).set_env(env);
        }
        if let Some(queues) = change.queues.filter(|queues| *queues != self.queues) {
            let done = self.way.control(now).set_queues(number_of(queues));
            self.tables = None;
            // The change was checked before and is made now.
            self.queues = if done.is_ok() { queues } else { self.queues };
        }
    }

    /// Returns the generated packets of a `link send`.
    ///
    /// # Errors
    /// One line: the MTU does not allow the size, or the packets are too many for it.
    pub(crate) fn made_up(&self, send: &Send) -> Result<Traffic, String> {
        let most = self.env().frame_max().min(LARGEST_FRAME);
        let size = send.size.unwrap_or_else(|| most.max(HEADERS as u32));
        if size > most {
            return Err(format!("link {} size: expected 42 to {most} bytes, given {size}", self.name));
        }
        let in_all = u64::from(send.packets) * u64::from(size);
        if in_all > SEND_BYTES_MAX {
            let most = SEND_BYTES_MAX / u64::from(size);
            let name = &self.name;
            return Err(format!(
                "link {name} packets: expected at most {most} of {size} bytes, given {}",
                send.packets
            ));
        }
        Ok(Traffic::new(send.packets, size as usize, send.flows, send.tos))
    }

    /// Runs the events that are due at `now`.
    pub fn advance(&mut self, now: Instant) {
        if let Err(error) = self.way.advance(now) {
            self.lost(&error);
            // The second call cannot fail: frames sent to an interface that has disappeared are
            // lost.
            let _ = self.way.advance(now);
        }
    }

    /// Marks its interface as not working any more.
    pub fn lost(&mut self, error: &impl ToString) {
        if let Some(mut counters) = self.counters() {
            // Frames that wait in the buffer of the packet socket end with it.
            counters.rx_missed = counters
                .rx_seen
                .saturating_sub(counters.rx_frames + counters.rx_oversize + counters.rx_refused);
            self.before = counters;
        }
        self.way.device_mut().go(error.to_string());
    }

    /// True if its interface has disappeared, or has not been there yet.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.way.device().away().is_some()
    }

    /// Opens its interface by its name.
    ///
    /// # Errors
    /// One sentence that names the interface.
    pub fn open(&self, machine: &dyn Machine) -> Result<Option<Vec<LinkIo>>, OpenError> {
        let workers = self.copies.workers;
        self.endpoint.as_ref().map(|endpoint| open(machine, endpoint, workers)).transpose()
    }

    /// Puts the interface that [`open`](Self::open) has opened in the place of one that was not
    /// there. Qdiscs, waiting packets and counters stay.
    pub(crate) fn come_back(&mut self, now: Instant, handles: Vec<LinkIo>) {
        let found = handles.first().and_then(mtu_of).filter(|_| self.finds_mtu);
        let mut ends = ends(handles, self.copies.workers, self.copies.turn).into_iter();
        self.each_real(&mut |copy| {
            // Frames that the interface had are lost and reported; this cannot fail without it.
            let _ = copy.way.advance(now);
            copy.way.device_mut().come_back(ends.next().unwrap_or_else(End::spare));
            if let Some(mtu) = found.filter(|mtu| *mtu != copy.env().mtu) {
                let env = Env { mtu, ..*copy.env() };
                copy.way.control(now).set_env(env);
            }
            copy.advance(now);
        });
        self.retry = None;
        self.finds_mtu = false;
    }

    /// Returns `up`; for an interface also `down`, `moved` if it is open and in another namespace,
    /// `waiting` if it has not been there yet, or `gone` if it does not exist any more.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.way.device(), self.io()) {
            (End::Gone(..), _) => "gone",
            (End::Awaited(..), _) => "waiting",
            (_, None) => "up",
            (_, Some(io)) => match io.is_up() {
                Ok(true) => "up",
                Ok(false) => "down",
                Err(e) if e.kind() == ErrorKind::CrossesDevices => "moved",
                Err(_) => "gone",
            },
        }
    }

    /// Returns the counters of its interface, those of earlier interfaces of its name included.
    pub fn counters(&mut self) -> Option<Counters> {
        match self.way.device_mut() {
            End::Live(link) => Some(link.counters().plus(&self.before)),
            End::Gone(..) | End::Awaited(..) | End::Spare(_) => Some(self.before),
            End::Null(_) => None,
        }
    }

    /// Returns the words after `link replace` that make this link, except its peer.
    #[must_use]
    pub fn words(&self) -> String {
        let env = self.env();
        let mut words = format!("{} --type {}", self.name, self.kind.name());
        if self.queues > 1 || self.copies.workers > 1 {
            words.push_str(&format!(" --queues {}", self.queues));
        }
        if let Some(endpoint) = &self.endpoint {
            let place = protected(&endpoint.place());
            // Behind a blank it would be another option.
            let mark = if place.starts_with('-') { '=' } else { ' ' };
            words.push_str(&format!(" --if{mark}{place}"));
        }
        if self.copies.workers > 0 {
            words.push_str(&format!(" --workers {}", self.copies.workers));
        }
        if self.copies.map != QueueMap::default() {
            words.push_str(&format!(" --queue-map {}", protected(&self.copies.map.to_string())));
        }
        if !self.finds_mtu {
            words.push_str(&format!(" --mtu {}", env.mtu));
        }
        words.push_str(&format!(" --txqueuelen {}", env.tx_queue_len));
        if !self.way.classifier().prio_synack() {
            words.push_str(" --prio-synack off");
        }
        let fairsend = self.way.fairsend().segs;
        if fairsend > 0 {
            words.push_str(&format!(" --fairsend {fairsend}"));
        }
        if let Some(wire) = &self.wire {
            words.push_str(&format!(" --wire {wire}"));
        }
        words
    }
}

/// Most bytes of one `send`: those of [`SEND_MAX`](crate::grammar::SEND_MAX) full Ethernet frames.
/// Other links wait meanwhile, some milliseconds.
const SEND_BYTES_MAX: u64 = 16_384 * 1514;

/// Returns a word in the form of a tc line, in which blanks end a word and some characters are
/// special.
fn protected(word: &str) -> String {
    let special = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#');
    word.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Most packets that can wait in the qdiscs of a link, as in [`DirectionConfig`].
const PACKETS: usize = 16_384;

/// Bytes of the longest IPv4 packet behind an Ethernet header.
const LARGEST_FRAME: u32 = 65_535 + LINK_HEADER;

/// Returns the MTU of the interface of an endpoint, bytes.
///
/// # Errors
/// One line that names the interface: it is gone.
pub(crate) fn mtu_over(io: &LinkIo, endpoint: &Endpoint) -> Result<u32, String> {
    let mtu = io.mtu().map_err(|e| format!("interface `{endpoint}`: {e}"))?;
    Ok(u32::try_from(mtu).unwrap_or(u32::MAX))
}

/// Returns the MTU of an interface, bytes.
fn mtu_of(io: &LinkIo) -> Option<u32> {
    io.mtu().ok().and_then(|mtu| u32::try_from(mtu).ok())
}

/// Returns the interface of a live link.
fn endpoint(make: &Make, kind: LinkType) -> Result<Option<Endpoint>, String> {
    let name = &make.change.name;
    let kind = match (kind, &make.interface) {
        (LinkType::Live(kind), _) => kind,
        (_, None) => return Ok(None),
        (other, Some(given)) => {
            return Err(format!(
                "link {name} if: expected a link of type tap, packet, xdp, vhost or vxlan, given {given} for one of type {}",
                other.name()
            ));
        }
    };
    let text = make.interface.as_deref().unwrap_or(name.as_str());
    if text.contains(char::is_control) {
        return Err(format!(
            "link {name} if: expected [NETNS/]IF without control characters, given {text:?}"
        ));
    }
    let endpoint = match kind {
        Kind::Vhost | Kind::Vxlan => {
            let word = format!("{}:", kind.word());
            Endpoint::of(kind, text.strip_prefix(&word).unwrap_or(text))
        }
        _ => text.parse(),
    };
    let endpoint = endpoint.map_err(|e| format!("link {name} if: {e}"))?;
    if endpoint.kind != Kind::Auto && endpoint.kind != kind {
        return Err(format!(
            "link {name} if: expected [NETNS/]IF, given {text} (its type is said by --type)"
        ));
    }
    Ok(Some(Endpoint { kind, ..endpoint }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use txweir_tc::{Source, lex};

    #[test]
    fn protected_words_are_read_as_they_were() {
        for word in ["client/tap0", "/run/my netns/#1/tap0", "/a\"b'c\\d/x", "é #/y"] {
            let source = Arc::new(Source::new("s", protected(word)));
            let lines = lex::lines(&source, 0..source.text.len());
            let words = &lines[0].as_ref().unwrap().words;
            assert_eq!((lines.len(), words.len(), words[0].text.as_str()), (1, 1, word));
        }
    }
}
