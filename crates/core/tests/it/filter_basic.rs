//! basic and its expressions: joined as the reference joins them, bounded, and evaluated for the
//! most recent filter first.

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::ematch::{
    Cmp, Condition, DEPTH_MAX, Expr, Join, Layer, Meta, MetaId, Nbyte, Op, Operand, Term, U32,
};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{Basic, Existence, Filters, Goal, Named, Rule, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{ErrorKind, Handle, Instant};

fn put(
    filters: &mut Filters,
    block: txweir_core::classify::filter::BlockId,
    handle: u32,
    expr: Expr,
) -> Result<(), ErrorKind> {
    let named = Named { prio: Some(1), handle: Some(handle), ..Named::default() };
    let goal = Goal { class: Handle(handle), actions: Vec::new() };
    let rule = Rule::Basic(Basic { expr: Some(expr) });
    filters
        .put(block, named, &rule, &goal, Existence::Replace, Instant::ZERO)
        .map(|_| ())
        .map_err(|err| err.kind)
}

/// True if an expression holds for a frame.
fn holds(expr: &Expr, frame: &[u8]) -> bool {
    holds_on(Way::Egress, expr, frame)
}

/// True if an expression holds for a frame that goes this way.
fn holds_on(way: Way, expr: &Expr, frame: &[u8]) -> bool {
    let mut filters = Filters::new();
    let block = filters.add_block();
    put(&mut filters, block, 1, expr.clone()).expect("added");
    class_on(way, &filters, block, frame) == Some(1)
}

fn class(filters: &Filters, block: txweir_core::classify::filter::BlockId, frame: &[u8]) -> Option<u32> {
    class_on(Way::Egress, filters, block, frame)
}

fn class_on(
    way: Way,
    filters: &Filters,
    block: txweir_core::classify::filter::BlockId,
    frame: &[u8],
) -> Option<u32> {
    let mut meta = txweir_core::Meta::new(frame.len() as u32).priority(0x1234);
    meta.mark = 7;
    let mut frame = frame.to_vec();
    let headers = Headers::parse_ethernet(&frame);
    let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
    let mut state = State::new(1);
    let (actions, outlet) = (&filters.actions, &mut NoOutlet);
    let mut run = Run { actions, state: &mut state, outlet, now: Instant::ZERO, queues: 1 };
    match filters.classify(block, &mut packet, &mut run) {
        Verdict::Class(class) => Some(class.0),
        _ => None,
    }
}

fn one(what: Condition) -> Expr {
    Expr { terms: vec![Term { not: false, what, then: Join::And }] }
}

/// Returns a condition that is true, or false, for any frame.
fn constant(value: bool) -> Condition {
    let (left, right) = (Operand::Value(1), Operand::Value(value.into()));
    Condition::Meta(Meta { left, op: Op::Eq, right })
}

/// The model: the terms behind an `and` or an `or` are one condition, recursively.
fn model(terms: &[Term]) -> bool {
    let [first, rest @ ..] = terms else { return true };
    let value = match &first.what {
        Condition::Meta(meta) => meta.left == meta.right,
        Condition::Group(inner) => model(&inner.terms),
        other => panic!("{other:?}"),
    };
    let value = value != first.not;
    match (rest.is_empty(), first.then) {
        (true, _) => value,
        (false, Join::And) => value && model(rest),
        (false, Join::Or) => value || model(rest),
    }
}

fn random(rng: &mut Rng, depth: usize) -> Expr {
    let term = |rng: &mut Rng| Term {
        not: rng.below(3) == 0,
        what: match rng.below(3) {
            0 if depth > 0 => Condition::Group(random(rng, depth - 1)),
            n => constant(n == 1),
        },
        then: if rng.below(2) == 0 { Join::And } else { Join::Or },
    };
    Expr { terms: (0..=rng.below(4)).map(|_| term(rng)).collect() }
}

#[test]
fn terms_are_joined_from_the_left_and_the_rest_is_one() {
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let expr = random(&mut rng, 3);
        // Words never make an empty group.
        assert_eq!(holds(&expr, &[0; 60]), model(&expr.terms), "{expr:?}");
    }
}

#[test]
fn numbers_are_read_where_they_stand() {
    let mut frame = vec![0u8; 60];
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 1, 2]);
    frame[14 + 9] = 17;
    frame[34..38].copy_from_slice(&[0xab, 0xcd, 0, 53]);
    let cmp = |bytes, layer, offset, mask, trans, op, value| {
        one(Condition::Cmp(Cmp { bytes, layer, offset, mask, trans, op, value }))
    };
    use Layer::{Link, Network, Transport};
    for (expr, expected) in [
        (cmp(2, Link, 12, 0, false, Op::Eq, 0x0800), true),
        (cmp(2, Network, 2, 0, false, Op::Eq, 0x0102), true),
        (cmp(2, Network, 2, 0, true, Op::Eq, 0x0201), true),
        (cmp(2, Network, 2, 0xff, false, Op::Eq, 2), true),
        (cmp(4, Transport, 0, 0, false, Op::Gt, 0xabcd_0034), true),
        (cmp(4, Transport, 0, 0, false, Op::Lt, 0xabcd_0035), false),
        (cmp(1, Link, 59, 0, false, Op::Eq, 0), true),
        (cmp(1, Link, 60, 0, false, Op::Eq, 0), false),
        (cmp(4, Link, 57, 0, false, Op::Eq, 0), false),
        (
            one(Condition::U32(U32 { value: 0x0102_0000, mask: 0xffff_0000, offset: 2, next_header: false })),
            true,
        ),
        (one(Condition::U32(U32 { value: 0x0800, mask: 0xffff, offset: -4, next_header: false })), true),
        (one(Condition::U32(U32 { value: 0, mask: 0, offset: -15, next_header: false })), false),
        (one(Condition::U32(U32 { value: 0, mask: 0, offset: i32::MIN, next_header: true })), false),
        (one(Condition::Nbyte(Nbyte { needle: [0xab, 0xcd].into(), layer: Transport, offset: 0 })), true),
        (one(Condition::Nbyte(Nbyte { needle: vec![0; 70].into(), layer: Link, offset: 0 })), false),
    ] {
        assert_eq!(holds(&expr, &frame), expected, "{expr:?}");
    }
}

