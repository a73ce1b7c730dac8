//! Filters and actions: the deciding filter, the continuation, the memory, the counters.

use crate::common::action::Bench as OneAction;
use txweir_core::classify::action::gact::Chance;
use txweir_core::classify::action::pedit::{Header, Key, Pedit};
use txweir_core::classify::action::{Action, Control, Gact, Kind, Skbedit, Skbmod, State, Vlan, Wanted};
use txweir_core::classify::packet::{NoOutlet, Packet};
use txweir_core::classify::{
    action::Run,
    filter::{
        ANY_PROTOCOL, BlockId, Existence, Filters, Goal, Matchall, Named, RESTARTS_MAX, Rule, Tcpctl, Verdict,
    },
};
use txweir_core::packet::headers::{Headers, ethertype};
use txweir_core::{ErrorKind, Handle, Instant, Meta};

const ALL: Rule = Rule::Matchall(Matchall { skip_hw: false });

fn gact(control: Control) -> Action {
    Action::new(Kind::Gact(Gact::default()), control)
}

fn new(action: Action) -> Wanted {
    Wanted::New(None, Box::new(action))
}

fn goal(class: u32, actions: &[Wanted]) -> Goal {
    Goal { class: Handle(class), actions: actions.to_vec() }
}

fn at(chain: u32, prio: u16) -> Named {
    Named { chain, prio: Some(prio), ..Named::default() }
}

/// Returns a frame of IPv4.
fn ipv4() -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    frame[14] = 0x45;
    frame
}

struct Bench {
    filters: Filters,
    block: BlockId,
    state: State,
}

impl Bench {
    fn new() -> Self {
        let mut filters = Filters::new();
        let block = filters.add_block();
        Self { filters, block, state: State::new(1) }
    }
    fn put(&mut self, named: Named, class: u32, actions: &[Wanted]) {
        let goal = goal(class, actions);
        self.filters.put(self.block, named, &ALL, &goal, Existence::Add, Instant::ZERO).unwrap();
        self.filters.fit(&mut self.state);
    }
    /// Returns the verdict on a packet of IPv4, and its metadata afterwards.
    fn send(&mut self) -> (Verdict, Meta) {
        self.send_hashed(0)
    }
    /// As `send`, for a packet with this hash.
    fn send_hashed(&mut self, hash: u32) -> (Verdict, Meta) {
        self.send_frame(&mut ipv4(), hash)
    }
    /// As `send_hashed`, for a packet of these bytes.
    fn send_frame(&mut self, frame: &mut Vec<u8>, hash: u32) -> (Verdict, Meta) {
        let mut meta = Meta::new(frame.len() as u32).hash(hash);
        let headers = Headers::parse_ethernet(frame);
        let mut packet = Packet::new(frame, &mut meta, headers);
        let mut run = Run {
            actions: &self.filters.actions,
            state: &mut self.state,
            outlet: &mut NoOutlet,
            now: Instant(5),
            queues: 4,
        };
        let verdict = self.filters.classify(self.block, &mut packet, &mut run);
        (verdict, meta)
    }
}

#[test]
fn the_lowest_priority_that_matches_decides() {
    let mut b = Bench::new();
    assert_eq!(b.send().0, Verdict::Unmatched);
    b.put(at(0, 20), 0x1_0020, &[]);
    b.put(Named { protocol: Some(ethertype::ARP), ..at(0, 5) }, 0x1_0005, &[]);
    b.put(Named { protocol: Some(ethertype::IPV4), ..at(0, 10) }, 0x1_0010, &[]);
    assert_eq!(b.send().0, Verdict::Class(Handle(0x1_0010)));
    b.filters.delete(b.block, at(0, 10), None).unwrap();
    assert_eq!(b.send().0, Verdict::Class(Handle(0x1_0020)));
}

