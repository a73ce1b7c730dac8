//! Filters at qdiscs: evaluated before a packet is queued, applied when it is queued.

use txweir_core::classify::action::{Action, Control, Gact, Kind, State, Wanted};
use txweir_core::classify::packet::{NoOutlet, Packet};
use txweir_core::classify::{
    action::Run,
    filter::{Existence, Filters, Goal, Matchall, Named, Rule},
};
use txweir_core::model::testing::VecDevice;
use txweir_core::packet::headers::{Headers, ethertype};
use txweir_core::packet::route::{Candidate, FilterOutcome, Route, Routed};
use txweir_core::sched::answer::Verdict;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, Detail, DropReason, Env, Handle, Instant, Meta, PathConfig, Role, TxPath};

const T0: Instant = Instant::ZERO;

struct Lane {
    path: TxPath<u32>,
    dev: VecDevice<u32>,
    filters: Filters,
    state: State,
}

impl Lane {
    fn new() -> Self {
        let env = Env { queues: 4, ..Env::default() };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, pool: 100, ..PathConfig::default() };
        let path = TxPath::new(config).unwrap();
        Self { path, dev: VecDevice::with_slots(0), filters: Filters::new(), state: State::new(0) }
    }
    fn qdisc(&mut self, parent: Handle, major: u16, line: &str) {
        let (kind, options) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = options.split_whitespace().collect();
        let handle = Some(Handle::new(major, 0));
        let put = self.path.configure(T0, &mut self.dev, |t, cx| {
            t.edit(cx).replace(parent, handle, kind, &mut Words::new(&words))
        });
        put.unwrap();
    }
    fn class(&mut self, parent: Handle, class: Handle, options: &str) {
        let words: Vec<&str> = options.split_whitespace().collect();
        let put = self.path.configure(T0, &mut self.dev, |t, cx| {
            t.edit(cx).add_class(parent, class, None, &mut Words::new(&words))
        });
        put.unwrap();
    }
    /// Adds a filter for all packets of a protocol; without a class, with an action only.
    fn filter(&mut self, at: Handle, protocol: u16, class: Handle, control: Control) {
        let block = self.path.tree().block(at).unwrap_or_else(|| {
            let block = self.filters.add_block();
            self.path.configure(T0, &mut self.dev, |t, cx| t.edit(cx).set_block(at, Some(block)));
            block
        });
        let action = Wanted::New(None, Box::new(Action::new(Kind::Gact(Gact::default()), control)));
        let goal = Goal { class, actions: vec![action] };
        let named = Named { protocol: Some(protocol), ..Named::default() };
        self.filters
            .put(block, named, &Rule::Matchall(Matchall::default()), &goal, Existence::Add, T0)
            .unwrap();
        self.filters.fit(&mut self.state);
    }
    fn route(&mut self, protocol: u16, meta: &mut Meta) -> Routed {
        let mut frame = vec![0u8; 60];
        frame[12..14].copy_from_slice(&protocol.to_be_bytes());
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, meta, headers);
        let mut run = Run {
            actions: &self.filters.actions,
            state: &mut self.state,
            outlet: &mut NoOutlet,
            now: T0,
            queues: 4,
        };
        self.path.tree().route(&self.filters, &mut packet, &mut run)
    }
    /// Sends a packet. Returns its fate, and the class in which it waits.
    fn send(&mut self, protocol: u16, priority: u32) -> (Option<Admitted<u32>>, Option<String>) {
        self.send_meta(protocol, Meta::new(60).priority(priority))
    }
    /// As `send`, for a packet with this metadata.
    fn send_meta(&mut self, protocol: u16, mut meta: Meta) -> (Option<Admitted<u32>>, Option<String>) {
        let Routed::Go(route) = self.route(protocol, &mut meta) else { return (None, None) };
        let detail = Detail { route, ..Detail::default() };
        let done = self.path.submit_with(T0, 1, meta, Some(&detail), &mut self.dev);
        let mut place = None;
        self.path.tree().queued(&self.path.cx().pool, &mut |parent, _, _| place = Some(parent.to_string()));
        self.path.configure(T0, &mut self.dev, |t, cx| t.root_mut().purge(cx));
        (Some(done), place)
    }
    fn place(&mut self, protocol: u16, priority: u32) -> String {
        let (done, place) = self.send(protocol, priority);
        place.unwrap_or_else(|| format!("{done:?}"))
    }
}

