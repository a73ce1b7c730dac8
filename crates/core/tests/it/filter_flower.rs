//! flower against a matcher that tries one filter after the other, and the promises of its tables.

use std::collections::BTreeMap;

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Existence, Filters, Flower, Goal, Named, Rule, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{ErrorKind, Handle, Instant, Meta};

/// Fields that random filters match on: some of each word.
const FIELDS: [Field; 12] = [
    Field::DST_MAC,
    Field::ETH_TYPE,
    Field::VLAN_ID,
    Field::VLAN_PRIO,
    Field::VLAN_COUNT,
    Field::IP_PROTO,
    Field::IP_TOS,
    Field::IP_FLAGS,
    Field::SRC_IP,
    Field::DST_IP,
    Field::SRC_PORT,
    Field::DST_PORT,
];

struct Bench {
    filters: Filters,
    block: BlockId,
    state: State,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut filters = Filters::new().with_seed(seed);
        let block = filters.add_block();
        Self { filters, block, state: State::new(1) }
    }
    fn put(&mut self, handle: u32, rule: &Flower, class: u32, what: Existence) -> Result<u32, ErrorKind> {
        let named = Named { prio: Some(1), handle: Some(handle), ..Named::default() };
        let goal = Goal { class: Handle(class), actions: Vec::new() };
        let done =
            self.filters.put(self.block, named, &Rule::Flower(rule.clone()), &goal, what, Instant::ZERO);
        done.map(|named| named.handle.expect("it has one")).map_err(|err| err.kind)
    }
    fn delete(&mut self, handle: u32) -> bool {
        let named = Named { prio: Some(1), handle: Some(handle), ..Named::default() };
        self.filters.delete(self.block, named, None).is_ok()
    }
    /// Returns the class of a frame.
    fn class(&mut self, frame: &[u8]) -> Option<u32> {
        let (mut frame, mut meta) = (frame.to_vec(), Meta::new(frame.len() as u32));
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), Way::Egress);
        packet.iif = PortId(3);
        let (actions, outlet) = (&self.filters.actions, &mut NoOutlet);
        let mut run = Run { actions, state: &mut self.state, outlet, now: Instant::ZERO, queues: 1 };
        match self.filters.classify(self.block, &mut packet, &mut run) {
            Verdict::Class(class) => Some(class.0),
            Verdict::Unmatched => None,
            other => panic!("{other:?}"),
        }
    }
    fn handles(&self) -> Vec<u32> {
        let mut all = Vec::new();
        let Some(block) = self.filters.block(self.block) else { return all };
        let Some(chain) = block.chains().next() else { return all };
        block.visit(&chain.tables[0], &mut |handle, _, _, _| all.push(handle));
        all
    }
}

/// Returns the value of a field of a frame, read from its bytes by hand: of IPv4 and its tags.
fn says(frame: &[u8], field: Field) -> u128 {
    let be = |at: usize, len: usize| -> u128 {
        frame.get(at..at + len).map_or(0, |b| b.iter().fold(0, |n, byte| n << 8 | u128::from(*byte)))
    };
    let tagged = be(12, 2) == 0x8100;
    let ip = if tagged { 18 } else { 14 };
    let whole = be(ip + 6, 2) & 0x3fff == 0;
    let ported = whole && matches!(be(ip + 9, 1), 6 | 17);
    match field {
        Field::DST_MAC => be(0, 6),
        Field::ETH_TYPE => be(ip - 2, 2),
        Field::VLAN_ID if tagged => be(14, 2) & 0xfff,
        Field::VLAN_PRIO if tagged => be(14, 2) >> 13,
        Field::VLAN_COUNT => tagged.into(),
        Field::IP_PROTO => be(ip + 9, 1),
        Field::IP_TOS => be(ip + 1, 1),
        Field::IP_FLAGS => match be(ip + 6, 2) & 0x3fff {
            0 => 0,
            0x2000 => 3,
            _ => 1,
        },
        Field::SRC_IP => be(ip + 12, 4),
        Field::DST_IP => be(ip + 16, 4),
        Field::SRC_PORT if ported => be(ip + 20, 2),
        Field::DST_PORT if ported => be(ip + 22, 2),
        _ => 0,
    }
}

