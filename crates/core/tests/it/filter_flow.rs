//! flow: classes by arithmetic and by hash.

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::flow::{Key, Keys, Mode};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Existence, Filters, Flow, Goal, Named, Rule, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{ErrorKind, Handle, Instant, Meta};

struct Bench {
    filters: Filters,
    block: BlockId,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut filters = Filters::new().with_seed(seed);
        let block = filters.add_block();
        Self { filters, block }
    }
    fn put(&mut self, handle: u32, rule: Flow, what: Existence) -> Result<(), ErrorKind> {
        let named = Named { prio: Some(1), handle: Some(handle), ..Named::default() };
        let done =
            self.filters.put(self.block, named, &Rule::Flow(rule), &Goal::default(), what, Instant::ZERO);
        done.map(|_| ()).map_err(|err| err.kind)
    }
    fn class(&self, frame: &[u8], at: u64) -> Handle {
        let mut meta = Meta::new(frame.len() as u32).priority(0x55).hash(0xdead_beef);
        meta.mark = 0x1_0203;
        let mut frame = frame.to_vec();
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers);
        packet.iif = PortId(9);
        let mut state = State::new(1);
        let (actions, outlet) = (&self.filters.actions, &mut NoOutlet);
        let now = Instant::from_secs(at);
        let mut run = Run { actions, state: &mut state, outlet, now, queues: 1 };
        match self.filters.classify(self.block, &mut packet, &mut run) {
            Verdict::Class(class) => class,
            other => panic!("{other:?}"),
        }
    }
}

fn rule(mode: Mode, keys: &[Key]) -> Flow {
    let qdisc = Handle::new(1, 0);
    Flow { mode: Some(mode), keys: Some(Keys::of(keys)), qdisc, ..Flow::default() }
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0u8; 64];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[17] = 50;
    frame[23] = 17;
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 192, 168, 0, 77]);
    frame[34..38].copy_from_slice(&[0x10, 0x01, 0, 53]);
    frame
}

#[test]
fn a_key_becomes_a_class_by_arithmetic() {
    let map = |key| rule(Mode::Map, &[key]);
    for (flow, minor) in [
        (map(Key::Src), 2u32),
        (map(Key::Dst), 78),
        (map(Key::Proto), 18),
        (map(Key::ProtoSrc), 0x1002),
        (map(Key::ProtoDst), 54),
        (map(Key::Iif), 10),
        (map(Key::Priority), 0x56),
        (map(Key::Mark), 0x204),
        (map(Key::VlanTag), 1),
        (map(Key::RxHash), 0xbef0),
        (Flow { bits: Some((0xf0, 0x101)), ..map(Key::Dst) }, (77 & 0xf0 ^ 0x101) + 1),
        (Flow { rshift: Some(4), addend: Some(7), ..map(Key::Dst) }, (0xa8_004d >> 4 & 0xffff) + 8),
        (
            Flow { addend: Some(0xc0a8_0000u32.wrapping_neg()), divisor: Some(16), ..map(Key::Dst) },
            77 % 16 + 1,
        ),
        (Flow { divisor: Some(10), ..map(Key::ProtoDst) }, 4),
        (Flow { baseclass: Some(Handle::new(0, 0xffff)), ..map(Key::ProtoDst) }, 52),
    ] {
        let mut bench = Bench::new(1);
        bench.put(1, flow.clone(), Existence::Add).expect("added");
        assert_eq!(bench.class(&frame(), 0), Handle(0x1_0000 | minor), "{flow:?}");
    }
    let mut bench = Bench::new(1);
    bench
        .put(1, Flow { baseclass: Some(Handle::new(7, 3)), ..map(Key::ProtoDst) }, Existence::Add)
        .expect("added");
    assert_eq!(bench.class(&frame(), 0), Handle::new(7, 56));
}

