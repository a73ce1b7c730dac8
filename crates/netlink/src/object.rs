//! Messages about qdiscs and classes, from the state of a device.

use txweir_core::Handle;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::tree::Place;
use txweir_core::qdisc::htb::ClassConfig;
use txweir_core::sched::classful::{ClassShown, UserClasses};
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::node::{Books, Node};
use txweir_core::text::params::{Params, apply};
use txweir_core::text::value::{Words, exact_of};
use txweir_core::{Env, Tally};
use txweir_tc::show::{self, Seen, What};
use txweir_tc::tool::{Devices, Hook};

use crate::counters::{self, Usual, of_class, of_flow, of_qdisc};
use crate::given::Given;
use crate::message::{Header, TcHead, kind, message};
use crate::options::{self, Object};
use crate::wire::Writer;

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STAB: u16 = 8;
/// Blocks that a hook shares: ingress, egress.
const BLOCKS: [u16; 2] = [13, 14];
/// The place and the handle of the hooks.
const HOOK_PARENT: u32 = 0xffff_fff1;
const HOOK_HANDLE: u32 = 0xffff_0000;

/// A qdisc or a class as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) kind: u16,
    pub(crate) head: TcHead,
    /// The attributes that say what it is.
    pub(crate) is: Vec<u8>,
    /// The attributes that count.
    pub(crate) counts: Vec<u8>,
}

impl Shown {
    /// Returns the message.
    pub(crate) fn message(&self, header: Header) -> Vec<u8> {
        message(Header { kind: self.kind, ..header }, |w| {
            self.head.write(w);
            w.put(&self.is);
            w.put(&self.counts);
        })
    }
}

/// Calls `f` on the qdiscs of a device, hooks included, which have these blocks; with `invisible`
/// also on default ones. Packets have their turn meanwhile.
pub(crate) fn each_qdisc(
    devices: &mut dyn Devices,
    name: &str,
    link: u32,
    blocks: [Option<u32>; 2],
    invisible: bool,
    f: &mut dyn FnMut(Shown),
) {
    let Some(device) = devices.device(name) else { return };
    let refs = device.queues().saturating_add(1);
    let make = |place: Place, node: &Node, books: &Books| qdisc(place, node, books, link, refs);
    devices.each_qdisc(name, invisible, &make, f);
    let Some(device) = devices.device(name) else { return };
    if let Some(hook) = device.hook() {
        f(of_hook(hook, device.hook_counts(), link, blocks));
    }
}

fn qdisc(place: Place, node: &Node, books: &Books, link: u32, refs: u32) -> Shown {
    let (parent, info) = match place.depth {
        // The queues hold references to their own qdiscs.
        0 if show::counts_below(node) => (u32::MAX, 1),
        0 => (u32::MAX, refs),
        _ => (place.parent.0, 1),
    };
    let name = node.qdisc().spec().kind;
    let given = given_of(node.qdisc());
    let mut is = Writer::default();
    is.text(KIND, name);
    if options::has_options(Object::Qdisc, name) {
        is.nest(OPTIONS, |w| options::write(Object::Qdisc, name, &given, w));
    }
    if let Some(stab) = node.front().stab() {
        is.nest(STAB, |w| options::write_stab(stab, w));
    }
    let mut counts = Writer::default();
    Usual::from(books).write(of_qdisc(node.qdisc(), &given).as_deref(), &mut counts);
    let head = TcHead { link, handle: node.handle().0, parent, info };
    Shown { kind: kind::NEW_QDISC, head, is: is.finish(), counts: counts.finish() }
}

/// Returns the options and the counters of a qdisc.
fn given_of(qdisc: &dyn Qdisc) -> Given {
    let mut given = Given::default();
    given.classes = qdisc.classes().len();
    qdisc.options(&mut |o| given.push(&o));
    qdisc.counters(&mut |counter, n| given.also(counter.key, n.cast_signed()));
    qdisc.parts(&mut |part, counter, n| given.also_of(part, counter.key, n));
    // The credit of one queue is the debt of the other.
    if let (Some(classic), Some(low)) = (given.signed("credit_c"), given.signed("credit_l")) {
        given.also("credit", if classic == 0 { -low } else { classic });
    }
    given
}