/// Draws one of few values of a field, so that filters match frames often.
fn draw(rng: &mut Rng, field: Field) -> u128 {
    let few = rng.below(3);
    match field {
        Field::DST_MAC => 0x02_00_00_00_00_00 + u128::from(few),
        Field::ETH_TYPE => 0x0800,
        Field::VLAN_COUNT => u128::from(few & 1),
        Field::IP_PROTO => [6, 17, 47][few as usize],
        Field::IP_FLAGS => [0, 1, 3][few as usize],
        Field::SRC_IP | Field::DST_IP => 0x0a00_0000 + u128::from(rng.below(3) << 8 | few),
        Field::SRC_PORT | Field::DST_PORT => u128::from(few * 100),
        _ => u128::from(few),
    }
}

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut v = |field| draw(rng, field);
    let mut frame = (v(Field::DST_MAC) as u64).to_be_bytes()[2..].to_vec();
    frame.extend([2, 0, 0, 0, 0, 9]);
    if v(Field::VLAN_COUNT) == 1 {
        let tci = (v(Field::VLAN_PRIO) << 13 | v(Field::VLAN_ID)) as u16;
        frame.extend([0x81, 0]);
        frame.extend(tci.to_be_bytes());
    }
    let fragment = [0x4000u16, 3, 0x2000][v(Field::VLAN_ID) as usize % 3];
    frame.extend([8, 0, 0x45, v(Field::IP_TOS) as u8, 0, 40, 0, 1]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, v(Field::IP_PROTO) as u8, 0, 0]);
    frame.extend((v(Field::SRC_IP) as u32).to_be_bytes());
    frame.extend((v(Field::DST_IP) as u32).to_be_bytes());
    frame.extend((v(Field::SRC_PORT) as u16).to_be_bytes());
    frame.extend((v(Field::DST_PORT) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 0, 9, 0, 0, 0, 0]);
    frame
}

fn rule(rng: &mut Rng) -> Flower {
    let mut rule = Flower::default();
    for _ in 0..=rng.below(3) {
        let field = FIELDS[rng.below(12) as usize];
        let mask = if rng.below(4) == 0 { field.whole() & 0xffff_ff00 } else { field.whole() };
        rule.set(field, draw(rng, field), mask);
    }
    if rng.below(4) == 0 {
        let first = rng.below(3) as u16 * 100;
        rule.dst_ports = Some((first, first + rng.below(250) as u16));
    }
    rule
}

/// Returns the filter's mask: fields with their bits, and true if it has ranges.
fn mask_of(rule: &Flower) -> (Vec<u128>, bool) {
    let bits = FIELDS.iter().map(|f| rule.get(*f).map_or(0, |(_, mask)| mask)).collect();
    (bits, rule.dst_ports.is_some())
}

fn fits(rule: &Flower, frame: &[u8]) -> bool {
    let fields =
        FIELDS.iter().all(|f| rule.get(*f).is_none_or(|(v, mask)| (says(frame, *f) ^ v) & mask == 0));
    let port = says(frame, Field::DST_PORT) as u16;
    fields && in_range(rule, port)
}

fn in_range(rule: &Flower, port: u16) -> bool {
    rule.dst_ports.is_none_or(|(first, last)| (first..=last).contains(&port))
}

/// The model: masks in the order in which they came, each with its filters in their order.
#[derive(Default)]
struct Model {
    masks: Vec<Vec<(u32, Flower)>>,
}

impl Model {
    fn add(&mut self, handle: u32, rule: Flower) {
        let mask = mask_of(&rule);
        match self.masks.iter_mut().find(|m| mask_of(&m[0].1) == mask) {
            Some(found) => found.push((handle, rule)),
            None => self.masks.push(vec![(handle, rule)]),
        }
    }
    fn delete(&mut self, handle: u32) {
        self.masks.iter_mut().for_each(|m| m.retain(|(there, _)| *there != handle));
        self.masks.retain(|m| !m.is_empty());
    }
    fn class(&self, frame: &[u8]) -> Option<u32> {
        let port = says(frame, Field::DST_PORT) as u16;
        self.masks.iter().find_map(|mask| {
            // Filters with ranges are tried in the order of the filters, as in the reference.
            let ranges = mask.iter().filter(|(_, rule)| in_range(rule, port)).map(|(_, rule)| rule.dst_ports);
            let mut found = None;
            for range in ranges {
                found = mask.iter().find(|(_, rule)| rule.dst_ports == range && fits(rule, frame));
                if found.is_some() {
                    break;
                }
            }
            found.map(|(handle, _)| *handle)
        })
    }
}

