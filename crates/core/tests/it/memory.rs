//! The memory budget of a device: what commands ask for is checked before anything is made.

use txweir_core::base::env::Env;
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::filter::{Existence, Filters, Flower, Fw, Goal, Named, Rule};
use txweir_core::path::tree::Tree;
use txweir_core::sched::cx::Cx;
use txweir_core::text::error::Reason;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle, Instant};

struct Device {
    tree: Tree,
    cx: Cx,
}

impl Device {
    fn new(memory: u64) -> Self {
        Self { tree: Tree::new(Env { memory, ..Env::default() }), cx: Cx::new(16, 1) }
    }
    fn add(&mut self, parent: Handle, kind: &str, options: &str) -> Result<Handle, ConfigError> {
        let words: Vec<&str> = options.split_whitespace().collect();
        self.tree.edit(&mut self.cx).replace(parent, None, kind, &mut Words::new(&words))
    }
    fn class(&mut self, minor: u16) -> Result<(), ConfigError> {
        let class = Handle::new(1, minor);
        self.tree.edit(&mut self.cx).add_class(Handle::new(1, 0), class, None, &mut Words::new(&[]))
    }
    /// Puts drr at the root, as 1:.
    fn drr(&mut self) {
        let handle = Some(Handle::new(1, 0));
        self.tree.edit(&mut self.cx).replace(Handle::ROOT, handle, "drr", &mut Words::new(&[])).unwrap();
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_qdisc_beyond_the_budget_is_refused_and_named() {
    let mut device = Device::new(16 * MIB);
    device.drr();
    let mut made = 0;
    let refused = (1..100).find_map(|minor| {
        device.class(minor).unwrap();
        let answer = device.add(Handle::new(1, minor), "fq_codel", "flows 65536");
        made += u32::from(answer.is_ok());
        answer.err()
    });
    // Each has 65 536 flows of 80 bytes.
    assert_eq!(made, 3);
    let refused = refused.expect("a refusal");
    assert_eq!(refused.reason, Some(Reason::Memory));
    let text = refused.to_string();
    assert!(text.starts_with("class 1:4: ") && text.contains("16777216 bytes of tables"), "{text}");
    // The refused one has changed nothing, and a smaller one fits.
    let mut kinds = Vec::new();
    device.tree.visit(&mut |_, node| kinds.push(node.qdisc().spec().kind));
    assert_eq!(kinds, ["drr", "fq_codel", "fq_codel", "fq_codel", "pfifo"]);
    device.add(Handle::new(1, 4), "fq_codel", "").unwrap();
}

/// Memory that is given back can be used again, any number of times: by deletion, by a smaller
/// qdisc in the same place, and by a new root.
#[test]
fn memory_that_is_given_back_counts_no_more() {
    let mut device = Device::new(16 * MIB);
    device.drr();
    for minor in 1..4 {
        device.class(minor).unwrap();
        device.add(Handle::new(1, minor), "fq_codel", "flows 65536").unwrap();
    }
    for _ in 0..50 {
        device.tree.edit(&mut device.cx).delete(Handle::new(1, 3)).unwrap();
        device.add(Handle::new(1, 3), "fq_codel", "flows 65536").unwrap();
        assert!(device.add(Handle::new(1, 3), "sfq", "divisor 16384 limit 16384 flows 16384").is_ok());
        device.add(Handle::new(1, 3), "fq_codel", "flows 65536").unwrap();
    }
    for _ in 0..50 {
        device.add(Handle::ROOT, "fq_codel", "flows 65536").unwrap();
        device.add(Handle::ROOT, "fq", "orphan_mask 65535").unwrap();
    }
}

#[test]
fn classes_and_changes_count() {
    let mut device = Device::new(MIB);
    device.drr();
    let made = (1..60_000).take_while(|minor| device.class(*minor).is_ok()).count();
    assert!((500..2000).contains(&made), "{made} classes in a mebibyte");
    // A change of a table that grows is an addition.
    let mut device = Device::new(4 * MIB);
    device.add(Handle::ROOT, "fq", "").unwrap();
    let grow = |device: &mut Device, mask: &str| {
        let words = ["orphan_mask", mask];
        device.tree.edit(&mut device.cx).change(Handle::ROOT, None, &mut Words::new(&words))
    };
    assert_eq!(grow(&mut device, "262143").unwrap_err().reason, Some(Reason::Memory));
    grow(&mut device, "16383").unwrap();
}

/// Returns the bytes that each further one of `many` things takes beside the first `few`.
fn each(make: impl Fn(u32) -> Box<dyn std::any::Any>, few: u32, many: u32) -> i64 {
    let bytes = |n| {
        let before = txweir_counted::held();
        let made = make(n);
        let held = txweir_counted::held() - before;
        drop(made);
        held
    };
    (bytes(many) - bytes(few)) / i64::from(many - few)
}

/// Makes a device whose root has these options, and classes below it.
fn with_classes(kind: &str, options: &str, class: &str, classes: u32) -> Box<dyn std::any::Any> {
    let mut device = Device::new(1 << 40);
    let handle = Some(Handle::new(1, 0));
    let words: Vec<&str> = options.split_whitespace().collect();
    let mut edit = device.tree.edit(&mut device.cx);
    edit.replace(Handle::ROOT, handle, kind, &mut Words::new(&words)).unwrap();
    for minor in 1..=classes as u16 {
        let (root, words) = (Handle::new(1, 0), class.split_whitespace().collect::<Vec<_>>());
        let id = Handle::new(1, minor);
        device.tree.edit(&mut device.cx).add_class(root, id, None, &mut Words::new(&words)).unwrap();
    }
    Box::new(device)
}

/// Makes flower filters of one mask.
fn filters(count: u32) -> Box<dyn std::any::Any> {
    let mut filters = Filters::new();
    let block = filters.add_block();
    for i in 0..count {
        let rule = Flower::default().with(Field::ETH_TYPE, 0x0800).with(Field::DST_IP, i.into());
        let named = Named { prio: Some(1), protocol: Some(0x0800), ..Named::default() };
        let goal = Goal { class: Handle(0x1_0000 + i), ..Goal::default() };
        filters.put(block, named, &Rule::Flower(rule), &goal, Existence::Add, Instant::ZERO).unwrap();
    }
    Box::new(filters)
}

/// Makes fw filters of one priority.
fn marks(count: u32) -> Box<dyn std::any::Any> {
    let mut filters = Filters::new();
    let block = filters.add_block();
    for mark in 1..=count {
        let named = Named { prio: Some(1), protocol: Some(3), handle: Some(mark), ..Named::default() };
        let goal = Goal { class: Handle(0x1_0001), ..Goal::default() };
        filters.put(block, named, &Rule::Fw(Fw::default()), &goal, Existence::Add, Instant::ZERO).unwrap();
    }
    Box::new(filters)
}

/// The bytes of a flow, a class, a filter, an idle qdisc and room for a packet, as the allocator
/// counts them, are at most those of `docs/BENCHMARKS.md`. Where a table doubles, the figure is the
/// mean of the two sizes.
#[test]
fn what_one_more_takes() {
    let flows = |kind: &'static str, key: &'static str| {
        move |n: u32| with_classes(kind, &format!("{key} {n}"), "", 0)
    };
    // A default leaf comes with each class.
    let classes = |kind: &'static str, class: &'static str| move |n: u32| with_classes(kind, "", class, n);
    let idle = |kind: &'static str| {
        move |n: u32| -> Box<dyn std::any::Any> {
            let env = Env { lazy: true, ..Env::default() };
            let make = |_| {
                let mut tree = Tree::new(env);
                let mut cx = Cx::new(1, 1);
                tree.edit(&mut cx).replace(Handle::ROOT, None, kind, &mut Words::new(&[])).unwrap();
                (tree, cx)
            };
            Box::new((0..n).map(make).collect::<Vec<_>>())
        }
    };
    let rows: [(&str, i64, i64); 13] = [
        ("flow of fq_codel", each(flows("fq_codel", "flows"), 1024, 65_536), BYTES[0]),
        ("flow of fq_pie", each(flows("fq_pie", "flows"), 1024, 65_536), BYTES[1]),
        ("flow of fq", each(flows("fq", "orphan_mask"), 1023, 65_535), BYTES[2]),
        ("class of drr", each(classes("drr", ""), 128, 8192), BYTES[3]),
        ("class of htb", each(classes("htb", "rate 1mbit"), 128, 8192), BYTES[4]),
        ("class of hfsc", each(classes("hfsc", "ls m2 1mbit"), 128, 8192), BYTES[5]),
        ("class of qfq", each(classes("qfq", ""), 128, 8192), BYTES[11]),
        ("filter of flower", each(filters, 128, 8192), BYTES[6]),
        ("filter of fw", each(marks, 128, 8192), BYTES[12]),
        ("path with an idle pfifo", each(idle("pfifo"), 1, 101), BYTES[7]),
        ("path with an idle fq_codel", each(idle("fq_codel"), 1, 101), BYTES[8]),
        ("path with an idle cake", each(idle("cake"), 1, 101), BYTES[9]),
        ("room for a packet", each(|n| Box::new(Cx::new(n as usize, 1)), 1024, 65_536), BYTES[10]),
    ];
    for (what, bytes, most) in rows {
        println!("{what:28} {bytes:6} bytes, at most {most}");
    }
    for (what, bytes, most) in rows {
        assert!(bytes > 0 && bytes <= most, "{what}: {bytes} bytes, more than {most}");
        // The budget counts no less for a class than it takes.
        if let Some(kind) = what.strip_prefix("class of ") {
            let class = match kind {
                "htb" => "rate 1mbit",
                "hfsc" => "ls m2 1mbit",
                _ => "",
            };
            let tables = |n| {
                let made = with_classes(kind, "", class, n);
                made.downcast_ref::<Device>().expect("a device").tree.tables() as i64
            };
            assert!((tables(2) - tables(1)) >= bytes, "{what}: {} of {bytes}", tables(2) - tables(1));
        }
    }
}

/// The greatest figures of `what_one_more_takes`, in its order; qfq and fw are the last.
const BYTES: [i64; 13] = [80, 136, 80, 380, 648, 1516, 144, 3080, 3448, 4976, 72, 568, 193];
