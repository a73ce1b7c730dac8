//! A transport of another author at a host: it is told the true time at each datagram, waits while
//! its NIC has no room, and gets bytes and ECN fields as they were sent or marked.

use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::rc::Rc;

use txweir_core::model::wire::{Completion, WireConfig};
use txweir_core::path::txpath::PathConfig;
use txweir_core::{DqlConfig, Ecn, Instant, Nanos, Rate};
use txweir_lab::foreign::{Envelope, Foreign, Transport, address};
use txweir_lab::link::LinkConfig;
use txweir_lab::net::{MachineCounts, Net};
use txweir_lab::nic::NicConfig;
use txweir_tc::Policy;

use crate::common::{MS, US};

const DELAY: u64 = 5 * MS;

/// A transport that sends numbered datagrams, and echoes what it gets if it has none of its own.
#[derive(Default)]
struct Numbers {
    /// Numbers of datagrams to send at the deadline.
    sends: Vec<u8>,
    to: Option<SocketAddrV4>,
    at: Option<Instant>,
    /// Nanoseconds from a datagram to the deadline that it sets.
    after: Option<u64>,
    /// True if its deadline stays where it is.
    sticks: bool,
    ready: Vec<(Envelope, Vec<u8>)>,
    /// Numbers with the times at which they were asked for.
    sent: Vec<(u64, u8)>,
    got: Vec<(u64, u8, Ecn)>,
    timeouts: u32,
    /// Times of the calls for what was due.
    told: Vec<u64>,
}

impl Transport for Numbers {
    fn receive(&mut self, now: Instant, from: Envelope, datagram: &[u8]) {
        assert_eq!(datagram.len(), 1_000);
        self.got.push((now.0, datagram[0], from.ecn));
        self.at = self.after.map(|after| Instant(now.0 + after)).or(self.at);
        if self.to.is_none() {
            self.ready.push((Envelope { ecn: Ecn::NotEct, ..from }, datagram.to_vec()));
        }
    }
    fn transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<Envelope> {
        assert!(datagram.is_empty());
        let (to, bytes) = if self.ready.is_empty() { None } else { Some(self.ready.remove(0)) }?;
        self.sent.push((now.0, bytes[0]));
        datagram.extend(bytes);
        Some(to)
    }
    fn deadline(&mut self) -> Option<Instant> {
        self.at
    }
    fn timeout(&mut self, now: Instant) {
        self.timeouts += 1;
        if self.at.is_some_and(|at| at <= now) && !self.sticks {
            self.at = None;
            self.told.push(now.0);
            let peer = self.to.expect("it sends");
            for n in self.sends.drain(..) {
                self.ready.push((Envelope { peer, ecn: Ecn::Ect0 }, vec![n; 1_000]));
            }
        }
    }
}

/// Returns a net of two hosts at 10 Mbit/s, with room for 3 packets before the first.
fn net(qdisc: &str) -> Net {
    let mut net = Net::new(1);
    for _ in 0..2 {
        net.host(Default::default(), Default::default());
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let bql = DqlConfig { limit_min: 1_500, limit_max: 1_500, ..DqlConfig::default() };
        let path = PathConfig { bql: Some(bql), ..PathConfig::default() };
        let link = LinkConfig { delay: Nanos(DELAY), ..LinkConfig::default() };
        let rate = Rate::from_bits(10_000_000);
        let wire = WireConfig { rate, completion: Completion::Immediate, ..WireConfig::default() };
        net.link(from, to, NicConfig { path, wire, link, seed: 1 }).unwrap();
    }
    net.apply(0, &Policy::parse(&format!("qdisc add root {qdisc}"), "p").unwrap()).unwrap();
    net
}

/// Puts a sender of `count` datagrams at 2 ms, and an echo, at the hosts.
fn pair(net: &mut Net, count: u8) -> [Rc<RefCell<Numbers>>; 2] {
    let to = Some(SocketAddrV4::new(address(1), 9));
    let a = Numbers { sends: (0..count).collect(), to, at: Some(Instant(2 * MS)), ..Numbers::default() };
    let both = [a, Numbers::default()].map(|n| Rc::new(RefCell::new(n)));
    net.machine(0, Box::new(Foreign::new(Rc::clone(&both[0]), 0, 7)));
    net.machine(1, Box::new(Foreign::new(Rc::clone(&both[1]), 1, 9)));
    both
}