#[test]
fn random_filters_find_what_a_slow_matcher_finds() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (mut bench, mut model) = (Bench::new(seed), Model::default());
        let mut rules: BTreeMap<u32, Flower> = BTreeMap::new();
        for step in 1..300u32 {
            match rng.below(4) {
                0 if !rules.is_empty() => {
                    let at = rng.below(rules.len() as u64) as usize;
                    let handle = *rules.keys().nth(at).expect("there");
                    assert!(bench.delete(handle));
                    rules.remove(&handle);
                    model.delete(handle);
                }
                _ => {
                    let rule = rule(&mut rng);
                    let same = |other: &Flower| {
                        mask_of(other) == mask_of(&rule)
                            && other.dst_ports == rule.dst_ports
                            && FIELDS.iter().all(|f| match (rule.get(*f), other.get(*f)) {
                                (Some((a, mask)), Some((b, _))) => (a ^ b) & mask == 0,
                                _ => true,
                            })
                    };
                    let twin = rules.values().any(same);
                    let done = bench.put(step, &rule, step, Existence::Add);
                    assert_eq!(done, if twin { Err(ErrorKind::Exists) } else { Ok(step) }, "seed {seed}");
                    if !twin {
                        rules.insert(step, rule.clone());
                        model.add(step, rule);
                    }
                }
            }
            for _ in 0..4 {
                let frame = frame(&mut rng);
                assert_eq!(bench.class(&frame), model.class(&frame), "seed {seed} step {step} {frame:x?}");
            }
        }
        assert_eq!(bench.handles(), rules.keys().copied().collect::<Vec<_>>());
    }
}

#[test]
fn any_bytes_are_looked_at() {
    let mut rng = Rng::new(3);
    let mut bench = Bench::new(3);
    let kinds = [0x0800u16, 0x86dd, 0x0806, 0x8035, 0x8100, 0x88a8, 0x8847, 0x8848, 0x8864];
    for (n, depth) in (1..=7).enumerate() {
        let lse = Field::lse(depth).expect("a depth");
        let rule = Flower::default().with(lse, rng.next_u64().into()).with(Field::LSES, 0x7f);
        bench.put(n as u32 + 1, &rule, 1, Existence::Add).expect("added");
    }
    for n in 10..60 {
        bench.put(n, &rule(&mut rng), n, Existence::Add).ok();
    }
    for field in [Field::ARP_SHA, Field::ARP_THA, Field::TCP_FLAGS, Field::ICMP_CODE, Field::PPPOE_SID] {
        bench.put(100 + field.whole() as u32 % 97, &Flower::default().with(field, 1), 9, Existence::Add).ok();
    }
    for _ in 0..20_000 {
        let mut frame: Vec<u8> = (0..rng.below(90)).map(|_| rng.next_u64() as u8).collect();
        if let Some(kind) = frame.get_mut(12..14) {
            kind.copy_from_slice(&kinds[rng.below(9) as usize].to_be_bytes());
        }
        if let Some(session) = frame.get_mut(14..16) {
            session.copy_from_slice(&[0x11, 0]);
        }
        bench.class(&frame);
    }
}

#[test]
fn the_mask_that_came_first_is_asked_first() {
    let frame = frame(&mut Rng::new(1));
    let source = Flower::default().with(Field::SRC_IP, says(&frame, Field::SRC_IP));
    let target = Flower::default().with(Field::DST_IP, says(&frame, Field::DST_IP));
    let mut bench = Bench::new(1);
    assert_eq!(bench.put(0, &target, 7, Existence::Add), Ok(1));
    assert_eq!(bench.put(0, &source, 8, Existence::Add), Ok(2));
    assert_eq!(bench.class(&frame), Some(7));
    // A mask whose last filter was deleted is the last one when it is added again.
    assert!(bench.delete(1));
    assert_eq!(bench.put(0, &target, 7, Existence::Add), Ok(1));
    assert_eq!(bench.class(&frame), Some(8));
}