/// tcpctl counts the packets that it has looked at, and those that it has matched.
#[test]
fn control_segments_are_matched_and_counted() {
    let mut b = Bench::new();
    let rule = Rule::Tcpctl(Tcpctl {});
    b.filters.put(b.block, at(0, 1), &rule, &goal(7, &[]), Existence::Add, Instant::ZERO).unwrap();
    b.filters.fit(&mut b.state);
    // ACK, ACK with a byte, FIN with ACK, SYN, and UDP.
    for (protocol, flags, payload, matched) in [
        (6, 0x10, 0, true),
        (6, 0x10, 1, false),
        (6, 0x11, 0, false),
        (6, 0x02, 0, true),
        (17, 0x10, 0, false),
    ] {
        let mut frame = vec![0u8; 54 + payload];
        frame[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        frame[14] = 0x45;
        frame[17] = 40 + payload as u8;
        frame[23] = protocol;
        frame[46..48].copy_from_slice(&[0x50, flags]);
        let verdict = b.send_frame(&mut frame, 0).0;
        let expected = if matched { Verdict::Class(Handle(7)) } else { Verdict::Unmatched };
        assert_eq!(verdict, expected, "{protocol} {flags:#x} {payload}");
    }
    let block = b.filters.block(b.block).expect("a block");
    let mut counts = Vec::new();
    for table in block.chains().flat_map(|c| &c.tables) {
        block.visit(table, &mut |_, _, _, hits| {
            counts.extend((hits..hits + 2).map(|id| b.state.hits(&b.filters.counters, id)));
        });
    }
    assert_eq!(counts, [5, 2]);
}

#[test]
fn continue_asks_the_next_and_pipe_at_the_end_passes() {
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Continue))]);
    b.put(at(0, 2), 2, &[new(gact(Control::Pipe)), new(gact(Control::Pipe))]);
    assert_eq!(b.send().0, Verdict::Class(Handle(2)));
    for (control, verdict) in [
        (Control::Drop, Verdict::Drop),
        (Control::Stolen, Verdict::Stolen),
        (Control::Trap, Verdict::Stolen),
        (Control::Queued, Verdict::Stolen),
        (Control::Pass, Verdict::Class(Handle(3))),
        (Control::Repeat, Verdict::Class(Handle(3))),
    ] {
        let mut b = Bench::new();
        b.put(at(0, 1), 3, &[new(gact(control)), new(gact(Control::Drop))]);
        assert_eq!(b.send().0, verdict, "{control:?}");
    }
}

#[test]
fn restarts_and_jumps_are_bounded() {
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Reclassify))]);
    assert_eq!(b.send().0, Verdict::Drop);
    let (_, entry) = b.filters.actions.of_kind("gact").next().unwrap();
    assert_eq!((entry.refs, entry.binds), (1, 1));
    let id = b.filters.actions.find("gact", 1).unwrap();
    assert_eq!(b.state.memory(id).unwrap().packets, RESTARTS_MAX as u64 + 1);

    // The second filter jumps back to itself for ever.
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Pipe)), new(gact(Control::Jump(1)))]);
    assert_eq!(b.send().0, Verdict::Class(Handle(1)));
    // A jump over the middle one.
    let mut b = Bench::new();
    b.put(
        at(0, 1),
        1,
        &[
            new(gact(Control::Jump(2))),
            new(gact(Control::Drop)),
            new(Action::new(
                Kind::Skbedit(Skbedit { mark: Some((7, 0xff)), ..Skbedit::default() }),
                Control::Pipe,
            )),
        ],
    );
    let (verdict, meta) = b.send();
    assert_eq!((verdict, meta.mark), (Verdict::Class(Handle(1)), 7));
    // A jump beyond the last action.
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Jump(9))), new(gact(Control::Drop))]);
    assert_eq!(b.send().0, Verdict::Class(Handle(1)));
}

#[test]
fn goto_goes_to_a_chain_and_nowhere_if_it_is_empty() {
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Goto(7)))]);
    assert_eq!(b.send().0, Verdict::Unmatched);
    b.put(at(7, 1), 2, &[new(gact(Control::Continue))]);
    b.put(at(7, 2), 3, &[]);
    assert_eq!(b.send().0, Verdict::Class(Handle(3)));
    // A loop of two chains.
    let mut b = Bench::new();
    b.put(at(0, 1), 1, &[new(gact(Control::Goto(7)))]);
    b.put(at(7, 1), 1, &[new(gact(Control::Goto(0)))]);
    assert_eq!(b.send().0, Verdict::Drop);
}

