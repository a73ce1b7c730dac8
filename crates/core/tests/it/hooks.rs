//! The hooks of ports: the bytes that they and their actions charge for a packet, and the classes
//! that their filters name.

use txweir_core::classify::action::{Action, Control, Gact, Kind, State, Wanted};
use txweir_core::classify::filter::{BlockId, Existence, Filters, Goal, Matchall, Named, Rule};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId};
use txweir_core::packet::headers::{Headers, ethertype};
use txweir_core::path::entry::{Entry, HookCounts, HookVerdict, Hooked};
use txweir_core::{Handle, Instant, Meta};

/// The ingress hook of one port and the egress hook of another, each with a filter of all packets.
struct Bench {
    filters: Filters,
    state: State,
    blocks: [BlockId; 2],
}

impl Bench {
    /// Returns hooks whose filters name these classes; the gact of each has the index 1 or 2.
    fn new(classes: [Handle; 2]) -> Self {
        let mut filters = Filters::new();
        let blocks = [filters.add_block(), filters.add_block()];
        for (index, (block, class)) in (1..).zip(blocks.into_iter().zip(classes)) {
            let action = Action::new(Kind::Gact(Gact::default()), Control::Pass);
            let goal = Goal { class, actions: vec![Wanted::New(Some(index), Box::new(action))] };
            let all = Rule::Matchall(Matchall::default());
            filters.put(block, Named::default(), &all, &goal, Existence::Add, Instant::ZERO).unwrap();
        }
        let mut state = State::new(1);
        filters.fit(&mut state);
        Self { filters, state, blocks }
    }

    /// Sends a frame past both hooks. Returns what they counted.
    fn pass(&mut self, frame: &[u8], meta: &mut Meta) -> [HookCounts; 2] {
        let mut frame = frame.to_vec();
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, meta, headers);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, Instant(5));
        let [from, to] = self.blocks.map(Some);
        entry.from = Some(Hooked { port: PortId(1), block: from });
        entry.to = Some(Hooked { port: PortId(2), block: to });
        assert_eq!(entry.ask_hooks(&mut packet), HookVerdict::Go);
        entry.counted
    }

    /// Returns the bytes that the action of this index has counted.
    fn bytes(&self, index: u32) -> u64 {
        let id = self.filters.actions.find("gact", index).expect("an action");
        self.state.memory(id).expect("its counts").bytes
    }
}

/// Linux 6.18, as measured: the same packet of UDP counts 128 bytes as it arrives and 142 as it
/// leaves; a frame of 54 bytes with a tag counts 36 as it arrives, because the tag is off. A
/// super-packet counts the headers that segments repeat as it leaves.
#[test]
fn a_hook_and_its_actions_charge_the_bytes_of_linux() {
    let frame = |kind: u16| {
        let mut frame = vec![0; 142];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        frame
    };
    for (kind, meta, arrived, left) in [
        (ethertype::IPV4, Meta::new(142), 128, 142),
        (ethertype::VLAN, Meta::new(54), 36, 54),
        (ethertype::IPV4, Meta::new(54 + 10 * 1000).gso(54, 1000), 10_040, 10_540),
        (ethertype::VLAN, Meta::new(58 + 10 * 1000).gso(58, 1000), 10_040, 10_580),
    ] {
        let mut bench = Bench::new([Handle::NONE; 2]);
        let mut passed = meta;
        let counted = bench.pass(&frame(kind), &mut passed);
        assert_eq!(counted.map(|hook| hook.seen.bytes), [arrived, left], "{kind:#x} {meta:?}");
        assert_eq!(counted.map(|hook| hook.seen.packets), [u64::from(meta.segs); 2], "{kind:#x} {meta:?}");
        assert_eq!([1, 2].map(|index| bench.bytes(index)), [arrived, left], "{kind:#x} {meta:?}");
    }
}

/// In Linux no qdisc sees the class that a filter of a hook names. Here the root qdisc sees that of
/// the egress hook (row hook-class), and as in Linux not that of the ingress hook.
#[test]
fn a_class_named_at_the_ingress_hook_is_that_of_no_qdisc() {
    let class = |named: [Handle; 2]| {
        let mut meta = Meta::new(60);
        Bench::new(named).pass(&[0; 60], &mut meta);
        meta.class
    };
    let one = Handle::new(1, 1);
    assert_eq!(class([one, Handle::NONE]), Handle::NONE);
    assert_eq!(class([Handle::NONE, one]), one);
    assert_eq!(class([one, Handle::new(1, 2)]), Handle::new(1, 2));
}
