//! Law 12: no memory is allocated after start. The tests count every call to the global allocator,
//! per thread: calls of other tests, on threads of their own, do not count.

use crate::common::options::{legal, legal_class};
use txweir_core::base::rng::Rng;
use txweir_core::classify::action::bpf::Bpf as ActionBpf;
use txweir_core::classify::action::gate::{Gate as ActionGate, GateConfig, GateEntry};
use txweir_core::classify::action::ife::Use;
use txweir_core::classify::action::mpls::Label;
use txweir_core::classify::action::nat::Side;
use txweir_core::classify::action::{
    Action, Control, Csum, Gact, Ife, Kind as ActionKind, Mirred, Mpls, Nat, Pedit, Police, Sample, Simple,
    Skbedit, Skbmod, State, Vlan, Wanted, pedit, police,
};
use txweir_core::classify::filter::ematch::{Cmp, Condition, Expr, Join, Layer, Op, Term};
use txweir_core::classify::filter::flow::{Key, Keys, Mode};
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::machine::Instruction;
use txweir_core::classify::packet::{FrameBytes, NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{
        Basic, Existence, Filters, Flow, Flower, Goal, Matchall, Named, Rule, Verdict as FilterVerdict,
    },
};
use txweir_core::packet::headers::Headers;
use txweir_core::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use txweir_core::packet::route::Candidate;
use txweir_core::path::device::{Completed, DeviceError};
use txweir_core::qdisc::etf::Clock;
use txweir_core::qdisc::fifo::NoStats;
use txweir_core::qdisc::pfifo_fast::NoParams;
use txweir_core::text::value::Words;
use txweir_core::turns::{Cause, FairSend, Gate, Load, Offered, Pass, Quota};
use txweir_core::{
    Admitted, Bytes, ClassId, DropReason, Ecn, Handle, Instant, Meta, Nanos, PathConfig, Rate, Role, TxPath,
    TxQueue, Wake,
    sched::{cx::Cx, node::Node},
};
use txweir_core::{base::env::Env, sched::spec::Flags};
use txweir_core::{
    model::wire::{Completion, Wire, WireConfig},
    sched::schedule::{ClassConfig, LineConfig, Service},
};
use txweir_core::{
    qdisc::KINDS,
    sched::{
        answer::{Next, Verdict},
        discipline::Discipline,
    },
};
use txweir_counted::{calls, held};