const IP: u16 = ethertype::IPV4;
const ARP: u16 = ethertype::ARP;
const V6: u16 = ethertype::IPV6;
const DROPPED: &str = "Some(Dropped(Filtered))";

fn h(major: u16, minor: u16) -> Handle {
    Handle::new(major, minor)
}

#[test]
fn filters_of_prio_choose_a_band_by_the_minor_number() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "prio");
    lane.filter(h(1, 0), IP, h(1, 3), Control::Pass);
    lane.filter(h(1, 0), ARP, h(9, 2), Control::Pass);
    lane.filter(h(1, 0), V6, Handle::NONE, Control::Pass);
    assert_eq!([lane.place(IP, 0), lane.place(ARP, 0)], ["1:3", "1:2"], "the major does not matter");
    // No class: the band of priority 0. No match: the band of the packet's own priority.
    assert_eq!([lane.place(V6, 6), lane.place(0x1234, 6)], ["1:2", "1:1"]);
    // A priority that names a band has precedence.
    assert_eq!(lane.place(IP, h(1, 1).0), "1:1");
}

#[test]
fn each_qdisc_on_the_way_is_asked() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "prio");
    lane.qdisc(h(1, 2), 2, "drr");
    for minor in [1, 2] {
        lane.class(h(2, 0), h(2, minor), "quantum 1000");
    }
    lane.filter(h(1, 0), IP, h(1, 2), Control::Pass);
    lane.filter(h(2, 0), IP, h(2, 2), Control::Pass);
    lane.filter(h(2, 0), ARP, h(3, 1), Control::Pass);
    assert_eq!(lane.place(IP, 0), "2:2");
    // prio's own map leads there; drr knows no class 3:1, nor any for IPv6.
    assert_eq!([lane.place(ARP, 0), lane.place(V6, 0)], ["Some(Dropped(NoClass))", DROPPED].map(|_| DROPPED));
    assert_eq!(lane.place(IP, h(1, 1).0), "1:1", "by its priority, past the filters of 1:");
    let books = |lane: &Lane, handle: Handle| {
        let mut found = None;
        lane.path.tree().visit(&mut |_, node| {
            if node.handle() == handle {
                found = Some(node.books());
            }
        });
        found.unwrap()
    };
    // A packet that a filter drops is counted as dropped at the filter's qdisc, and so in all
    // above.
    assert_eq!([h(1, 0), h(2, 0)].map(|at| books(&lane, at).dropped.packets), [4, 3]);
}

#[test]
fn htb_asks_inner_classes_and_goes_by_its_default() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "htb default 0x30");
    lane.class(h(1, 0), h(1, 1), "rate 8mbit");
    for minor in [0x10, 0x20, 0x30] {
        lane.class(h(1, 1), h(1, minor), "rate 1mbit");
    }
    lane.filter(h(1, 0), IP, h(1, 1), Control::Pass);
    lane.filter(h(1, 0), ARP, h(1, 0x20), Control::Pass);
    lane.filter(h(1, 0), V6, h(1, 0x99), Control::Pass);
    assert_eq!(lane.place(IP, 0), "1:30", "an inner class without filters");
    lane.filter(h(1, 1), IP, h(1, 0x10), Control::Pass);
    assert_eq!([lane.place(IP, 0), lane.place(ARP, 0), lane.place(V6, 0)], ["1:10", "1:20", "1:30"]);
    // The priority names an inner class: the filters of that class run, not those of the qdisc.
    assert_eq!([lane.place(IP, h(1, 1).0), lane.place(ARP, h(1, 1).0)], ["1:10", "1:30"]);
    lane.filter(h(1, 0), 0x1234, h(1, 0), Control::Pass);
    assert_eq!(lane.place(0x1234, 0), "root", "unshaped");
}