#[test]
fn a_shared_action_counts_for_all_and_goes_with_the_last() {
    let mut b = Bench::new();
    let id = b.filters.actions.add(Some(9), gact(Control::Continue), Instant::ZERO).unwrap();
    let there = [Wanted::There("gact", 9)];
    b.put(at(0, 1), 0, &there);
    b.put(at(0, 2), 0, &there);
    b.send();
    assert_eq!(b.state.memory(id).unwrap().packets, 2);
    assert_eq!(b.state.memory(id).unwrap().used, Some(Instant(5)));
    let entry = b.filters.actions.entry(id).unwrap();
    assert_eq!((entry.refs, entry.binds), (3, 2));
    let err = b.filters.actions.delete("gact", 9).unwrap_err();
    assert_eq!(
        err.to_string(),
        "action gact index 9: expected an action that no filter holds, given \"held by 2\""
    );
    b.filters.delete(b.block, Named::default(), None).unwrap();
    assert_eq!(b.filters.actions.entry(id).unwrap().refs, 1);
    b.filters.actions.delete("gact", 9).unwrap();
    assert!(b.filters.actions.entry(id).is_none());
    // A new action in its place starts at zero.
    b.put(at(0, 1), 0, &[new(gact(Control::Pass))]);
    assert_eq!(b.state.memory(id).unwrap().packets, 0);
}

#[test]
fn a_filter_is_added_whole_or_not_at_all() {
    let mut b = Bench::new();
    let missing = goal(0, &[new(gact(Control::Pass)), Wanted::There("gact", 77)]);
    let err = b.filters.put(b.block, at(0, 1), &ALL, &missing, Existence::Add, Instant::ZERO).unwrap_err();
    assert_eq!((err.kind, err.key.as_deref()), (ErrorKind::NotFound, Some("index")));
    assert_eq!(b.filters.actions.of_kind("gact").count(), 0);
    assert!(b.filters.block(b.block).unwrap().chains().next().is_none());
    b.put(at(0, 1), 0, &[]);
    let one = goal(0, &[new(gact(Control::Drop))]);
    let err = b.filters.put(b.block, at(0, 1), &ALL, &one, Existence::Add, Instant::ZERO).unwrap_err();
    assert_eq!(err.to_string(), "filter matchall handle: expected no such filter yet, given \"0x1\"");
    assert_eq!(b.filters.actions.of_kind("gact").count(), 0);
    b.filters.put(b.block, at(0, 1), &ALL, &one, Existence::Replace, Instant::ZERO).unwrap();
    b.filters.fit(&mut b.state);
    assert_eq!(b.send().0, Verdict::Drop);
    let wrong = Named { protocol: Some(ethertype::ARP), ..at(0, 1) };
    let err = b.filters.put(b.block, wrong, &ALL, &one, Existence::Replace, Instant::ZERO).unwrap_err();
    assert_eq!(err.to_string(), "filter protocol: expected all, which priority 1 has, given \"arp\"");
}

#[test]
fn priorities_are_made_up_from_the_front() {
    let mut b = Bench::new();
    let prios = [0, 0, 0].map(|_| {
        let put =
            b.filters.put(b.block, Named::default(), &ALL, &Goal::default(), Existence::Add, Instant::ZERO);
        let named = put.unwrap();
        (named.prio, named.protocol)
    });
    let all = Some(ANY_PROTOCOL);
    assert_eq!(prios, [(Some(0xc000), all), (Some(0xbfff), all), (Some(0xbffe), all)]);
    // Priorities of the lower half are not looked at.
    b.put(at(0, 5), 0, &[]);
    let put = b.filters.put(b.block, Named::default(), &ALL, &Goal::default(), Existence::Add, Instant::ZERO);
    assert_eq!(put.unwrap().prio, Some(0xbffd));
}

#[test]
fn gact_does_something_else_now_and_then() {
    let every = Gact { instead: Some((Chance::Every(3), Control::Drop)) };
    let mut b = Bench::new();
    b.put(at(0, 1), 0, &[new(Action::new(Kind::Gact(every), Control::Pass))]);
    let dropped: Vec<bool> = (0..9).map(|_| b.send().0 == Verdict::Drop).collect();
    assert_eq!(dropped, [false, false, true, false, false, true, false, false, true]);
    let id = b.filters.actions.find("gact", 1).unwrap();
    assert_eq!(b.state.memory(id).unwrap().drops, 3);
    let random = Gact { instead: Some((Chance::Random(4), Control::Drop)) };
    let mut b = Bench::new();
    b.put(at(0, 1), 0, &[new(Action::new(Kind::Gact(random), Control::Pass))]);
    let dropped = (0..4000).filter(|_| b.send().0 == Verdict::Drop).count();
    assert!((850..1150).contains(&dropped), "{dropped}");
}

