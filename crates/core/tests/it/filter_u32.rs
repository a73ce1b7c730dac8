//! u32: the filters that it finds, against a plain matcher and golden vectors; refusals; counters;
//! time.

use std::collections::BTreeMap;

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::{Action, Control, Gact, Kind, Skbedit, State, Wanted};
use txweir_core::classify::filter::u32::{
    DEPTH_MAX, Device, HashKey, KEYS_MAX, Key, Match, Offset, Read, STEPS_MAX, Selector, U32,
};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Existence, Filters, Goal, Named, Rule, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{ConfigError, Handle, Instant, Meta};

struct Bench {
    filters: Filters,
    block: BlockId,
    state: State,
}

fn key(value: u32, mask: u32, at: i32) -> Key {
    Key { value, mask, at, next: false }
}

fn next(value: u32, mask: u32, at: i32) -> Key {
    Key { next: true, ..key(value, mask, at) }
}

fn keys(keys: &[Key]) -> Match {
    Match { selector: Some(Selector { keys: keys.to_vec(), ..Selector::default() }), ..Match::default() }
}

fn link(table: u32, filter: Match) -> Match {
    Match { link: Some(table << 20), ..filter }
}

fn within(table: u32, bucket: u32, filter: Match) -> Match {
    Match { table: Some(table << 20 | bucket << 12), ..filter }
}

fn class(minor: u16) -> Goal {
    Goal { class: Handle::new(1, minor), actions: Vec::new() }
}

fn prio(prio: u16) -> Named {
    Named { prio: Some(prio), ..Named::default() }
}

fn handle(at: u16, handle: u32) -> Named {
    Named { handle: Some(handle), ..prio(at) }
}

impl Bench {
    fn new() -> Self {
        let mut filters = Filters::new();
        let block = filters.add_block();
        Self { filters, block, state: State::new(1) }
    }
    fn put(&mut self, named: Named, rule: U32, goal: &Goal, what: Existence) -> Result<u32, ConfigError> {
        let done = self.filters.put(self.block, named, &Rule::U32(rule), goal, what, Instant::ZERO);
        self.filters.fit(&mut self.state);
        done.map(|named| named.handle.expect("a handle"))
    }
    fn add(&mut self, named: Named, filter: Match, goal: &Goal) -> Result<u32, ConfigError> {
        self.put(named, U32::Filter(Box::new(filter)), goal, Existence::Add)
    }
    fn filter(&mut self, at: u16, filter: Match, minor: u16) -> u32 {
        self.add(prio(at), filter, &class(minor)).expect("added")
    }
    fn table(&mut self, at: u16, id: u32, divisor: u16) {
        self.put(handle(at, id << 20), U32::Table(divisor), &Goal::default(), Existence::Add).expect("added");
    }
    fn delete(&mut self, at: u16, id: u32) -> Result<(), ConfigError> {
        self.filters.delete(self.block, handle(at, id), None)
    }
    fn ask(&mut self, frame: &[u8], change: impl FnOnce(&mut Meta)) -> (Verdict, Meta) {
        self.ask_on(Way::Egress, frame, change)
    }
    fn ask_on(&mut self, way: Way, frame: &[u8], change: impl FnOnce(&mut Meta)) -> (Verdict, Meta) {
        let mut meta = Meta::new(u32::try_from(frame.len()).unwrap());
        change(&mut meta);
        let mut frame = frame.to_vec();
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
        packet.iif = PortId(7);
        let (actions, now) = (&self.filters.actions, Instant(5));
        let mut run = Run { actions, state: &mut self.state, outlet: &mut NoOutlet, now, queues: 8 };
        let verdict = self.filters.classify(self.block, &mut packet, &mut run);
        (verdict, meta)
    }
    fn class(&mut self, frame: &[u8]) -> u16 {
        self.class_on(Way::Egress, frame)
    }
    /// Returns the class of a frame that goes this way.
    fn class_on(&mut self, way: Way, frame: &[u8]) -> u16 {
        match self.ask_on(way, frame, |_| {}).0 {
            Verdict::Unmatched => 0,
            Verdict::Class(class) => class.minor(),
            other => panic!("{other:?}"),
        }
    }
    /// Returns handles, and the counts of each filter.
    fn shown(&self) -> Vec<(u32, Vec<u64>)> {
        let mut all = Vec::new();
        let block = self.filters.block(self.block).expect("a block");
        for table in block.chains().flat_map(|c| &c.tables) {
            block.visit(table, &mut |handle, rule, _, hits| {
                let count = match rule {
                    Rule::U32(U32::Filter(filter)) => 3 + filter.selector.unwrap_or_default().keys.len(),
                    _ => 0,
                };
                let count = u32::try_from(count).unwrap();
                all.push((
                    handle,
                    (hits..hits + count).map(|id| self.state.hits(&self.filters.counters, id)).collect(),
                ));
            });
        }
        all
    }
}

