//! The filter jobs of `txweir bench`: a packet is classified, and then dropped from view.

use std::hint::black_box;

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::bpf::Instruction;
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::filter::u32::{HashKey, Key, Match, Selector};
use txweir_core::classify::filter::{
    ematch,
    ematch::{Condition, Expr, Join, Term},
};
use txweir_core::classify::packet::{NoOutlet, Packet};
use txweir_core::classify::{
    action::Run as FilterRun,
    filter::{Basic, BlockId, Bpf, Existence, Filters, Flower, Goal, Named, Rule, U32},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{Handle, Instant, Meta};

use super::path::Run;

/// Filters that are being installed.
struct Bench {
    filters: Filters,
    block: BlockId,
}

impl Bench {
    fn new() -> Self {
        let mut filters = Filters::new().with_seed(7);
        let block = filters.add_block();
        Self { filters, block }
    }

    /// Adds a filter of priority 1 for IPv4 that leads to a class.
    fn add(&mut self, handle: Option<u32>, rule: &Rule, class: u32) {
        let named = Named { prio: Some(1), protocol: Some(0x0800), handle, ..Named::default() };
        let goal = Goal { class: Handle(class), ..Goal::default() };
        if let Err(e) = self.filters.put(self.block, named, rule, &goal, Existence::Add, Instant::ZERO) {
            unreachable!("a benchmark's own filters are right: {e}");
        }
    }

    /// Classifies UDP packets to these addresses, port 53.
    fn classify(self, to: &[u32]) -> Run {
        let Self { filters, block } = self;
        let mut state = State::new(1);
        filters.fit(&mut state);
        let mut frames: Vec<(Vec<u8>, Headers)> = to.iter().map(|to| udp(*to)).collect();
        Box::new(move |packets| {
            for i in 0..packets {
                let last = frames.len() - 1;
                let (frame, headers) = &mut frames[i as usize & last];
                let mut meta = Meta::new(64);
                let mut packet = Packet::new(frame, &mut meta, *headers);
                let (actions, outlet) = (&filters.actions, &mut NoOutlet);
                let mut run = FilterRun { actions, state: &mut state, outlet, now: Instant::ZERO, queues: 1 };
                black_box(filters.classify(block, &mut packet, &mut run));
            }
        })
    }
}

fn udp(to: u32) -> (Vec<u8>, Headers) {
    let mut frame = vec![0; 64];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&[0, 50]);
    frame[23] = 17;
    frame[30..34].copy_from_slice(&to.to_be_bytes());
    frame[36..38].copy_from_slice(&[0, 53]);
    let headers = Headers::parse_ethernet(&frame);
    (frame, headers)
}

const fn address(i: u32) -> u32 {
    0x0a00_0000 + i
}

fn flower_rule(i: u32) -> Rule {
    let rule = Flower::default()
        .with(Field::ETH_TYPE, 0x0800)
        .with(Field::IP_PROTO, 17)
        .with(Field::DST_IP, address(i).into())
        .with(Field::DST_PORT, 53);
    Rule::Flower(rule)
}

/// Returns random destinations of packets, about as many as filters: so the job does not time the
/// memory of frames.
fn destinations(filters: u32) -> Vec<u32> {
    let frames = filters.next_power_of_two().clamp(64, 1 << 13) as usize;
    let mut rng = Rng::new(1);
    (0..frames).map(|_| address(rng.below(filters.into()) as u32)).collect()
}

/// Times flower filters of one mask, each of another destination.
pub(super) fn flower(rules: u32) -> Run {
    let mut bench = Bench::new();
    (0..rules).for_each(|i| bench.add(None, &flower_rule(i), 0x1_0000 + i));
    bench.classify(&destinations(rules))
}

/// Adds a filter for each packet of the count, each with another destination; at `most` filters it
/// begins again with none.
pub(super) fn add(most: u32) -> Run {
    let (mut bench, mut next) = (Bench::new(), 0);
    Box::new(move |packets| {
        for _ in 0..packets {
            if next == most {
                (bench, next) = (Bench::new(), 0);
            }
            bench.add(None, &flower_rule(next), 0x1_0001);
            next += 1;
        }
    })
}

/// Matches this destination.
fn to(value: u32) -> Match {
    let keys = vec![Key { value, mask: u32::MAX, at: 16, next: false }];
    Match { selector: Some(Selector { keys, ..Selector::default() }), ..Match::default() }
}

/// Times one u32 filter, which looks at the destination and the ports.
pub(super) fn u32_one() -> Run {
    let mut rule = to(address(0));
    if let Some(selector) = &mut rule.selector {
        selector.keys.push(Key { value: 53, mask: 0xffff, at: 20, next: false });
    }
    let mut bench = Bench::new();
    bench.add(None, &Rule::U32(U32::Filter(Box::new(rule))), 0x1_0001);
    bench.classify(&[address(0); 64])
}

/// Times a table of 256 buckets by the last byte of the destination, with a filter in each, to
/// which one filter links.
pub(super) fn u32_table() -> Run {
    const TABLE: u32 = 1 << 20;
    let mut bench = Bench::new();
    bench.add(Some(TABLE), &Rule::U32(U32::Table(256)), 0);
    let filter = |rule| Rule::U32(U32::Filter(Box::new(rule)));
    let hash = HashKey { mask: 0xff, at: 16 };
    let selector = Some(Selector { hash, ..Selector::default() });
    bench.add(None, &filter(Match { link: Some(TABLE), selector, ..Match::default() }), 0);
    for i in 0..256 {
        bench.add(None, &filter(Match { table: Some(TABLE | i << 12), ..to(address(i)) }), 0x1_0001 + i);
    }
    bench.classify(&destinations(256))
}

/// Times one basic filter with one condition: the word of the destination.
pub(super) fn basic() -> Run {
    let what =
        Condition::U32(ematch::U32 { value: address(0), mask: u32::MAX, offset: 16, next_header: false });
    let expr = Some(Expr { terms: vec![Term { not: false, what, then: Join::And }] });
    let mut bench = Bench::new();
    bench.add(None, &Rule::Basic(Basic { expr }), 0x1_0001);
    bench.classify(&[address(0); 64])
}

/// Times one program of six instructions that looks at the ethertype and the destination.
pub(super) fn bpf() -> Run {
    // ldh [12]; jeq 0x800, else 0; ld [30]; jeq ADDRESS, else 0; ret -1; ret 0
    let program = [
        (0x28, 0, 0, 12),
        (0x15, 0, 3, 0x800),
        (0x20, 0, 0, 30),
        (0x15, 0, 1, address(0)),
        (0x06, 0, 0, u32::MAX),
        (0x06, 0, 0, 0),
    ];
    let program = program.map(|(code, jt, jf, k)| Instruction { code, jt, jf, k }).to_vec();
    let mut bench = Bench::new();
    bench.add(None, &Rule::Bpf(Bpf { program, ..Bpf::default() }), 0x1_0001);
    bench.classify(&[address(0); 64])
}