/// The filters of the qdisc in a class see the packets for which the class was chosen ahead of the
/// queue, whether the root has filters or not.
#[test]
fn a_class_that_was_chosen_ahead_leads_past_the_filters_in_it() {
    for root_has_filters in [false, true] {
        let mut lane = Lane::new();
        lane.qdisc(Handle::ROOT, 1, "htb default 2");
        for minor in [1, 2] {
            lane.class(h(1, 0), h(1, minor), "rate 1mbit");
        }
        lane.qdisc(h(1, 1), 0x10, "prio");
        lane.qdisc(h(0x10, 1), 0x20, "pfifo limit 1");
        lane.filter(h(0x10, 0), ARP, Handle::NONE, Control::Drop);
        lane.filter(h(0x10, 0), V6, h(0x10, 1), Control::Pass);
        if root_has_filters {
            lane.filter(h(1, 0), 0x1234, h(1, 1), Control::Pass);
        }
        let ahead = |class: Handle, priority: u32| {
            let mut meta = Meta::new(60).priority(priority);
            meta.class = class;
            meta
        };
        let place = |lane: &mut Lane, protocol, meta| {
            let (done, place) = lane.send_meta(protocol, meta);
            place.unwrap_or_else(|| format!("{done:?}"))
        };
        let chosen = ahead(h(1, 1), 6);
        assert_eq!(place(&mut lane, ARP, chosen), DROPPED, "{root_has_filters}");
        assert_eq!(place(&mut lane, V6, chosen), "10:1", "{root_has_filters}");
        // A priority that names a class has precedence, and no class is the default.
        assert_eq!(place(&mut lane, ARP, ahead(h(1, 1), h(1, 2).0)), "1:2", "{root_has_filters}");
        assert_eq!(place(&mut lane, ARP, ahead(Handle::NONE, 6)), "1:2", "{root_has_filters}");
        // Whether there is room is asked where the packet would wait: its band is full.
        let mut meta = chosen;
        let Routed::Go(route) = lane.route(V6, &mut meta) else { panic!("{root_has_filters}") };
        let detail = Detail { route, ..Detail::default() };
        let done = lane.path.submit_with(T0, 1, meta, Some(&detail), &mut lane.dev);
        assert_eq!(done, Admitted::Queued, "{root_has_filters}");
        let accepts =
            |meta: &Meta| lane.path.tree().root().would_accept(&Candidate { meta, route: Some(&route) });
        assert_eq!(accepts(&chosen), Verdict::Full, "{root_has_filters}");
        assert_eq!(accepts(&ahead(Handle::NONE, 6)), Verdict::Accept, "{root_has_filters}");
    }
}

/// The flow that a filter names has its part of the room, whatever the hashes of its packets.
#[test]
fn a_flow_that_a_filter_names_is_asked_for_its_own_room() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "cake besteffort flows memlimit 30000");
    lane.filter(h(1, 0), IP, h(1, 7), Control::Pass);
    let offer = |lane: &mut Lane, protocol, hash| {
        let mut meta = Meta::new(1000).hash(hash);
        let Routed::Go(route) = lane.route(protocol, &mut meta) else { panic!("it goes on") };
        let asked = Candidate { meta: &meta, route: Some(&route) };
        let answer = lane.path.tree().root().would_accept(&asked);
        if answer == Verdict::Accept {
            let detail = Detail { route, ..Detail::default() };
            let done = lane.path.submit_with(T0, 1, meta, Some(&detail), &mut lane.dev);
            assert_eq!(done, Admitted::Queued);
        }
        answer
    };
    // A packet takes 2304 bytes of memory, and a flow may have a quarter of the free memory.
    let (taken, waits) = (Verdict::Accept, Verdict::FlowFull);
    assert_eq!([1, 2, 3, 4, 5].map(|hash| offer(&mut lane, IP, hash)), [taken, taken, taken, waits, waits]);
    assert_eq!([4, 5].map(|hash| offer(&mut lane, V6, hash)), [taken, taken], "flows of their own");
}