/// Returns UDP over IPv4 from 10.0.0.1 to 192.168.8.9, port 5000 to `dport`, with this number of
/// words of options.
fn udp(dport: u16, options: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([
        0x45 + options,
        0,
        0,
        28 + 4 * options,
        0,
        1,
        0x40,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        0,
        1,
        192,
        168,
        8,
        9,
    ]);
    frame.extend(vec![1; usize::from(options) * 4]);
    frame.extend(5000u16.to_be_bytes());
    frame.extend(dport.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame
}

#[test]
fn a_port_is_sent_to_a_queue_of_its_own() {
    // tc filter add ... u32 match ip dport 118 0xffff action skbedit queue_mapping 4
    let mut b = Bench::new();
    let edit = Kind::Skbedit(Skbedit { queue_mapping: Some(4), ..Skbedit::default() });
    let goal = Goal {
        class: Handle::NONE,
        actions: vec![Wanted::New(None, Box::new(Action::new(edit, Control::Pipe)))],
    };
    assert_eq!(b.add(prio(1), keys(&[key(118, 0xffff, 20)]), &goal), Ok(0x8000_0800));
    assert_eq!(b.ask(&udp(118, 0), |_| {}).1.queue, 4);
    assert_eq!(b.ask(&udp(119, 0), |_| {}).1.queue, 0);
    // A frame without the bytes of the port does not match that port.
    assert_eq!(b.ask(&udp(118, 0)[..36], |_| {}).1.queue, 0);
}

#[test]
fn a_header_of_any_length_is_gone_over() {
    let mut b = Bench::new();
    b.table(1, 1, 1);
    b.filter(1, within(1, 0, keys(&[next(53, 0xffff, 0)])), 2);
    let read = Some(Read { at: 0, mask: 0x0f00, shift: 6 });
    let mut udp_only = keys(&[key(17 << 16, 0xff << 16, 8), key(0, 0x1fff, 4)]);
    let offset = Some(Offset { plus: 0, read });
    udp_only.selector.as_mut().unwrap().offset = offset;
    b.add(prio(1), link(1, udp_only), &Goal::default()).unwrap();
    for options in 0..=10 {
        assert_eq!((b.class(&udp(53, options)), b.class(&udp(54, options))), (2, 0), "{options}");
    }
}

#[test]
fn a_bucket_is_chosen_by_a_word() {
    let mut b = Bench::new();
    b.table(1, 2, 256);
    let hash = HashKey { mask: 0x0000_ff00, at: 16 };
    let mut to = keys(&[]);
    to.selector.as_mut().unwrap().hash = hash;
    b.add(prio(1), link(2, to), &Goal::default()).unwrap();
    for bucket in 0..256 {
        b.filter(1, within(2, bucket, keys(&[])), u16::try_from(bucket + 1).unwrap());
    }
    for third in 0..=255u8 {
        let mut frame = udp(1, 0);
        frame[32] = third;
        assert_eq!(b.class(&frame), u16::from(third) + 1);
    }
    // One filter was tried in the table, of any size.
    assert!(
        b.shown()
            .iter()
            .filter(|(handle, _)| handle >> 20 == 2 && handle & 0xfff != 0)
            .all(|(_, c)| c[0] == 1)
    );
}

#[test]
fn a_word_beyond_the_packet_ends_the_walk() {
    let mut b = Bench::new();
    b.filter(1, keys(&[key(0, 0, 1000)]), 1);
    b.filter(1, keys(&[]), 2);
    b.filter(2, keys(&[]), 3);
    assert_eq!(b.class(&udp(1, 0)), 3);
    // The link header is at negative offsets, and no bytes stand before it.
    let mut b = Bench::new();
    b.filter(1, keys(&[key(0x0200_0000, u32::MAX, -14)]), 1);
    assert_eq!(b.class(&udp(1, 0)), 1);
    // A word that begins there has zeros in front; a word that also ends there does not exist.
    for (value, at, found) in [(0x0002_0000, -15, 1), (0x0000_0200, -16, 1), (2, -17, 1), (0, -18, 0)] {
        let mut b = Bench::new();
        b.filter(1, keys(&[key(value, u32::MAX, at)]), 1);
        assert_eq!(b.class(&udp(1, 0)), found, "{at}");
    }
    // A word that a mask of no bits accepts must exist all the same; the last word of the packet
    // does.
    let mut b = Bench::new();
    b.filter(1, keys(&[key(0, 0, 24)]), 1);
    b.filter(1, keys(&[]), 2);
    assert_eq!((b.class(&udp(1, 0)), b.class(&udp(1, 0)[..41])), (1, 0));
}

/// `match ether dst 02:00:00:00:00:02`, `ether src 02:00:00:00:00:01` and the type of IPv4, as tc
/// makes words of them. Linux takes the tag off a frame that arrives, and the addresses stand next
/// to the type behind it.
#[test]
fn the_link_header_is_in_front_of_the_network_header_once_a_tag_is_off() {
    let dst = [key(0x0200, 0xffff, -16), key(2, u32::MAX, -12)];
    let src = [key(0x0200_0000, u32::MAX, -8), key(1 << 16, 0xffff_0000, -4)];
    let kind = [key(0x0800, 0xffff, -4)];
    let mut tagged = udp(1, 0);
    tagged.splice(12..12, [0x81, 0, 0x60, 3]);
    for (words, of_tagged) in [(&dst[..], 0), (&src[..], 0), (&kind[..], 1)] {
        let mut b = Bench::new();
        b.filter(1, keys(words), 1);
        let plain = [Way::Ingress, Way::Egress].map(|way| b.class_on(way, &udp(1, 0)));
        assert_eq!(plain, [1, 1], "{words:?}");
        assert_eq!(b.class_on(Way::Ingress, &tagged), 1, "{words:?}");
        // A frame that is sent has its tag between them.
        assert_eq!(b.class_on(Way::Egress, &tagged), of_tagged, "{words:?}");
    }
    // The tag's own bytes are at no offset of a frame that has arrived, and words behind are not
    // moved.
    let mut b = Bench::new();
    b.filter(1, keys(&[key(0x8100_6003, u32::MAX, -6)]), 1);
    b.filter(2, keys(&[key(0x0800_4500, u32::MAX, -2)]), 2);
    assert_eq!([Way::Ingress, Way::Egress].map(|way| b.class_on(way, &tagged)), [2, 1]);
}

#[test]
fn links_go_eight_deep() {
    for depth in [1, DEPTH_MAX, DEPTH_MAX + 1] {
        let mut b = Bench::new();
        let last = u32::try_from(depth).unwrap();
        (1..=last).for_each(|id| b.table(1, id, 1));
        b.add(prio(1), link(1, keys(&[])), &Goal::default()).unwrap();
        for id in 1..last {
            b.add(prio(1), within(id, 0, link(id + 1, keys(&[]))), &Goal::default()).unwrap();
        }
        b.filter(1, within(last, 0, keys(&[])), 5);
        b.filter(1, keys(&[]), 6);
        assert_eq!(b.class(&udp(1, 0)), if depth <= DEPTH_MAX { 5 } else { 0 }, "{depth}");
    }
    // A table that links to itself.
    let mut b = Bench::new();
    b.table(1, 1, 1);
    b.add(prio(1), within(1, 0, link(1, keys(&[]))), &Goal::default()).unwrap();
    b.add(prio(1), link(1, keys(&[])), &Goal::default()).unwrap();
    b.filter(1, keys(&[]), 1);
    assert_eq!(b.class(&udp(1, 0)), 0);
}

#[test]
fn a_walk_ends_after_so_many_filters() {
    // Eight tables of twelve links each to the next table: 12 to the eighth paths.
    let mut b = Bench::new();
    (1..=8).for_each(|id| b.table(1, id, 1));
    b.add(prio(1), link(1, keys(&[])), &Goal::default()).unwrap();
    for id in 1..8 {
        for _ in 0..12 {
            b.add(prio(1), within(id, 0, link(id + 1, keys(&[]))), &Goal::default()).unwrap();
        }
    }
    b.filter(1, keys(&[]), 1);
    assert_eq!(b.class(&udp(1, 0)), 0);
    let looked: u64 = b.shown().iter().filter_map(|(_, counters)| counters.first()).sum();
    assert_eq!(looked, u64::from(STEPS_MAX));
}

#[test]
fn what_was_looked_at_and_what_decided_is_counted() {
    let mut b = Bench::new();
    b.filter(
        1,
        Match { mark: Some((5, 0xff)), ..keys(&[key(17 << 16, 0xff << 16, 8), key(118, 0xffff, 20)]) },
        1,
    );
    b.filter(1, keys(&[key(0, 1, 20)]), 2);
    for (dport, mark) in [(118, 0x105), (119, 5), (118, 6), (117, 5)] {
        b.ask(&udp(dport, 0), |m| m.mark = mark);
    }
    let shown = b.shown();
    assert_eq!(shown[0], (0x8000_0000, vec![]));
    assert_eq!(shown[1], (0x8000_0800, vec![4, 1, 3, 3, 1]));
    assert_eq!(shown[2], (0x8000_0801, vec![3, 1, 0, 1]));
}

#[test]
fn actions_may_let_the_next_filter_decide() {
    let mut b = Bench::new();
    let goes_on = Wanted::New(None, Box::new(Action::new(Kind::Gact(Gact::default()), Control::Continue)));
    b.table(1, 1, 1);
    let goal = Goal { class: Handle::new(1, 1), actions: vec![goes_on] };
    b.add(prio(1), within(1, 0, keys(&[])), &goal).unwrap();
    b.filter(1, link(1, keys(&[])), 2);
    assert_eq!(b.class(&udp(1, 0)), 2);
}

#[test]
fn where_it_comes_in_may_matter() {
    let mut b = Bench::new();
    let from = |port| Some(Device { port: PortId(port), name: "x".into() });
    b.filter(1, Match { indev: from(6), ..keys(&[]) }, 1);
    b.filter(1, Match { indev: from(7), ..keys(&[]) }, 2);
    assert_eq!(b.class(&udp(1, 0)), 2);
}

#[test]
fn tables_are_of_the_block() {
    let mut b = Bench::new();
    b.table(9, 5, 1);
    b.filter(9, within(5, 0, keys(&[])), 7);
    b.add(prio(1), link(5, keys(&[])), &Goal::default()).unwrap();
    assert_eq!(b.class(&udp(1, 0)), 7);
    // Copies that readers have do not change with it.
    let before = b.filters.clone();
    b.add(prio(1), within(5, 0, keys(&[])), &class(8)).unwrap();
    b.filters.delete(b.block, handle(1, 0x0050_0800), None).unwrap();
    assert_eq!(b.class(&udp(1, 0)), 8);
    let now = std::mem::replace(&mut b.filters, before);
    assert_eq!(b.class(&udp(1, 0)), 7);
    b.filters = now;
    // A table that another priority has made stays while a filter links to it, and is removed with
    // the last link.
    b.filters.delete(b.block, prio(9), None).unwrap();
    assert_eq!(b.class(&udp(1, 0)), 8);
    b.filters.delete(b.block, prio(1), None).unwrap();
    assert!(b.filters.is_empty());
    assert_eq!(b.filter(3, keys(&[]), 1), 0x8000_0800);
}

#[test]
fn actions_go_with_tables() {
    let mut b = Bench::new();
    let drop = || Wanted::New(None, Box::new(Action::new(Kind::Gact(Gact::default()), Control::Drop)));
    let held = |b: &Bench| b.filters.actions.of_kind("gact").count();
    b.table(1, 5, 4);
    for bucket in 0..4 {
        let goal = Goal { class: Handle::NONE, actions: vec![drop(), drop()] };
        b.add(prio(1), within(5, bucket, keys(&[])), &goal).unwrap();
    }
    b.filter(2, keys(&[]), 1);
    assert_eq!(held(&b), 8);
    b.delete(1, 0x0050_1800).unwrap();
    assert_eq!(held(&b), 6);
    b.delete(1, 0x0050_0000).unwrap();
    assert_eq!(held(&b), 0);
    // Filters of a table that outlives its priority are removed with the table.
    b.table(1, 5, 1);
    b.add(prio(1), within(5, 0, keys(&[])), &Goal { class: Handle::NONE, actions: vec![drop()] }).unwrap();
    b.filters.delete(b.block, prio(1), None).unwrap();
    assert_eq!(held(&b), 1);
    b.filters.delete(b.block, prio(2), None).unwrap();
    assert_eq!(held(&b), 0);
}

#[test]
fn chains_have_tables_of_their_own() {
    let mut b = Bench::new();
    b.filter(1, keys(&[]), 1);
    b.add(Named { chain: 5, ..prio(1) }, keys(&[]), &class(2)).unwrap();
    let handles: Vec<u32> = b.shown().iter().map(|(handle, _)| *handle).collect();
    assert_eq!(handles, [0x8000_0000, 0x8000_0800, 0x8010_0000, 0x8010_0800]);
}

#[test]
fn a_replaced_filter_matches_what_it_says_now() {
    let mut b = Bench::new();
    let id = b.filter(1, Match { mark: Some((0, 1)), ..keys(&[key(1, 0xffff, 20)]) }, 1);
    let again = |b: &mut Bench, filter: Match, minor| {
        b.put(handle(1, id), U32::Filter(Box::new(filter)), &class(minor), Existence::Replace).unwrap();
        (b.class(&udp(1, 0)), b.class(&udp(2, 0)))
    };
    assert_eq!(again(&mut b, keys(&[key(2, 0xffff, 20)]), 2), (0, 2));
    // A replacement without a match keeps the old match.
    assert_eq!(again(&mut b, Match::default(), 3), (0, 3));
    b.table(1, 1, 1);
    b.filter(1, within(1, 0, keys(&[])), 4);
    assert_eq!(again(&mut b, link(1, Match::default()), 5), (0, 4));
    assert_eq!(again(&mut b, Match::default(), 5), (0, 4));
    assert!(b.delete(1, 0x0010_0000).is_err());
    assert_eq!(again(&mut b, link(0, Match::default()), 6), (0, 6));
    b.delete(1, 0x0010_0000).unwrap();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut b = Bench::new();
    b.table(1, 5, 4);
    let first = b.filter(1, keys(&[]), 1);
    b.add(prio(1), link(5, keys(&[])), &Goal::default()).unwrap();
    let many = vec![Key::default(); KEYS_MAX + 1];
    let shift = Some(Offset { plus: 0, read: Some(Read { at: 0, mask: 1, shift: 16 }) });
    let shifted =
        Match { selector: Some(Selector { offset: shift, ..Selector::default() }), ..Match::default() };
    let before = b.shown();
    let filters: [(Named, Match, &str); 12] = [
        (handle(1, first), keys(&[]), "filter u32 handle: expected no such filter yet, given \"0x80000800\""),
        (handle(1, 0x800), keys(&[]), "filter u32 handle: expected no such filter yet, given \"0x80000800\""),
        (
            handle(1, 0x0050_0000),
            keys(&[]),
            "filter u32 handle: expected no such filter yet, given \"0x500000\"",
        ),
        (
            handle(1, 0x0050_0001),
            keys(&[]),
            "filter u32 handle: expected a handle in table 800:, given \"5::1\" (ht chooses the table; without it a \
             filter is in the root of its priority)",
        ),
        (prio(1), within(6, 0, keys(&[])), "filter u32 ht: expected a table that exists, given \"6:\""),
        (
            prio(1),
            within(5, 4, keys(&[])),
            "filter u32 ht: expected a bucket of table 5:, up to 3, given \"5:4:\"",
        ),
        (prio(1), link(6, keys(&[])), "filter u32 link: expected a table that exists, given \"6:\""),
        (
            prio(1),
            link(0x800, keys(&[])),
            "filter u32 link: expected a table that divisor has made, given \"800:\"",
        ),
        (
            prio(1),
            Match { link: Some(0x0050_1000), ..keys(&[]) },
            "filter u32 link: expected a table, given \"5:1:\"",
        ),
        (prio(1), Match::default(), "filter u32 match: expected what to match, given nothing"),
        (prio(1), keys(&many), "filter u32 match: expected at most 128 words of a packet, given \"129\""),
        (prio(1), shifted, "filter u32 offset: expected a shift below 16, given \"16\""),
    ];
    for (named, filter, said) in filters {
        assert_eq!(b.add(named, filter, &class(1)).unwrap_err().to_string(), said);
    }
    for (named, divisor, said) in [
        (prio(1), 3, "filter u32 divisor: expected a power of two up to 256, given \"3\""),
        (prio(1), 512, "filter u32 divisor: expected a power of two up to 256, given \"512\""),
        (handle(1, 5 << 20), 4, "filter u32 handle: expected no such filter yet, given \"0x500000\""),
        (
            handle(1, 1),
            4,
            "filter u32 divisor: expected the handle of a table, as divisor makes one, given \"0::1\"",
        ),
    ] {
        let err = b.put(named, U32::Table(divisor), &Goal::default(), Existence::Add).unwrap_err();
        assert_eq!(err.to_string(), said);
    }
    let err = b.put(prio(1), U32::Root, &Goal::default(), Existence::Add).unwrap_err();
    assert_eq!(err.to_string(), "filter u32 handle: expected a filter or a table of its own, given \"0:\"");
    for (id, said) in [
        (5 << 20, "filter u32 handle: expected a table that no filter links to, given \"5:, held by 1\""),
        (0x800 << 20, "filter u32 handle: expected a table that divisor has made, given \"800:\""),
        (6 << 20, "filter u32 handle: expected a filter that exists, given \"0x600000\""),
        (0x8000_0900, "filter u32 handle: expected a filter that exists, given \"0x80000900\""),
    ] {
        assert_eq!(b.delete(1, id).unwrap_err().to_string(), said);
    }
    assert_eq!(b.shown(), before);
    // A priority that could not get its first filter does not exist.
    assert!(b.add(prio(7), link(6, keys(&[])), &class(1)).is_err());
    assert_eq!(b.shown(), before);
}

#[test]
fn ids_go_from_the_middle_and_then_from_the_front() {
    let mut b = Bench::new();
    let first: Vec<u32> = (0..2050).map(|_| b.filter(1, keys(&[key(1, 1, 12)]), 1) & 0xfff).collect();
    assert_eq!((first[0], first[2047], first[2048], first[2049]), (0x800, 0xfff, 1, 2));
    for _ in 2050..4095 {
        b.filter(1, keys(&[key(1, 1, 12)]), 1);
    }
    let err = b.add(prio(1), keys(&[]), &class(1)).unwrap_err();
    assert_eq!(err.to_string(), "filter u32 ht: expected a bucket that is not full, given \"800:\"");
}

/// Filters as a plain matcher keeps them: by table, bucket and order.
type Plain = BTreeMap<(u32, u32), Vec<(Match, u16)>>;

struct Reader<'a> {
    plain: &'a Plain,
    divisors: &'a BTreeMap<u32, u16>,
    frame: &'a [u8],
    next: i64,
}

