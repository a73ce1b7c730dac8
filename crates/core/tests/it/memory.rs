//! The memory budget of a device: what commands ask for is checked before anything is made.

use txweir_core::base::env::Env;
use txweir_core::path::tree::Tree;
use txweir_core::sched::cx::Cx;
use txweir_core::text::error::Reason;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle};

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
    // Each has 65 536 flows of 72 bytes.
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