/// The memory that a kind declares for its parameters is at least what it allocates, and not more
/// than a few times as much.
#[test]
fn a_qdisc_allocates_at_most_the_memory_that_it_declares() {
    // A small block has a price of its own: names, and lists that are empty at first.
    const SLACK: u64 = 2 << 10;
    let mut rng = Rng::new(11);
    for spec in KINDS {
        for i in 0..60 {
            let env = Env { queues: [2, 8, 64][i % 3], ..Env::default() };
            let words = match i {
                0..3 => legal(spec, &env, &mut Rng::new(0)),
                _ => legal(spec, &env, &mut rng),
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let Ok(candidate) = spec.read(&mut Words::new(&words), &env) else { continue };
            let declared = candidate.memory(&env);
            let before = held();
            let qdisc = candidate.make(&env);
            // `make` consumes the parameters, whose bytes it gives back.
            let made = u64::try_from(held() - before).unwrap_or(0);
            assert!(made <= declared + SLACK, "{} {words:?}: {made} bytes, {declared} declared", spec.kind);
            assert!(
                declared <= 4 * made + (256 << 10) || ["cake", "cake_mq"].contains(&spec.kind),
                "{} {words:?}: {made} bytes, {declared} declared",
                spec.kind
            );
            assert_eq!(qdisc.memory(&env), declared, "{} {words:?}", spec.kind);
        }
    }
}

/// With `Env::lazy`, an idle qdisc of flows takes no table; each table comes once, with the first
/// packet that needs it, and goes with a purge.
#[test]
fn an_idle_qdisc_takes_no_table_where_tables_come_late() {
    // Most of it are the details of 64 packets, which cake asks of the pool.
    const SMALL: u64 = 20 << 10;
    let env = Env { lazy: true, ..Env::default() };
    for (kind, words, table) in [
        ("fq_codel", &["flows", "4096"][..], 4096 * 80),
        ("fq_pie", &["flows", "4096"], 4096 * 136),
        ("cake", &["besteffort"], 1024 * 92),
        ("cake", &["diffserv4"], 1024 * (80 + 4 * 12)),
        ("cake", &["diffserv8", "flowblind"], 1024 * (80 + 8 * 12)),
    ] {
        let before = held();
        let config = PathConfig { env, pool: 64, bql: None, ..PathConfig::default() };
        let mut path: TxPath<u32> = TxPath::new(config).expect("a path");
        let empty = held() - before;
        path = path.with_qdisc(kind, words).expect("a qdisc");
        let idle = held() - before - empty;
        assert!(idle.unsigned_abs() < SMALL, "{kind} {words:?}: {idle} bytes, idle");
        let mut ring = Ring::new();
        path.tx_mut().freeze();
        let send = |path: &mut TxPath<u32>, ring: &mut Ring, n: u32| {
            let mut meta = Meta::new(100);
            meta.hash = n.wrapping_mul(0x9e37_79b9);
            let admitted = path.submit(Instant::from_secs(1), n, meta, ring);
            assert!(matches!(admitted, Admitted::Queued), "{admitted:?}");
        };
        send(&mut path, &mut ring, 1);
        let busy = held() - before - empty;
        assert!(
            (table..table + SMALL as i64).contains(&busy),
            "{kind} {words:?}: {busy} bytes, {table} wanted"
        );
        let more = calls(|| (2..40).for_each(|n| send(&mut path, &mut ring, n)));
        assert_eq!(more, 0, "{kind} {words:?}: the table comes once");
        path.purge(Instant::from_secs(1), &mut ring);
        let purged = held() - before - empty;
        assert!(purged.unsigned_abs() < SMALL, "{kind} {words:?}: {purged} bytes, purged");
    }
}

/// A ring of fixed size.
struct Ring {
    sizes: [u32; 256],
    head: usize,
    len: usize,
    done: usize,
    discarded: u64,
}

impl Ring {
    const fn new() -> Self {
        Self { sizes: [0; 256], head: 0, len: 0, done: 0, discarded: 0 }
    }
}

impl TxQueue for Ring {
    type Frame = u32;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min((self.sizes.len() - self.len) as u32)
    }
    fn push(&mut self, _frame: u32, m: &Meta) {
        self.sizes[(self.head + self.len) % 256] = m.wire_len;
        self.len += 1;
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u32>)) {
        while self.done > 0 {
            let bytes = self.sizes[self.head];
            (self.head, self.len, self.done) = ((self.head + 1) % 256, self.len - 1, self.done - 1);
            sink(Completed { packets: 1, bytes, frame: None });
        }
    }
    fn discard(&mut self, _frame: u32, _m: &Meta, _reason: DropReason) {
        self.discarded += 1;
    }
}

/// The events of a load.
#[derive(Default, Debug)]
struct Met {
    sent: u64,
    dropped: u64,
    full: u64,
    at: u64,
    cut: u64,
}

/// Runs bursts of packets, drains, completions and wakes, until `packets` have been submitted.
fn load(path: &mut TxPath<u32>, ring: &mut Ring, rng: &mut Rng, packets: u32, met: &mut Met) {
    let mut now = Instant::from_secs(1);
    let mut left = packets;
    while left > 0 {
        for _ in 0..1 + rng.below(60) {
            let hash = rng.next_u64() as u32;
            let mut m = Meta::new(60 + rng.below(1455) as u32).hash(hash).priority(rng.below(16) as u32);
            if rng.below(10) == 0 {
                m = Meta::new(20_000).gso(54, 1448).hash(hash);
            }
            if rng.below(2) == 0 {
                m = m.ecn(Ecn::Ect0);
            }
            if rng.below(4) > 0 {
                // The packet takes the chain of first classes to the kind under test.
                m = m.priority(Handle::new(1, 1).0);
                m.class = Handle::new(2, 1);
            }
            match path.submit(now, left, m, ring) {
                Admitted::Full(_) => met.full += 1,
                Admitted::Cut(..) => met.cut += 1,
                Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
            }
            left = left.saturating_sub(1);
        }
        now += Nanos(rng.below(3_000_000));
        match path.drain(now, 64, ring) {
            Wake::At(t, _) => {
                met.at += 1;
                // Wait a while, though not for a shaper that takes days.
                now = now.max(t.min(now + Nanos::from_millis(20)));
            }
            Wake::Device | Wake::Idle | Wake::More => {}
        }
        ring.done = ring.len - rng.below(ring.len as u64 + 1) as usize;
        path.reap(now, ring, |_| {});
        let _ = path.take_wake();
    }
    met.sent += path.stats().tx_packets;
    met.dropped += path.cx().dropped().packets;
}