#[test]
fn addresses_of_ipv6_are_folded_and_fragments_have_no_ports() {
    let mut six = vec![0u8; 14 + 40 + 8];
    six[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    six[19] = 8;
    six[20] = 17;
    six[22..38].copy_from_slice(&[1, 0, 0, 2, 3, 0, 0, 4, 5, 0, 0, 6, 0, 0, 0, 0x10]);
    let mut bench = Bench::new(1);
    bench.put(1, rule(Mode::Map, &[Key::Src]), Existence::Add).expect("added");
    assert_eq!(bench.class(&six, 0), Handle(0x1_0011));
    let mut first = frame();
    first[20] = 0x20;
    let mut bench = Bench::new(1);
    bench.put(1, rule(Mode::Map, &[Key::ProtoDst]), Existence::Add).expect("added");
    assert_eq!(bench.class(&first, 0), Handle(0x1_0001));
}

#[test]
fn a_hash_spreads_hears_its_keys_only_and_changes_with_the_period() {
    let flow = Flow { divisor: Some(64), ..rule(Mode::Hash, &[Key::Dst, Key::ProtoSrc]) };
    let bench = |seed, flow: &Flow| {
        let mut bench = Bench::new(seed);
        bench.put(1, flow.clone(), Existence::Add).expect("added");
        bench
    };
    let (one, other) = (bench(1, &flow), bench(2, &flow));
    let (mut counts, mut moved) = ([0u32; 64], 0);
    for n in 0..6400u16 {
        let mut frame = frame();
        frame[34..36].copy_from_slice(&n.to_be_bytes());
        let class = one.class(&frame, 0);
        counts[usize::from(class.minor() - 1)] += 1;
        moved += u32::from(class != other.class(&frame, 0));
        frame[26] = 11; // of the source it does not hear
        assert_eq!(one.class(&frame, 9), class);
    }
    assert!(counts.iter().all(|n| (55..150).contains(n)), "{counts:?}");
    assert!(moved > 6000, "{moved}");
    let turning = bench(1, &Flow { perturb: Some(10), divisor: None, ..flow });
    let at = |seconds| turning.class(&frame(), seconds);
    assert_eq!((at(0), at(10)), (at(9), at(19)));
    assert_ne!(at(9), at(10));
}

#[test]
fn what_is_not_said_stays_and_what_cannot_be_is_refused() {
    let mut bench = Bench::new(1);
    let map = rule(Mode::Map, &[Key::ProtoDst]);
    assert_eq!(bench.put(0, map.clone(), Existence::Add), Err(ErrorKind::Missing));
    assert_eq!(bench.put(1, Flow::default(), Existence::Add), Err(ErrorKind::Missing));
    assert_eq!(
        bench.put(1, rule(Mode::Map, &[Key::Src, Key::Dst]), Existence::Add),
        Err(ErrorKind::OutOfRange)
    );
    assert_eq!(
        bench.put(1, Flow { rshift: Some(32), ..map.clone() }, Existence::Add),
        Err(ErrorKind::OutOfRange)
    );
    assert_eq!(
        bench.put(1, Flow { perturb: Some(3), ..map.clone() }, Existence::Add),
        Err(ErrorKind::Conflict)
    );
    bench.put(1, Flow { addend: Some(7), ..map }, Existence::Add).expect("added");
    bench.put(1, Flow { divisor: Some(16), ..Flow::default() }, Existence::Change).expect("changed");
    assert_eq!(bench.class(&frame(), 0), Handle(0x1_0000 + (53 + 7) % 16 + 1));
    assert_eq!(
        bench.put(1, Flow { perturb: Some(3), ..Flow::default() }, Existence::Change),
        Err(ErrorKind::Conflict)
    );
    assert_eq!(bench.class(&frame(), 0), Handle(0x1_0000 + (53 + 7) % 16 + 1));
}

#[test]
fn any_bytes_are_looked_at() {
    let mut rng = Rng::new(4);
    let mut bench = Bench::new(4);
    bench.put(1, rule(Mode::Hash, &Key::ALL), Existence::Add).expect("added");
    for _ in 0..5000 {
        let frame: Vec<u8> = (0..rng.below(80)).map(|_| rng.next_u64() as u8).collect();
        assert_eq!(bench.class(&frame, 0).major(), 1);
    }
}

/// Measured in Linux 6.12, without connection tracking, with UDP from 10.0.0.5 to 10.0.0.11, port 2054, by `map key KEY and
/// 0x7`: these, but for `nfct`, which is a number of the kernel there, and the keys of sockets and of the source port, which
/// were not.
#[test]
fn keys_of_connections_are_those_of_a_packet_without_one() {
    let mut frame = frame();
    frame[26..34].copy_from_slice(&[10, 0, 0, 5, 10, 0, 0, 11]);
    frame[34..38].copy_from_slice(&[0x80, 0x02, 0x08, 0x06]);
    for (key, class) in [
        (Key::Connection, 1),
        (Key::ConnectionSrc, 1 + 5),
        (Key::ConnectionDst, 1 + 3),
        (Key::ConnectionProtoSrc, 1 + 2),
        (Key::ConnectionProtoDst, 1 + 6),
        (Key::RouteClass, 1),
        (Key::SocketUser, 1),
        (Key::SocketGroup, 1),
    ] {
        let mut bench = Bench::new(1);
        let flow = Flow { bits: Some((7, 0)), ..rule(Mode::Map, &[key]) };
        bench.put(1, flow, Existence::Add).expect("added");
        assert_eq!(bench.class(&frame, 0), Handle(0x1_0000 + class), "{key:?}");
    }
}