fn of_hook(hook: Hook, HookCounts { seen, drops }: HookCounts, link: u32, blocks: [Option<u32>; 2]) -> Shown {
    let mut is = Writer::default();
    is.text(KIND, if hook == Hook::Ingress { "ingress" } else { "clsact" });
    is.nest(OPTIONS, |_| {});
    for (number, block) in BLOCKS.into_iter().zip(blocks) {
        block.into_iter().for_each(|block| is.u32(number, block));
    }
    let mut counts = Writer::default();
    let usual = Usual { sent: Some((seen.bytes, seen.packets)), drops, ..Usual::default() };
    usual.write(None, &mut counts);
    let head = TcHead { link, handle: HOOK_HANDLE, parent: HOOK_PARENT, info: 1 };
    Shown { kind: kind::NEW_QDISC, head, is: is.finish(), counts: counts.finish() }
}

/// Calls `f` on the classes of a device; flows too, if they are asked for. Packets have their turn
/// meanwhile.
pub(crate) fn each_class(
    devices: &mut dyn Devices,
    name: &str,
    link: u32,
    flows: bool,
    f: &mut dyn FnMut(Shown),
) {
    devices.each_class(name, flows, &|seen: &Seen<'_>| class(seen, link), f);
}

fn class(seen: &Seen<'_>, link: u32) -> Shown {
    let name = seen.owner.qdisc().spec().kind;
    let leaf = |node: Option<&Node>| node.map_or(Handle::NONE, Node::handle);
    let (usual, own, leaf) = match seen.what {
        What::OfQueues(of) => (Some(Usual::from(&of.books)), None, of.leaf),
        What::Made(_, class) => (Some(made(class)), of_class(name, class.values), leaf(class.leaf)),
        What::Band(class) => {
            let counts =
                !matches!(seen.owner.qdisc().spec().shape, txweir_core::sched::spec::ClassShape::One);
            (counts.then(|| Usual::from(&class.node.books())), None, class.node.handle())
        }
        What::Flow(flow) => {
            let of =
                |key: &str| flow.values.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| n.unsigned_abs());
            let usual =
                Usual { sent: None, drops: of("drops"), overlimits: of("overlimits"), backlog: flow.backlog };
            (Some(usual), of_flow(name, flow.values), Handle::NONE)
        }
    };
    let mut is = Writer::default();
    is.text(KIND, name);
    if let What::Made(classes, class) = seen.what
        && options::has_options(Object::Class, name)
    {
        is.nest(OPTIONS, |w| options::write(Object::Class, name, &given_of_class(classes, class), w));
    }
    let mut counts = Writer::default();
    match usual {
        Some(usual) => usual.write(own.as_deref(), &mut counts),
        None => counters::write_none(&mut counts),
    }
    let parent = seen.parent().unwrap_or(Handle::NONE);
    let head = TcHead { link, handle: seen.id.0, parent: parent.0, info: leaf.0 };
    Shown { kind: kind::NEW_CLASS, head, is: is.finish(), counts: counts.finish() }
}

fn made(class: &ClassShown<'_>) -> Usual {
    let Tally { packets, bytes } = class.backlog;
    Usual {
        sent: Some((class.sent.bytes, class.sent_segs)),
        drops: class.drops,
        overlimits: class.overlimits,
        backlog: Tally { packets, bytes },
    }
}

/// Returns the options of a class; for htb also the depths of its buckets, and what follows from
/// the tree.
fn given_of_class(classes: &dyn UserClasses, class: &ClassShown<'_>) -> Given {
    let mut given = Given::default();
    let mut words = Vec::new();
    classes.options(class.at.minor, &mut |o| {
        // A quantum that follows from the rate is not among the options.
        if o.value.is_set() && o.param.key != "quantum" || classes.class_spec().kind != "htb" {
            given.push(&o);
        }
        if o.value.is_set() {
            words.extend(o.word.map(String::from));
            words.extend(exact_of(o.value).split(' ').map(String::from));
        }
    });
    if classes.class_spec().kind != "htb" {
        return given;
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut cfg = ClassConfig::defaults(&Env::default());
    if apply(&mut cfg, "htb", &mut Words::new(&words)).is_ok() {
        let (buffer, cbuffer) = cfg.depths();
        given.also("buffer", buffer.into());
        given.also("cbuffer", cbuffer.into());
        given.also("ceil", i64::try_from(cfg.ceiling().0).unwrap_or(i64::MAX));
    }
    if let [.., quantum, level] = class.values {
        given.also("quantum", *quantum);
        given.also("level", *level);
    }
    given
}