fn path(role: Role, trace: usize) -> TxPath<u32> {
    let env = Env { queues: 4, ..Env::default() };
    TxPath::new(PathConfig { env, role, trace, pool: 2000, ..PathConfig::default() }).unwrap()
}

/// Puts a kind with random legal options at `parent`, handles counting up from `1:`.
fn put(path: &mut TxPath<u32>, ring: &mut Ring, parent: Handle, major: u16, kind: &str, rng: &mut Rng) {
    let spec = txweir_core::qdisc::kind(kind).unwrap();
    // Where a tree has several netems, none may duplicate.
    let words = loop {
        let words = legal(spec, path.tree().env(), rng);
        if !words.iter().any(|w| w == "duplicate") {
            break words;
        }
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    path.configure(Instant::ZERO, ring, |tree, cx| {
        tree.edit(cx).replace(parent, Some(Handle::new(major, 0)), kind, &mut Words::new(&words))
    })
    .unwrap();
    let Some(classes) = spec.classes.filter(|c| c.made) else { return };
    for minor in 1..=4 {
        let words = legal_class(classes, path.tree().env(), rng);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        path.configure(Instant::ZERO, ring, |tree, cx| {
            tree.edit(cx).add_class(
                Handle::new(major, 0),
                Handle::new(major, minor),
                None,
                &mut Words::new(&words),
            )
        })
        .unwrap();
    }
}

#[test]
fn nothing_is_allocated_after_start() {
    let mut met = Met::default();
    let classful: Vec<&str> =
        KINDS.iter().filter(|s| s.shape.is_classful() && !s.root_only).map(|s| s.kind).collect();
    for spec in KINDS {
        for seed in 0..24 {
            let mut rng = Rng::new(seed);
            let role = if seed % 2 == 0 { Role::Origin } else { Role::Forwarder };
            // The kind stands alone, below each classful kind, and two levels deep.
            let above = &[vec![], vec![classful[0]], vec![classful[seed as usize % classful.len()]; 2]]
                [if spec.root_only { 0 } else { seed as usize % 3 }];
            let mut path = path(role, 64 * (seed as usize % 2));
            let mut ring = Ring::new();
            let mut parent = Handle::ROOT;
            for (i, kind) in above.iter().chain([&spec.kind]).enumerate() {
                let major = i as u16 + 1;
                put(&mut path, &mut ring, parent, major, kind, &mut rng);
                parent = Handle::new(major, 1);
            }
            let n = calls(|| load(&mut path, &mut ring, &mut rng, 3000, &mut met));
            assert_eq!(n, 0, "{} below {above:?}, seed {seed}", spec.kind);
        }
    }
    println!("{met:?}");
    assert!(met.sent > 100_000 && met.dropped > 10_000 && met.full > 1000, "{met:?}");
    assert!(met.at > 100 && met.cut > 10, "{met:?}");
}

#[test]
fn a_wire_allocates_nothing_after_start() {
    for completion in [
        Completion::Immediate,
        Completion::Periodic(Nanos::from_micros(250)),
        Completion::Every { packets: 8, within: Nanos::from_micros(100) },
    ] {
        let mut wire = Wire::new(WireConfig { completion, ring: 128, ..WireConfig::default() }).unwrap();
        let mut path = path(Role::Origin, 0);
        let mut sent = 0_u64;
        let n = calls(|| {
            let mut now = Instant::from_secs(1);
            for i in 0..20_000 {
                let _ = path.submit(now, i, Meta::new(60 + i % 1455), &mut wire);
                if i % 16 == 0 {
                    let _ = path.drain(now, 64, &mut wire);
                    now = wire.next_event().map_or(now, |t| t.max(now)) + Nanos::from_micros(i.into());
                    if wire.advance(now, |_| sent += 1) {
                        path.reap(now, &mut wire, |_| {});
                        let _ = path.drain(now, 64, &mut wire);
                    }
                }
            }
        });
        assert_eq!(n, 0, "{completion:?}");
        assert!(sent > 10_000, "{completion:?}: {sent}");
    }
}

#[test]
fn a_line_of_many_rings_allocates_nothing_after_start() {
    let ets = |offset| ClassConfig::new(2, offset, Service::Ets(20 + u32::from(offset)));
    let classes = [
        ets(0).preemptible(),
        ets(2).preemptible().min_rate(Rate(5_000_000)),
        ets(4).max_rate(Rate(20_000_000)),
        ClassConfig::new(2, 6, Service::Strict),
    ];
    let mut line = LineConfig::classes(8, &classes);
    line.ring_max = vec![(7, Rate(10_000_000))];
    let config = WireConfig { rings: 8, ring: 32, line: Some(line), ..WireConfig::default() };
    let mut wire = Wire::new(config).unwrap();
    let mut paths: Vec<_> = (0..8).map(|i| path(Role::Origin, i)).collect();
    let mut sent = [0_u64; 8];
    let n = calls(|| {
        let mut now = Instant::from_secs(1);
        for i in 0..40_000 {
            let queue = i as usize % 8;
            let mut ring = wire.ring(queue as u16).unwrap();
            let _ = paths[queue].submit(now, i, Meta::new(60 + i % 1455), &mut ring);
            let _ = paths[queue].drain(now, 64, &mut ring);
            if i % 16 == 0 {
                now = wire.next_event().map_or(now, |t| t.max(now)) + Nanos::from_micros((i % 200).into());
                wire.advance(now, |d| sent[usize::from(d.ring)] += 1);
                for (path, i) in paths.iter_mut().zip(0..) {
                    path.reap(now, &mut wire.ring(i).unwrap(), |_| {});
                    let _ = path.drain(now, 64, &mut wire.ring(i).unwrap());
                }
            }
        }
    });
    assert_eq!(n, 0);
    assert!(sent.iter().all(|n| *n > 500), "{sent:?}");
}

/// A FIFO that allocates for each packet.
#[derive(Debug)]
struct Allocates(Queue, Option<Box<u64>>);

impl Discipline for Allocates {
    const KIND: &'static str = "allocates";
    const ABOUT: &'static str = "A FIFO with a bug.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    type Config = NoParams;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(
        _cfg: &mut NoParams,
        _old: Option<&NoParams>,
        _env: &Env,
    ) -> Result<(), txweir_core::ConfigError> {
        Ok(())
    }
    fn new(_cfg: &NoParams, (): (), _env: &Env) -> Self {
        Self(Queue::new(), None)
    }
    fn change(&mut self, _cfg: &NoParams, (): (), _env: &Env, _cx: &mut Cx) {}
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        Verdict::Accept
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        self.1 = Some(Box::new(cx.now.0));
        self.0.push_back(&mut cx.pool, p);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.0.pop_front(&cx.pool).map_or(Next::Empty, Next::Packet)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.0.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.0.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

#[test]
fn the_counter_cries_out() {
    let mut path = path(Role::Forwarder, 0);
    let mut ring = Ring::new();
    let node = Node::of::<Allocates>(Handle::new(1, 0), NoParams {}, &Env::default()).unwrap();
    path.configure(Instant::ZERO, &mut ring, |tree, cx| tree.set_root(node, cx));
    let n = calls(|| load(&mut path, &mut ring, &mut Rng::new(1), 1000, &mut Met::default()));
    assert!(n >= 1000, "{n}");
}

/// A frame in a buffer of fixed size.
struct Fixed([u8; 256], usize);

impl FrameBytes for Fixed {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0[..self.1]
    }
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let room = at <= self.1 && self.1 + bytes.len() <= self.0.len();
        if room {
            self.0.copy_within(at..self.1, at + bytes.len());
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
            self.1 += bytes.len();
        }
        room
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let there = at + len <= self.1;
        if there {
            self.0.copy_within(at + len..self.1, at);
            self.1 -= len;
        }
        there
    }
}