/// Time of a datagram on the wire: headers, preamble, FCS and gap included.
const ON_WIRE: u64 = (1_000 + 28 + 14 + 24) * 800;

#[test]
fn a_transport_is_asked_when_there_is_room_and_told_the_time() {
    let mut net = net("pfifo limit 3");
    let [a, b] = pair(&mut net, 20);
    net.run(Instant(100 * MS));
    let (a, b) = (a.borrow(), b.borrow());
    // All arrive, in order, as fast as the line is; nothing is lost on the way there and back.
    let arrived = |n: u64| 2 * MS + (n + 1) * ON_WIRE + DELAY;
    let expected: Vec<_> = (0..20).map(|n| (arrived(n), n as u8, Ecn::Ect0)).collect();
    assert_eq!(b.got, expected);
    assert_eq!(net.machine_counts(), MachineCounts::default());
    // Each is told of the start, and the first of its deadline.
    assert_eq!((a.timeouts, b.timeouts), (2, 1));
    let back: Vec<_> = (0..20).map(|n| (arrived(n) + ON_WIRE + DELAY, n as u8, Ecn::NotEct)).collect();
    assert_eq!(a.got, back);
    assert_eq!(b.sent, (0..20).map(|n| (arrived(n), n as u8)).collect::<Vec<_>>());
    // Few are asked for at once: those that fit, and the one that did not. Each later one is asked
    // for at the time at which one has left, not at that of the deadline.
    let at_once = a.sent.iter().filter(|(at, _)| *at == 2 * MS).count();
    assert!((5..=7).contains(&at_once), "{:?}", a.sent);
    for later in a.sent[at_once..].windows(2) {
        assert_eq!(later[1].0 - later[0].0, ON_WIRE, "{:?}", a.sent);
    }
}

#[test]
fn a_mark_of_a_qdisc_arrives() {
    // Every packet that is taken while another waits is marked: the ramp begins at 1 packet.
    let mut net = net("codel target 1us interval 2us ecn");
    let [_, b] = pair(&mut net, 30);
    net.run(Instant(100 * MS));
    let marks = b.borrow().got.iter().filter(|(.., ecn)| *ecn == Ecn::Ce).count();
    assert!(marks > 5, "{marks}");
    assert!(b.borrow().got.iter().all(|(.., ecn)| ecn.capable()));
}

#[test]
fn a_deadline_in_the_past_does_not_stop_the_time() {
    let mut net = net("pfifo");
    let stuck = Numbers { at: Some(Instant(MS)), sticks: true, ..Numbers::default() };
    let stuck = Rc::new(RefCell::new(stuck));
    net.machine(0, Box::new(Foreign::new(Rc::clone(&stuck), 0, 7)));
    net.run(Instant(MS + US));
    // Once at the start, and from the deadline on at most once each nanosecond.
    let timeouts = stuck.borrow().timeouts;
    assert!((3..=1_003).contains(&timeouts), "{timeouts}");
}

#[test]
fn a_datagram_for_another_port_is_not_taken() {
    let mut net = net("pfifo");
    let [a, b] = pair(&mut net, 1);
    a.borrow_mut().to = Some(SocketAddrV4::new(address(1), 10));
    net.run(Instant(50 * MS));
    assert_eq!((a.borrow().sent.len(), b.borrow().got.len()), (1, 0));
}

/// Its NIC has no room for most of the time at which datagrams arrive.
#[test]
fn a_deadline_that_a_datagram_sets_is_told_while_there_is_no_room() {
    let mut net = net("pfifo limit 3");
    let [a, _] = pair(&mut net, 20);
    a.borrow_mut().after = Some(100 * US);
    net.run(Instant(100 * MS));
    let a = a.borrow();
    let expected = a.got.iter().map(|(at, ..)| at + 100 * US);
    assert_eq!(a.got.len(), 20);
    assert_eq!(a.told, [2 * MS].into_iter().chain(expected).collect::<Vec<_>>());
}

#[test]
fn a_damaged_datagram_is_not_taken() {
    let mut net = net("netem corrupt 100%");
    let [a, b] = pair(&mut net, 20);
    net.run(Instant(100 * MS));
    assert_eq!((a.borrow().sent.len(), b.borrow().got.len()), (20, 0));
}