/// Linux counts a super-packet as one, in turns and in drops, and goes on counting turns where the
/// action is replaced.
#[test]
fn a_super_packet_is_one_turn_and_one_drop_of_gact() {
    let kind = |n| Kind::Gact(Gact { instead: Some((Chance::Every(n), Control::Drop)) });
    let mut one = OneAction::new(kind(2), Control::Pass);
    let dropped = |one: &mut OneAction| {
        let mut meta = Meta::new(54 + 2000).gso(54, 1000);
        let mut frame = ipv4();
        let headers = Headers::parse_ethernet(&frame);
        one.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant(5)) == Verdict::Drop
    };
    assert_eq!([(); 4].map(|()| dropped(&mut one)), [false, true, false, true]);
    assert_eq!((one.memory().drops, one.memory().packets), (2, 8));
    // The next packets are the fifth, the sixth and the seventh.
    one.replace(kind(3), Control::Pass, Instant(6));
    assert_eq!([(); 3].map(|()| dropped(&mut one)), [false, true, false]);
}

/// Linux keeps the protocol of a packet beside its bytes: skbmod and pedit do not change it, vlan
/// does.
#[test]
fn a_type_that_is_written_is_not_the_protocol_of_later_filters() {
    const OTHER: u16 = 0x88b5;
    let word = |header, offset, value, mask| Key { header, offset, value, mask, ..Key::default() };
    let kind = word(Header::Eth, 12, u32::from(OTHER) << 16, 0xffff);
    let tos = word(Header::Ip4, 0, 0x00b8_0000, 0xff00_ffff);
    let pedit = Pedit::new(vec![kind, tos], true).expect("two words");
    let skbmod = Skbmod { etype: Some(OTHER), ..Skbmod::default() };
    let push = Vlan::Push { id: 5, protocol: ethertype::VLAN, priority: 0 };
    for (kind, class, written, ds) in [
        (Kind::Skbmod(skbmod), 3, OTHER, 0),
        // The packet is read as IPv4 still.
        (Kind::Pedit(pedit), 3, OTHER, 0xb8),
        (Kind::Vlan(push), 2, ethertype::VLAN, 0),
    ] {
        let mut b = Bench::new();
        let of = |protocol, prio| Named { protocol: Some(protocol), ..at(0, prio) };
        b.put(of(ethertype::IPV4, 1), 0, &[new(Action::new(kind, Control::Continue))]);
        b.put(of(OTHER, 2), 1, &[]);
        b.put(of(ethertype::VLAN, 3), 2, &[]);
        b.put(of(ethertype::IPV4, 4), 3, &[]);
        let mut frame = ipv4();
        let (verdict, meta) = b.send_frame(&mut frame, 0);
        assert_eq!(verdict, Verdict::Class(Handle(class)));
        assert_eq!(frame[12..14], written.to_be_bytes());
        assert_eq!((meta.protocol, meta.ds), (ethertype::IPV4, ds));
    }
}

#[test]
fn skbedit_sets_what_it_is_given() {
    let edit = |edit: Skbedit| {
        let mut b = Bench::new();
        b.put(at(0, 1), 0, &[new(Action::new(Kind::Skbedit(edit), Control::Pipe))]);
        b.send().1
    };
    let m = edit(Skbedit { priority: Some(6), mark: Some((0xabcd, 0xff)), ..Skbedit::default() });
    assert_eq!((m.priority, m.mark), (6, 0xcd));
    assert_eq!(edit(Skbedit { queue_mapping: Some(3), ..Skbedit::default() }).queue, 3);
    // The device has four queues.
    assert_eq!(edit(Skbedit { queue_mapping: Some(4), ..Skbedit::default() }).queue, 0);
}

/// The hash chooses among all queues of a range, the first and the last included.
#[test]
fn skbedit_uses_every_queue_of_a_range() {
    let range = Skbedit { queue_mapping: Some(1), queue_mapping_max: Some(3), ..Skbedit::default() };
    let mut b = Bench::new();
    b.put(at(0, 1), 0, &[new(Action::new(Kind::Skbedit(range), Control::Pipe))]);
    let queues: Vec<u16> = (0..6).map(|hash| b.send_hashed(hash).1.queue).collect();
    assert_eq!(queues, [1, 2, 3, 1, 2, 3]);
}