/// Returns one action of each kind, each of which lets a packet continue.
fn one_of_each() -> Vec<ActionKind> {
    let police = police::Config {
        rate: Rate::from_bits(1_000_000),
        burst: Bytes(3000),
        peakrate: Some(Rate::from_bits(2_000_000)),
        mtu: Some(2000),
        average: Some(police::Average { rate: Rate(1 << 40), interval_log: 0, weight_log: 3 }),
        conform: Control::Pipe,
        ..police::Config::default()
    };
    let key = pedit::Key {
        header: pedit::Header::Ip4,
        offset: 8,
        add: true,
        mask: 0xff_ffff,
        value: 0xff00_0000,
        at: None,
    };
    let nat = Nat { side: Side::Destination, old: 0, new: 0x0a00_0001, mask: u32::MAX };
    let parts = [Some(Use::Value(7)), Some(Use::Allow), None];
    let ife = Ife { encode: true, ethertype: 0xed3e, dst: None, src: None, parts };
    let label = Label { label: Some(7), ..Label::default() };
    let entry = GateEntry { open: true, ns: 1000, ipv: None, octets: None };
    let gate = GateConfig {
        priority: None,
        clock: Clock::Tai,
        flags: 0,
        base_time: 0,
        cycle_time: 0,
        cycle_time_ext: 0,
        entries: vec![entry],
    };
    // The program returns the control of the action.
    let program = vec![Instruction { code: 6, jt: 0, jf: 0, k: u32::MAX }];
    let mirred = Mirred {
        to: txweir_core::classify::action::Target::Port { port: PortId(1), name: "lan".into() },
        way: Way::Egress,
        redirect: false,
    };
    vec![
        ActionKind::Police(Police::new(police).unwrap()),
        ActionKind::Vlan(Vlan::Push { id: 5, protocol: 0x8100, priority: 3 }),
        ActionKind::Vlan(Vlan::Modify { id: 6, protocol: 0x88a8, priority: None }),
        ActionKind::Pedit(Pedit::new(vec![key], true).unwrap()),
        ActionKind::Csum(Csum { iph: true, udp: true, ..Csum::default() }),
        ActionKind::Skbmod(Skbmod { swap: true, ecn: true, ..Skbmod::default() }),
        ActionKind::Vlan(Vlan::Pop),
        ActionKind::Nat(nat),
        ActionKind::Ife(ife),
        ActionKind::Ife(Ife::default()),
        ActionKind::Mpls(Mpls::Push { label, protocol: 0x8847 }),
        ActionKind::Mpls(Mpls::DecTtl),
        ActionKind::Mpls(Mpls::Pop { protocol: 0x0800 }),
        ActionKind::Gate(ActionGate::new(gate).unwrap()),
        ActionKind::Bpf(ActionBpf::new(program).unwrap()),
        ActionKind::Mirred(mirred),
        ActionKind::Sample(Sample::new(1, 1, Some(60)).unwrap()),
        ActionKind::Simple(Simple::new("seen".into()).unwrap()),
        ActionKind::Skbedit(Skbedit { priority: Some(1), ..Skbedit::default() }),
        ActionKind::Gact(Gact::default()),
    ]
}