/// A sender that waits is not made to wait for the room of a packet that filters drop.
#[test]
fn a_packet_that_filters_drop_needs_no_room() {
    let mut lane = Lane::new();
    lane.path.role = Role::Origin;
    lane.qdisc(Handle::ROOT, 1, "drr");
    lane.class(h(1, 0), h(1, 1), "quantum 1000");
    lane.filter(h(1, 0), ARP, h(1, 1), Control::Pass);
    lane.filter(h(1, 0), IP, Handle::NONE, Control::Drop);
    let mut send = |protocol| {
        let mut meta = Meta::new(60);
        let Routed::Go(route) = lane.route(protocol, &mut meta) else { panic!("it goes on") };
        let detail = Detail { route, ..Detail::default() };
        lane.path.submit_with(T0, 1, meta, Some(&detail), &mut lane.dev)
    };
    assert_eq!(send(ARP), Admitted::Queued);
    assert_eq!(send(IP), Admitted::Dropped(DropReason::Filtered));
}

#[test]
fn flows_are_named_or_the_packet_is_dropped() {
    for kind in ["fq_codel flows 16", "sfq"] {
        let mut lane = Lane::new();
        lane.qdisc(Handle::ROOT, 1, kind);
        assert_eq!(lane.place(IP, 0), "root");
        lane.filter(h(1, 0), IP, h(1, 7), Control::Pass);
        lane.filter(h(1, 0), ARP, Handle::NONE, Control::Pass);
        assert_eq!(
            [lane.place(IP, 0), lane.place(ARP, 0), lane.place(V6, 0)],
            ["root", DROPPED, DROPPED],
            "{kind}"
        );
        let mut meta = Meta::new(60);
        let Routed::Go(route) = lane.route(IP, &mut meta) else { panic!() };
        assert_eq!(route.outcome(0, 1), FilterOutcome::Class(h(1, 7)));
    }
}

#[test]
fn actions_drop_steal_and_change() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "prio");
    lane.filter(h(1, 0), IP, h(1, 1), Control::Drop);
    lane.filter(h(1, 0), ARP, h(1, 1), Control::Stolen);
    assert_eq!(lane.place(IP, 0), DROPPED);
    assert_eq!(lane.send(ARP, 0).0, None);
    let books = lane.path.tree().root().books();
    assert_eq!((books.admitted.packets, books.dropped.packets), (1, 1));
    assert_eq!(lane.path.cx().drops(DropReason::Filtered), 1);
    assert_eq!(lane.path.tree().root().account().reasons().drops[DropReason::Filtered as usize], 1);
}

#[test]
fn a_qdisc_with_filters_is_not_passed_by() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "fq_codel");
    lane.dev.set_slots(100);
    let _ = lane.path.drain(T0, 64, &mut lane.dev);
    assert_eq!(lane.send(IP, 0).0, Some(Admitted::Sent));
    lane.filter(h(1, 0), IP, h(1, 1), Control::Drop);
    let _ = lane.path.drain(T0, 64, &mut lane.dev);
    assert_eq!(lane.place(IP, 0), DROPPED);
}