#[test]
fn what_is_known_is_compared() {
    let known = |id, shift, mask| Operand::Known { id, shift, mask };
    let mut tagged = vec![0u8; 60];
    tagged[12..16].copy_from_slice(&[0x81, 0, 0x60, 3]);
    for (left, op, right, expected) in [
        (known(MetaId::Priority, 4, 0xf), Op::Eq, 3, true),
        (known(MetaId::Priority, 63, 0), Op::Eq, 0, true),
        (known(MetaId::NfMark, 0, 0), Op::Gt, 6, true),
        (known(MetaId::PktLen, 0, 0), Op::Eq, 60, true),
        (known(MetaId::MacLen, 0, 0), Op::Eq, 14, true),
        (known(MetaId::DataLen, 0, 0), Op::Eq, 0, true),
        (known(MetaId::Protocol, 0, 0), Op::Eq, 0x0081, true),
        (known(MetaId::Vlan, 13, 0), Op::Eq, 3, true),
        (known(MetaId::Random, 0, 1), Op::Lt, 2, true),
    ] {
        let expr = one(Condition::Meta(Meta { left, op, right: Operand::Value(right) }));
        assert_eq!(holds(&expr, &tagged), expected, "{left:?}");
    }
    // A frame without a tag does not match a tag of 0.
    let (left, right) = (known(MetaId::Vlan, 0, 0), Operand::Value(0));
    assert!(!holds(&one(Condition::Meta(Meta { left, op: Op::Eq, right })), &[0; 60]));
}

/// Linux takes the tag off a frame that arrives: its length is less by it, and the addresses stand
/// next to the type behind it.
#[test]
fn a_tag_that_is_off_is_passed_over() {
    let mut tagged = vec![0u8; 60];
    tagged[6..18].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x81, 0, 0x60, 3, 8, 0]);
    let word = |value, mask, offset| one(Condition::U32(U32 { value, mask, offset, next_header: false }));
    let link = |bytes, offset, trans, value| {
        let (layer, mask, op) = (Layer::Link, 0, Op::Eq);
        one(Condition::Cmp(Cmp { bytes, layer, offset, mask, trans, op, value }))
    };
    let text = |needle: &[u8], offset| {
        one(Condition::Nbyte(Nbyte { needle: needle.into(), layer: Layer::Link, offset }))
    };
    let len = |bytes| {
        let left = Operand::Known { id: MetaId::PktLen, shift: 0, mask: 0 };
        one(Condition::Meta(Meta { left, op: Op::Eq, right: Operand::Value(bytes) }))
    };
    for (expr, arrived, sent) in [
        (word(0x0800, 0xffff, -4), true, true),
        (word(0x0001_0800, u32::MAX, -4), true, false),
        (word(0x0200_0000, u32::MAX, -8), true, false),
        (word(0x6003_0800, u32::MAX, -4), false, true),
        (word(0, 0, -14), true, true),
        (word(0, 0, -15), false, true),
        (link(2, 12, false, 0x0800), true, false),
        (link(2, 12, false, 0x8100), false, true),
        (link(4, 10, false, 0x0001_0800), true, false),
        (link(4, 10, true, 0x0008_0100), true, false),
        (link(2, 6, false, 0x0200), true, true),
        (link(1, 55, false, 0), true, true),
        (link(1, 56, false, 0), false, true),
        (text(&[0, 1, 8, 0], 10), true, false),
        (text(&[0, 1, 0x81, 0], 10), false, true),
        (text(&[2, 0, 0], 6), true, true),
        (text(&[0; 42], 14), true, false),
        (text(&[0; 43], 14), false, false),
        (len(42), true, false),
        (len(60), false, true),
    ] {
        assert_eq!(holds_on(Way::Ingress, &expr, &tagged), arrived, "{expr:?}");
        assert_eq!(holds_on(Way::Egress, &expr, &tagged), sent, "{expr:?}");
    }
    // Without a tag only the link header is off.
    assert!(holds_on(Way::Ingress, &len(46), &[0; 60]));
}

#[test]
fn depth_is_bounded() {
    let deep = |depth| (0..depth).fold(one(constant(true)), |inner, _| one(Condition::Group(inner)));
    assert!(holds(&deep(DEPTH_MAX), &[0; 60]));
    let mut filters = Filters::new();
    let block = filters.add_block();
    assert_eq!(put(&mut filters, block, 1, deep(DEPTH_MAX + 1)), Err(ErrorKind::OutOfRange));
    assert!(filters.block(block).expect("a block").chains().next().is_none());
}

#[test]
fn the_filter_that_came_last_is_asked_first() {
    let mut filters = Filters::new();
    let block = filters.add_block();
    for handle in [5, 3, 9] {
        put(&mut filters, block, handle, one(constant(true))).expect("added");
    }
    assert_eq!(class(&filters, block, &[0; 60]), Some(9));
    put(&mut filters, block, 9, one(constant(false))).expect("replaced");
    assert_eq!(class(&filters, block, &[0; 60]), Some(3));
    let mut shown = Vec::new();
    let block = filters.block(block).expect("a block");
    block.visit(&block.first_chain().expect("a chain").tables[0], &mut |handle, _, _, _| shown.push(handle));
    assert_eq!(shown, [9, 3, 5]);
}