#[test]
fn actions_allocate_nothing() {
    let kinds: Vec<&str> = one_of_each().iter().map(ActionKind::name).collect();
    assert!(txweir_core::classify::action::KINDS.iter().all(|kind| kinds.contains(kind)), "each kind is run");
    let mut filters = Filters::new();
    let block = filters.add_block();
    let actions =
        one_of_each().into_iter().map(|kind| Wanted::New(None, Box::new(Action::new(kind, Control::Pipe))));
    let goal = Goal { actions: actions.collect(), ..Goal::default() };
    let rule = Rule::Matchall(Matchall::default());
    filters.put(block, Named::default(), &rule, &goal, Existence::Add, Instant::ZERO).unwrap();
    let mut state = State::new(1);
    filters.fit(&mut state);
    let mut passed = 0;
    let counted = calls(|| {
        for i in 0..10_000 {
            let mut frame = Fixed([0; 256], 200);
            frame.0[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
            frame.0[16..18].copy_from_slice(&186u16.to_be_bytes());
            frame.0[23] = 17;
            frame.0[38..40].copy_from_slice(&166u16.to_be_bytes());
            let mut meta = Meta::new(200);
            let headers = Headers::parse_ethernet(frame.bytes());
            let mut packet = Packet::new(&mut frame, &mut meta, headers);
            let now = Instant(i * 1_000_000);
            let (actions, outlet) = (&filters.actions, &mut NoOutlet);
            let mut run = Run { actions, state: &mut state, outlet, now, queues: 1 };
            passed += u32::from(
                filters.classify(block, &mut packet, &mut run) == FilterVerdict::Class(ClassId::NONE),
            );
        }
    });
    assert_eq!(counted, 0);
    assert_eq!(passed, 10_000);
}

#[test]
fn filters_allocate_nothing() {
    use txweir_core::classify::filter::bpf::Instruction;
    use txweir_core::classify::filter::u32::{HashKey, Key, Match, Offset, Read, Selector};
    use txweir_core::classify::filter::{Bpf, Fw, U32};

    let mut filters = Filters::new();
    let block = filters.add_block();
    let mut put = |prio, handle, rule: Rule, class| {
        let named = Named { prio: Some(prio), handle, ..Named::default() };
        let goal = Goal { class: Handle(class), ..Goal::default() };
        filters.put(block, named, &rule, &goal, Existence::Add, Instant::ZERO).unwrap();
    };
    let filter = |table, link, selector: Selector| {
        Rule::U32(U32::Filter(Box::new(Match { table, link, selector: Some(selector), ..Match::default() })))
    };
    let step = |code, k| Instruction { code, k, ..Instruction::default() };
    let program =
        vec![step(0x28, 12), step(0x02, 3), step(0x60, 3), step(0x74, 4), step(0x07, 0), step(0x06, 0)];
    put(1, None, Rule::Bpf(Bpf { program, ..Bpf::default() }), 1);
    put(2, Some(7), Rule::Fw(Fw::default()), 2);
    put(3, Some(1 << 20), Rule::U32(U32::Table(256)), 0);
    let offset = Some(Offset { plus: 0, read: Some(Read { at: 0, mask: 0x0f00, shift: 6 }) });
    let hash = HashKey { mask: 0xff, at: 12 };
    put(3, None, filter(None, Some(1 << 20), Selector { offset, hash, ..Selector::default() }), 0);
    for bucket in 0..256 {
        let key = Key { value: 166, mask: 0xffff, at: 0, next: true };
        put(
            3,
            None,
            filter(Some(1 << 20 | bucket << 12), None, Selector { keys: vec![key], ..Selector::default() }),
            3,
        );
    }
    let mut state = State::new(1);
    filters.fit(&mut state);
    let mut classes = [0; 4];
    let counted = calls(|| {
        for i in 0..10_000u32 {
            let mut frame = Fixed([0; 256], 200);
            frame.0[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
            frame.0[26..30].copy_from_slice(&i.to_be_bytes());
            frame.0[36..38].copy_from_slice(&166u16.to_be_bytes());
            let mut meta = Meta::new(200);
            meta.mark = i % 8;
            let headers = Headers::parse_ethernet(frame.bytes());
            let mut packet = Packet::new(&mut frame, &mut meta, headers);
            let (actions, outlet, now) = (&filters.actions, &mut NoOutlet, Instant::ZERO);
            let mut run = Run { actions, state: &mut state, outlet, now, queues: 1 };
            if let FilterVerdict::Class(class) = filters.classify(block, &mut packet, &mut run) {
                classes[class.0 as usize] += 1;
            }
        }
    });
    assert_eq!(counted, 0);
    assert_eq!(classes, [0, 0, 1250, 8750]);
}

#[test]
fn filters_that_look_at_packets_allocate_nothing() {
    let mut filters = Filters::new();
    let block = filters.add_block();
    let port = |n| Flower::default().with(Field::IP_PROTO, 17).with(Field::DST_PORT, n);
    let mut ranged = Flower::default().with(Field::IP_PROTO, 17);
    ranged.dst_ports = Some((1, 9));
    let value = Condition::Cmp(Cmp {
        bytes: 4,
        layer: Layer::Network,
        offset: 12,
        mask: 0,
        trans: false,
        op: Op::Eq,
        value: 1,
    });
    let term = |what| Term { not: true, what, then: Join::And };
    let group = Condition::Group(Expr { terms: vec![term(value)] });
    let expr = Some(Expr { terms: vec![term(group)] });
    let keys = Some(Keys::of(&Key::ALL));
    let flow = Flow { mode: Some(Mode::Hash), keys, perturb: Some(1), ..Flow::default() };
    let mut rules: Vec<Rule> = (10..30).map(|n| Rule::Flower(port(n))).collect();
    rules.extend([Rule::Flower(ranged), Rule::Basic(Basic { expr }), Rule::Flow(flow)]);
    for (n, rule) in (1..).zip(&rules) {
        let prio = if matches!(rule, Rule::Flower(_)) { 1 } else { n };
        let named = Named { prio: Some(prio), handle: Some(n.into()), ..Named::default() };
        filters.put(block, named, rule, &Goal::default(), Existence::Add, Instant::ZERO).unwrap();
    }
    let mut state = State::new(1);
    filters.fit(&mut state);
    let mut classes = 0;
    let counted = calls(|| {
        for i in 0..10_000u64 {
            let mut frame = Fixed([0; 256], 200);
            frame.0[12..16].copy_from_slice(&[8, 0, 0x45, 2]);
            frame.0[16..18].copy_from_slice(&186u16.to_be_bytes());
            frame.0[23] = 17;
            frame.0[37] = i as u8;
            let mut meta = Meta::new(200);
            let headers = Headers::parse_ethernet(frame.bytes());
            let mut packet = Packet::new(&mut frame, &mut meta, headers);
            let (actions, outlet) = (&filters.actions, &mut NoOutlet);
            let now = Instant(i * 1_000_000);
            let mut run = Run { actions, state: &mut state, outlet, now, queues: 1 };
            let verdict = filters.classify(block, &mut packet, &mut run);
            classes += u32::from(matches!(verdict, FilterVerdict::Class(_)));
        }
    });
    assert_eq!(counted, 0);
    assert_eq!(classes, 10_000, "flow takes the packets that flower and basic do not match");
}

/// The line of senders, and the gate: joining, turns, leaving, and packets that wait.
#[test]
fn senders_that_yield_allocate_nothing_after_start() {
    let mut fair = FairSend::new(64, Quota::segs(4));
    let mut gate: Gate<u32> = Gate::new(16, 64, Quota::segs(2));
    let mut ids = [None; 64];
    let mut seen = 0;
    let calls = calls(|| {
        for round in 0..200u32 {
            for id in &mut ids {
                *id = id.or_else(|| fair.join());
                let Some(mut burst) = id.and_then(|id| fair.begin(id, Cause::Data)) else { continue };
                while fair.pass(&mut burst, 1, 1448) == Pass::Go {}
            }
            while fair.waiting() > 32 {
                if let Some(burst) = fair.next_turn() {
                    fair.defer(&burst);
                    seen += u32::from(fair.leave(burst.sender()));
                    ids[burst.sender().index()] = None;
                }
            }
            for flow in 0..8 {
                let load = Load { segs: 1, bytes: 1500 };
                for n in 0..8 {
                    seen += u32::from(gate.offer(flow, load, true, n) == Offered::Held);
                }
                while gate.take().is_some() {}
                (0..8).for_each(|_| gate.left(flow, load));
            }
            gate.set_quota(Quota::segs(round % 4));
        }
    });
    assert!(fair.stats().yields > 1000 && gate.stats().held > 1000 && seen > 1000, "{seen}");
    assert_eq!(calls, 0);
}