/// Random filters at every qdisc of a tree of three levels: at every node a packet that came in
/// waits, left or was dropped, and a packet waits in the class that the filters chose.
#[test]
fn nothing_is_lost_whatever_filters_say() {
    use txweir_core::base::rng::Rng;
    let (mut dropped, mut queued, mut stolen) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut lane = Lane::new();
        lane.qdisc(Handle::ROOT, 1, ["prio", "ets bands 3"][seed as usize % 2]);
        lane.qdisc(h(1, 1), 2, "htb default 2");
        lane.class(h(2, 0), h(2, 9), "rate 1mbit");
        for minor in [1, 2, 3] {
            lane.class(h(2, 9), h(2, minor), "rate 1mbit");
        }
        lane.qdisc(h(1, 2), 3, "drr");
        lane.class(h(3, 0), h(3, 1), "quantum 1000");
        lane.qdisc(h(2, 1), 4, "fq_codel");
        lane.qdisc(h(3, 1), 5, "sfq");
        for _ in 0..6 {
            let at = [h(1, 0), h(2, 0), h(2, 9), h(3, 0), h(4, 0), h(5, 0)][rng.below(6) as usize];
            let class = h(at.major(), rng.below(4) as u16);
            let controls = [
                Control::Pass,
                Control::Pass,
                Control::Pass,
                Control::Drop,
                Control::Stolen,
                Control::Continue,
            ];
            let protocol = [IP, ARP, V6][rng.below(3) as usize];
            lane.filter(at, protocol, class, controls[rng.below(6) as usize]);
        }
        let mut offered = 0;
        for n in 0..60 {
            let mut meta = Meta::new(60 + rng.below(100) as u32).priority(rng.below(8) as u32);
            let protocol = [IP, ARP, V6, 0x1234][n % 4];
            match lane.route(protocol, &mut meta) {
                Routed::Stolen => stolen += 1,
                Routed::Go(route) => {
                    let detail = Detail { route, ..Detail::default() };
                    let done = lane.path.submit_with(T0, 1, meta, Some(&detail), &mut lane.dev);
                    offered += 1;
                    let said_drop =
                        (0..8).any(|d| (1..6).any(|major| route.outcome(d, major) == FilterOutcome::Drop));
                    assert_eq!(
                        done == Admitted::Dropped(DropReason::Filtered),
                        said_drop,
                        "seed {seed}: {route:?}"
                    );
                }
            }
            let mut below = Vec::new();
            lane.path
                .tree()
                .queued(&lane.path.cx().pool, &mut |_, handle, m| below.push((handle, m.wire_len)));
            lane.path.tree().visit(&mut |_, node| {
                let b = node.books();
                assert_eq!(b.admitted.packets, b.sent.packets + b.dropped.packets + b.queued.packets);
                assert_eq!(b.dropped.packets, node.account().reasons().dropped(), "seed {seed}");
                if node.qdisc().classes().is_empty() && !node.handle().is_none() {
                    let own: Vec<u32> =
                        below.iter().filter(|(at, _)| *at == node.handle()).map(|(_, l)| *l).collect();
                    let waits = (own.len() as u64, own.iter().map(|l| u64::from(*l)).sum::<u64>());
                    assert_eq!(waits, (b.queued.packets, b.queued.bytes), "seed {seed}");
                }
            });
        }
        let root = lane.path.tree().root().books();
        assert_eq!(root.admitted.packets, offered);
        assert_eq!(lane.dev.discarded().len() as u64, root.dropped.packets);
        dropped += root.dropped.packets;
        queued += root.queued.packets;
    }
    assert!(dropped > 1000 && queued > 1000 && stolen > 300, "{dropped} {queued} {stolen}");
}

#[test]
fn what_was_said_of_a_qdisc_is_not_said_of_another() {
    let mut lane = Lane::new();
    lane.qdisc(Handle::ROOT, 1, "prio");
    lane.filter(h(1, 0), IP, h(1, 3), Control::Pass);
    let mut meta = Meta::new(60);
    let Routed::Go(route) = lane.route(IP, &mut meta) else { panic!() };
    assert_eq!(
        [route.outcome(0, 1), route.outcome(0, 2), route.outcome(1, 1)],
        [FilterOutcome::Class(h(1, 3)), FilterOutcome::Nothing, FilterOutcome::Nothing]
    );
    assert!(!route.is_empty() && Route::default().is_empty());
    assert_eq!(route.outcome(99, 1), FilterOutcome::Nothing);
    // The qdisc is removed, and its filters with it.
    lane.qdisc(Handle::ROOT, 2, "prio");
    assert_eq!(lane.path.tree().block(h(1, 0)), None);
    assert_eq!(lane.place(IP, 0), "2:2");
}