#[test]
fn handles_are_the_lowest_that_are_free() {
    let mut bench = Bench::new(1);
    let rule = |n: u32| Flower::default().with(Field::SRC_IP, n.into());
    let add = |bench: &mut Bench, handle, n| bench.put(handle, &rule(n), n, Existence::Add);
    let given: Vec<_> = (1..).zip([0, 0, 7, 0]).map(|(n, handle)| add(&mut bench, handle, n)).collect();
    assert_eq!(given, [1, 2, 7, 3].map(Ok));
    assert_eq!(add(&mut bench, u32::MAX, 900), Ok(u32::MAX));
    assert!(bench.delete(2));
    assert!(!bench.delete(2));
    assert_eq!((add(&mut bench, 0, 901), add(&mut bench, 7, 902)), (Ok(2), Err(ErrorKind::Exists)));
    assert_eq!(bench.handles(), [1, 2, 3, 7, u32::MAX]);
}

#[test]
fn a_filter_is_replaced_within_its_mask() {
    let mut bench = Bench::new(1);
    let to = |n: u128| Flower::default().with(Field::DST_IP, n);
    assert_eq!(bench.put(1, &to(1), 1, Existence::Add), Ok(1));
    assert_eq!(bench.put(2, &to(2), 2, Existence::Add), Ok(2));
    // The same values as another filter; another mask; a missing filter.
    assert_eq!(bench.put(1, &to(2), 1, Existence::Replace), Err(ErrorKind::Exists));
    let masked = Flower::default().with(Field::SRC_IP, 1);
    assert_eq!(bench.put(1, &masked, 1, Existence::Replace), Err(ErrorKind::Conflict));
    assert_eq!(bench.put(9, &to(9), 1, Existence::Change), Err(ErrorKind::NotFound));
    assert_eq!(bench.put(0, &to(9), 1, Existence::Change), Err(ErrorKind::NotFound));
    assert_eq!(bench.put(1, &to(0x0a00_0001), 5, Existence::Replace), Ok(1));
    let mut frame = frame(&mut Rng::new(1));
    let ip = frame.len() - 40;
    frame[ip + 16..ip + 20].copy_from_slice(&[10, 0, 0, 1]);
    assert_eq!(bench.class(&frame), Some(5));
    frame[ip + 19] = 2;
    assert_eq!(bench.class(&frame), None);
}

/// Linux reads nothing behind the IP header of a fragment, the first included.
#[test]
fn a_first_fragment_has_neither_type_nor_code() {
    let mut bench = Bench::new(1);
    let kind = |n| Flower::default().with(Field::ICMP_TYPE, n);
    assert_eq!(bench.put(0, &kind(8), 8, Existence::Add), Ok(1));
    assert_eq!(bench.put(0, &kind(0), 9, Existence::Add), Ok(2));
    let mut echo = vec![0; 60];
    echo[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, 1]);
    echo[34] = 8;
    assert_eq!(bench.class(&echo), Some(8));
    // More fragments follow.
    echo[20] = 0x20;
    assert_eq!(bench.class(&echo), Some(9));
}

/// Linux takes the mobility header for the transport, and does not look for one behind it.
#[test]
fn a_mobility_header_is_the_protocol_of_its_packet() {
    let mut bench = Bench::new(1);
    for (number, class) in [(59, 1), (135, 2)] {
        let rule = Flower::default().with(Field::IP_PROTO, number);
        assert!(bench.put(0, &rule, class, Existence::Add).is_ok());
    }
    let mut frame = vec![0; 62];
    frame[12..21].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 135]);
    frame[54] = 59;
    assert_eq!(bench.class(&frame), Some(2));
}

#[test]
fn it_knows_by_which_port_a_packet_came() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.put(0, &Flower::default().with(Field::INDEV, 2), 2, Existence::Add), Ok(1));
    assert_eq!(bench.put(0, &Flower::default().with(Field::INDEV, 3), 3, Existence::Add), Ok(2));
    assert_eq!(bench.class(&frame(&mut Rng::new(1))), Some(3));
}