/// The walk is over, without a match.
struct Over;

impl Reader<'_> {
    /// Returns a number of the frame. In front of the frame there are zeros, but it has to end
    /// behind them.
    fn bytes(&self, at: i64, count: usize) -> Result<u32, Over> {
        let end = usize::try_from(at + count as i64).ok().filter(|end| *end > 0).ok_or(Over)?;
        let bytes = self.frame.get(end.saturating_sub(count)..end).ok_or(Over)?;
        Ok(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    fn walk(&mut self, table: u32, bucket: u32, base: i64, depth: usize) -> Result<Option<u16>, Over> {
        for (filter, class) in self.plain.get(&(table, bucket)).into_iter().flatten() {
            let selector = filter.selector.as_ref().unwrap();
            let mut all = true;
            for key in &selector.keys {
                let from = if key.next { base + self.next } else { base };
                all = all && self.bytes(from + i64::from(key.at), 4)? & key.mask == key.value & key.mask;
                if !all {
                    break;
                }
            }
            if !all {
                continue;
            }
            if let Some(to) = filter.link {
                if depth == DEPTH_MAX {
                    return Err(Over);
                }
                if let Some(class) = self.follow(to >> 20, selector, base, depth)? {
                    return Ok(Some(class));
                }
            }
            if *class != 0 {
                return Ok(Some(*class));
            }
        }
        Ok(None)
    }

    fn follow(&mut self, to: u32, selector: &Selector, base: i64, depth: usize) -> Result<Option<u16>, Over> {
        let divisor = u32::from(self.divisors[&to]);
        let HashKey { mask, at } = selector.hash;
        let bucket = match divisor {
            1 => 0,
            _ => match self.bytes(base + i64::from(at), 4)? & mask {
                0 => 0,
                word => (word >> mask.trailing_zeros()) % divisor,
            },
        };
        if let Some(Offset { plus, read }) = selector.offset {
            let said = match read {
                Some(read) => {
                    (self.bytes(base + i64::from(read.at), 2)? & u32::from(read.mask)) >> read.shift
                }
                None => 0,
            };
            self.next = (i64::from(plus) + i64::from(said)).div_ceil_four();
        }
        let mut inner = base;
        if selector.eat {
            inner += std::mem::take(&mut self.next);
        }
        if (selector.eat || selector.offset.is_some()) && inner >= self.frame.len() as i64 {
            return Ok(None);
        }
        self.walk(to, bucket, inner, depth + 1)
    }
}

trait Four {
    fn div_ceil_four(self) -> Self;
}

impl Four for i64 {
    /// Rounds up to a multiple of four.
    fn div_ceil_four(self) -> Self {
        if self % 4 == 0 { self } else { self - self % 4 + 4 }
    }
}

fn any_filter(rng: &mut Rng) -> Match {
    let pick = |rng: &mut Rng, from: &[u32]| from[rng.below(from.len() as u64) as usize];
    let masks = [0, 1, 4, 0x80, 0x0100_0000, 0xff, 0x00ff_0000];
    let mut selector = Selector::default();
    for _ in 0..rng.below(4) {
        let mask = pick(rng, &masks);
        let at = pick(rng, &[0, 4, 8, 12, 20, 36]) as i32 - if rng.below(4) == 0 { 16 } else { 0 };
        let value = if rng.below(2) == 0 { mask } else { 0 };
        selector.keys.push(Key { value, mask, at, next: rng.below(3) == 0 });
    }
    let mut link = None;
    if rng.below(2) == 0 {
        link = Some((1 + rng.below(4) as u32) << 20);
        if rng.below(2) == 0 {
            let mask = pick(rng, &[0xff, 0xff00, 0x0f00_0000, 0x1f0, u32::MAX]);
            selector.hash = HashKey { mask, at: pick(rng, &[0, 4, 40]) as i16 };
        }
        if rng.below(2) == 0 {
            let (at, mask) = (rng.below(5) as i16 * 2 - 2, pick(rng, &[0xf00, 0xff, 0xffff]) as u16);
            let read = Some(Read { at, mask, shift: rng.below(16) as u8 }).filter(|_| rng.below(2) == 0);
            selector.offset = Some(Offset { plus: pick(rng, &[0, 1, 4, 20, 70]) as u16, read });
        }
        selector.eat = rng.below(3) == 0;
    }
    Match { selector: Some(selector), link, ..Match::default() }
}

#[test]
fn it_finds_what_a_plain_matcher_finds() {
    let runs = std::env::var("TXWEIR_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let (mut found, mut asked) = (0, 0);
    for seed in 0..runs {
        let rng = &mut Rng::new(seed);
        let mut b = Bench::new();
        let (mut plain, mut divisors) = (Plain::new(), BTreeMap::new());
        for id in 1..=4 {
            let divisor = 1 << rng.below(9);
            b.table(1, id, divisor);
            divisors.insert(id, divisor);
        }
        for number in 1..=rng.below(20) as u16 {
            let class = if rng.below(3) > 0 { number } else { 0 };
            let mut filter = any_filter(rng);
            let id = rng.below(5) as u32;
            let bucket =
                if id == 0 || rng.below(2) == 0 { 0 } else { rng.below(divisors[&id].into()) as u32 };
            if id != 0 {
                filter = within(id, bucket, filter);
            }
            let goal = if class == 0 { Goal::default() } else { self::class(class) };
            b.add(prio(1), filter.clone(), &goal).unwrap();
            plain.entry((id, bucket)).or_default().push((filter, class));
        }
        for _ in 0..30 {
            let mut frame = vec![0; 14];
            frame[12] = 8;
            let bytes = [0, 0, 1, 4, 5, 0x45, 0x80, 0xff];
            frame.extend((0..rng.below(70)).map(|_| bytes[rng.below(8) as usize]));
            let mut reader = Reader { plain: &plain, divisors: &divisors, frame: &frame, next: 0 };
            let plainly = reader.walk(0, 0, 14, 0).ok().flatten().unwrap_or(0);
            assert_eq!(b.class(&frame), plainly, "seed {seed}, frame {frame:x?}");
            found += u32::from(plainly != 0);
            asked += 1;
        }
    }
    assert!(found > asked / 10 && found < asked, "{found} of {asked}");
}

#[test]
fn any_bytes_are_walked_over() {
    for seed in 0..200 {
        let rng = &mut Rng::new(seed);
        let mut b = Bench::new();
        (1..=4).for_each(|id| b.table(1, id, 16));
        for _ in 0..10 {
            let mut filter = any_filter(rng);
            let selector = filter.selector.as_mut().unwrap();
            selector.keys.iter_mut().for_each(|key| key.at = rng.next_u64() as i32);
            selector.hash.at = rng.next_u64() as i16;
            let id = rng.below(5) as u32;
            if id != 0 {
                filter = within(id, 0, filter);
            }
            b.add(prio(1), filter, &class(1)).unwrap();
        }
        for len in [0, 1, 13, 14, 15, 17, 18, 40, 1500] {
            let frame: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            b.class(&frame);
        }
    }
}
