//! The meaning of a request, by its flags and the objects that are there (rtnetlink(7), `NLM_F_*`):
//! the verb of tc that does the same, or the refusal. The verbs are those of tc's own combinations;
//! programs send others too.

use txweir_core::Handle;
use txweir_core::classify::filter::{Block, Chain, Table};
use txweir_core::path::trees::Trees;
use txweir_core::sched::node::Node;
use txweir_tc::tool::Devices;

use crate::classify::{BLOCK, CHAIN, Owner, of_info};
use crate::links;
use crate::message::{Header, TcHead, flag, kind};
use crate::refusal::{Refusal, errno};
use crate::wire::Attributes;

const KIND: u16 = 1;
const KIND_MAX: usize = 15;
const ROOT: u32 = u32::MAX;
const HOOK: u32 = 0xffff_fff1;
const MAJOR: u32 = 0xffff_0000;

/// A request whose flags are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The verb of tc.
    pub(crate) verb: &'static str,
    /// The kind of the object that is there, for a message that names none, or whose name says
    /// nothing.
    pub(crate) kind: Option<String>,
    /// The protocol of the table that is there, for a message that names none.
    pub(crate) protocol: Option<u16>,
    /// The parent, if it is not that of the message: 0 for a class whose parent says nothing.
    pub(crate) parent: Option<u32>,
    /// The refusal of Linux for an object that is there or missing. The engine refuses the words
    /// too, with its reason.
    pub(crate) refusal: Option<Refusal>,
}

impl Asked {
    pub(crate) const fn to(verb: &'static str) -> Self {
        Self { verb, kind: None, protocol: None, parent: None, refusal: None }
    }
}

/// The verb, or the refusal.
type Found = Result<Asked, Refusal>;

fn refused<T>(errno: i32, text: &str) -> Result<T, Refusal> {
    Err(Refusal { errno, text: text.into() })
}

/// The flags of a request.
#[derive(Clone, Copy)]
struct Flags(u16);

impl Flags {
    const fn create(self) -> bool {
        self.0 & flag::CREATE != 0
    }
    const fn excl(self) -> bool {
        self.0 & flag::EXCL != 0
    }
    const fn replace(self) -> bool {
        self.0 & flag::REPLACE != 0
    }

    /// Refuses an object that is there or missing: with the engine's reason, if the combination is
    /// one that tc sends.
    fn refuse(self, of: u16, errno: i32, text: &str) -> Found {
        let refusal = Refusal { errno, text: text.into() };
        match (self.create(), self.excl(), self.replace()) {
            (true, true, false) | (true, false, true) | (false, false, _) => {
                Ok(Asked { refusal: Some(refusal), ..Asked::to(plain(of, self)) })
            }
            _ => Err(refusal),
        }
    }
}

/// Reads the flags of a request that changes something.
///
/// # Errors
/// Linux refuses the request for its flags, or for what is there or missing.
pub(crate) fn asked(header: Header, body: &[u8], devices: &mut dyn Devices) -> Found {
    let (head, rest) = TcHead::read(body)?;
    let all = Attributes::read(rest, "message")?;
    let name = all.text(KIND, KIND_MAX)?;
    let flags = Flags(header.flags);
    match header.kind {
        kind::NEW_QDISC | kind::DEL_QDISC | kind::NEW_CLASS | kind::DEL_CLASS => {
            let link = links::name(devices, head.link)?;
            let missing = || Refusal { errno: errno::NODEV, text: format!("there is no link {link}") };
            let device = devices.device(&link).ok_or_else(missing)?;
            let trees = device.tree();
            match header.kind {
                kind::NEW_QDISC => new_qdisc(flags, head, name, &trees),
                kind::DEL_QDISC => delete_qdisc(head, name, &trees),
                of => class(of, flags, head, &trees),
            }
        }
        of => {
            let chain = all.u32(CHAIN)?.unwrap_or(0);
            let owner = Owner::asked(head, devices);
            priority(of, flags, head, name)?;
            // The words of tc name the place that is missing.
            let Ok(owner) = owner else { return Ok(Asked::to(plain(of, flags))) };
            // A place without filters may be none.
            let is_place = owner.is_some() || head.link == BLOCK || is_place(head, devices);
            let block = owner.and_then(|owner| devices.filters().block(owner.block));
            let found = block.and_then(|block| Some((block, block.chain(chain)?)));
            match of {
                // The refusal is that of the place, whichever kind the filter would have.
                kind::DEL_FILTER if !is_place => Ok(Asked { kind: Some("basic".into()), ..Asked::to("del") }),
                _ if !is_place || chain > CHAIN_MAX => Ok(Asked::to(plain(of, flags))),
                kind::NEW_CHAIN => new_chain(flags, found.is_some()),
                kind::DEL_CHAIN if found.is_none() => {
                    refused(errno::INVAL, "Cannot find specified filter chain.")
                }
                kind::NEW_FILTER => new_filter(flags, head, name, found),
                kind::DEL_FILTER => delete_filter(head, name, found),
                _ => Ok(Asked::to(plain(of, flags))),
            }
        }
    }
}

/// The highest number of a chain (tc(8)).
const CHAIN_MAX: u32 = 0x0fff_ffff;

/// Returns the verb of flags as tc itself sends them.
pub(crate) fn plain(of: u16, flags: impl Into<u16>) -> &'static str {
    let flags = Flags(flags.into());
    match of {
        kind::DEL_QDISC | kind::DEL_CLASS | kind::DEL_FILTER | kind::DEL_CHAIN => "del",
        kind::GET_FILTER | kind::GET_CHAIN => "get",
        kind::NEW_CHAIN => "add",
        _ => match (flags.create(), flags.excl(), flags.replace()) {
            (true, true, _) => "add",
            (true, false, _) => "replace",
            (false, _, true) if of == kind::NEW_QDISC => "link",
            _ => "change",
        },
    }
}

impl From<Flags> for u16 {
    fn from(flags: Flags) -> Self {
        flags.0
    }
}

/// True if filters may be at the place of a message.
fn is_place(head: TcHead, devices: &mut dyn Devices) -> bool {
    let Ok(link) = links::name(devices, head.link) else { return false };
    devices
        .device(&link)
        .is_some_and(|device| txweir_tc::tool::filters_at(device, Handle(head.parent)).is_some())
}

const TAKEN: &str = "Exclusivity flag on, cannot modify.";
const OTHER_KIND: &str = "Invalid qdisc name: must match existing qdisc.";

/// Qdiscs: whether the one at the place, or the one with the handle, is changed, or another one
/// takes the place.
fn new_qdisc(flags: Flags, head: TcHead, name: Option<&str>, trees: &Trees<'_>) -> Found {
    let TcHead { handle, parent, .. } = head;
    let plain = || Ok(Asked::to(plain(kind::NEW_QDISC, flags)));
    if parent == HOOK {
        return plain();
    }
    let with = |handle: u32| trees.qdisc(Handle(handle)).filter(|node| !node.handle().is_none());
    let there = if parent == 0 {
        if handle == 0 {
            return refused(errno::INVAL, "Handle cannot be zero.");
        }
        with(handle)
    } else {
        parent_of(parent, trees)?;
        let there = trees.qdisc_at(trees.named(Handle(parent))).filter(|node| !node.handle().is_none());
        match there {
            Some(node) if handle == 0 => {
                let is_other = name.is_some_and(|name| name != node.qdisc().spec().kind);
                let makes = flags.create() && (flags.replace() || flags.excl());
                let says_nothing = !flags.create() && !flags.replace() && !flags.excl();
                if is_other && (makes || says_nothing) {
                    return Ok(Asked::to("replace"));
                }
                Some(node)
            }
            Some(node) if node.handle().0 == handle => Some(node),
            there if handle != 0 => {
                if there.is_some() && !flags.replace() {
                    return refused(errno::EXIST, "NLM_F_REPLACE needed to override.");
                }
                if handle & !MAJOR != 0 {
                    return refused(errno::INVAL, "Invalid minor handle.");
                }
                if with(handle).is_some() {
                    let text = "Cannot move an existing qdisc to a different parent.";
                    return refused(errno::INVAL, text);
                }
                return create(flags, name);
            }
            _ => return create(flags, name),
        }
    };
    let Some(node) = there else { return refused(errno::NOENT, "Specified qdisc not found.") };
    let own = node.qdisc().spec().kind;
    if flags.excl() {
        return flags.refuse(kind::NEW_QDISC, errno::EXIST, TAKEN);
    }
    if name.is_some_and(|name| name != own) {
        return refused(errno::INVAL, OTHER_KIND);
    }
    Ok(Asked { kind: Some(own.into()), ..Asked::to("change") })
}

/// Refuses a parent that is missing.
fn parent_of(parent: u32, trees: &Trees<'_>) -> Result<(), Refusal> {
    if parent == ROOT {
        return Ok(());
    }
    let Some(node) = trees.qdisc(Handle(parent & MAJOR)) else {
        return refused(errno::NOENT, "Failed to find specified qdisc.");
    };
    match (has_classes(node), has_class(node, Handle(parent), trees)) {
        (false, _) => refused(errno::OPNOTSUPP, "Parent qdisc is not classful."),
        (_, false) => refused(errno::NOENT, "Specified class not found."),
        _ => Ok(()),
    }
}

fn has_classes(node: &Node) -> bool {
    node.qdisc().spec().shape.is_classful() || node.qdisc().user_classes().is_some()
}

fn has_class(node: &Node, class: Handle, trees: &Trees<'_>) -> bool {
    let (qdisc, minor) = (node.qdisc(), trees.named(class).minor());
    minor != 0 && qdisc.class(minor).is_some() || qdisc.user_classes().is_some_and(|all| all.has(minor))
}

fn create(flags: Flags, name: Option<&str>) -> Found {
    if !flags.create() {
        let text = "Qdisc not found. To create specify NLM_F_CREATE flag.";
        return flags.refuse(kind::NEW_QDISC, errno::NOENT, text);
    }
    if name.is_none() {
        return refused(errno::NOENT, "Specified qdisc kind is unknown.");
    }
    Ok(Asked::to("replace"))
}

fn delete_qdisc(head: TcHead, name: Option<&str>, trees: &Trees<'_>) -> Found {
    let TcHead { handle, parent, .. } = head;
    if parent == HOOK {
        return Ok(Asked::to("del"));
    }
    let there = match parent {
        0 => match trees.qdisc(Handle(handle)).filter(|_| handle != 0) {
            None => return refused(errno::NOENT, "Failed to find qdisc with specified handle."),
            there => there,
        },
        parent => trees.qdisc_at(trees.named(Handle(parent))),
    };
    // The words of tc name the place that is missing.
    let Some(node) = there else { return Ok(Asked::to("del")) };
    if parent != 0 && handle != 0 && node.handle().0 != handle {
        return refused(errno::INVAL, "Invalid handle.");
    }
    if name.is_some_and(|name| name != node.qdisc().spec().kind) {
        return refused(errno::INVAL, OTHER_KIND);
    }
    match (parent, node.handle().is_none()) {
        (0, _) => refused(errno::INVAL, "Classid cannot be zero."),
        (_, true) => refused(errno::NOENT, "Cannot delete qdisc with handle of zero."),
        _ => Ok(Asked::to("del")),
    }
}

/// Classes: the name of the kind says nothing, because the qdisc has it.
fn class(of: u16, flags: Flags, head: TcHead, trees: &Trees<'_>) -> Found {
    let TcHead { handle, parent, .. } = head;
    let major = match (handle & MAJOR, parent & MAJOR) {
        (own, _) if own != 0 && parent == ROOT => own,
        (own, above) if own != 0 && above != 0 && own != above => {
            return refused(errno::INVAL, "a class and its parent are of one qdisc");
        }
        (0, above) if above != 0 && parent != ROOT => above,
        (0, _) => trees.root().handle().0,
        (own, _) => own,
    };
    let Some(node) = trees.qdisc(Handle(major)).filter(|node| !node.handle().is_none()) else {
        return refused(errno::NOENT, "there is no such qdisc");
    };
    if !has_classes(node) {
        return refused(errno::INVAL, "the qdisc has no classes");
    }
    let own = node.qdisc().spec().kind;
    let asked = |verb, parent| Ok(Asked { kind: Some(own.into()), parent, ..Asked::to(verb) });
    // Of a class that is there, hfsc alone looks at the parent.
    let says_nothing = (own != "hfsc").then_some(0);
    match (of == kind::DEL_CLASS, has_class(node, Handle(handle), trees)) {
        (true, false) => refused(errno::NOENT, "there is no such class"),
        (true, true) => asked("del", Some(0)),
        (false, true) if flags.excl() => flags.refuse(of, errno::EXIST, "there is such a class already"),
        (false, true) => asked("change", says_nothing),
        (false, false) if !flags.create() => flags.refuse(of, errno::NOENT, "there is no such class"),
        (false, false) if handle == 0 => refused(errno::INVAL, "a class has a number"),
        (false, false) => asked("replace", (parent == 0).then_some(ROOT)),
    }
}

fn new_chain(flags: Flags, is_there: bool) -> Found {
    if !is_there && !flags.create() {
        let text = "Need both RTM_NEWCHAIN and NLM_F_CREATE to create a new chain.";
        return refused(errno::NOENT, text);
    }
    Ok(Asked::to("add"))
}

/// Returns the table of a message's priority; `Err` if it has another protocol.
fn table(head: TcHead, chain: &Chain) -> Result<Option<&Table>, ()> {
    let (prio, protocol) = of_info(head.info);
    let table = chain.tables.iter().find(|table| table.prio == prio);
    match table {
        Some(table) if protocol != 0 && table.protocol != protocol => Err(()),
        table => Ok(table),
    }
}

const NO_TABLE: &str = "Filter with specified priority/protocol not found.";
const OTHER_FILTER: &str = "Specified filter kind does not match existing one.";
const NO_CREATE: &str = "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter.";

/// Refuses a filter without a priority, which Linux does before it looks for the place.
fn priority(of: u16, flags: Flags, head: TcHead, name: Option<&str>) -> Result<(), Refusal> {
    let (prio, protocol) = of_info(head.info);
    match of {
        kind::NEW_FILTER if prio == 0 && !flags.create() => {
            refused(errno::NOENT, "Invalid filter command with priority of zero.")
        }
        kind::DEL_FILTER if prio == 0 && (protocol != 0 || head.handle != 0 || name.is_some()) => {
            refused(errno::NOENT, "Cannot flush filters with protocol, handle or kind set.")
        }
        _ => Ok(()),
    }
}

fn new_filter(flags: Flags, head: TcHead, name: Option<&str>, found: Option<(&Block, &Chain)>) -> Found {
    let (prio, protocol) = of_info(head.info);
    let table = match found.filter(|_| prio != 0).map(|(_, chain)| table(head, chain)).transpose() {
        Ok(table) => table.flatten(),
        Err(()) => return refused(errno::INVAL, NO_TABLE),
    };
    let Some(table) = table else {
        return match (name, flags.create()) {
            (None, _) => refused(errno::INVAL, "Filter kind and protocol must be specified."),
            _ if protocol == 0 => refused(errno::INVAL, "Filter kind and protocol must be specified."),
            (_, false) => flags.refuse(kind::NEW_FILTER, errno::NOENT, NO_CREATE),
            _ => Ok(Asked::to(if flags.excl() { "add" } else { "replace" })),
        };
    };
    if name.is_some_and(|name| name != table.kind()) {
        return refused(errno::INVAL, OTHER_FILTER);
    }
    let mut is_there = false;
    if let Some((block, _)) = found.filter(|_| head.handle != 0) {
        block.find(table, head.handle, &mut |_, _, _| is_there = true);
    }
    match (is_there, flags.create()) {
        (true, _) if flags.excl() => flags.refuse(kind::NEW_FILTER, errno::EXIST, "Filter already exists."),
        (false, false) => flags.refuse(kind::NEW_FILTER, errno::NOENT, NO_CREATE),
        (false, true) if flags.excl() => Ok(of_table(table, "add")),
        _ => Ok(of_table(table, "replace")),
    }
}

fn of_table(table: &Table, verb: &'static str) -> Asked {
    Asked { kind: Some(table.kind().into()), protocol: Some(table.protocol), ..Asked::to(verb) }
}

fn delete_filter(head: TcHead, name: Option<&str>, found: Option<(&Block, &Chain)>) -> Found {
    let (prio, _) = of_info(head.info);
    let Some((_, chain)) = found.filter(|_| prio != 0) else {
        return match (prio, found) {
            (0, _) => Ok(Asked::to("del")),
            _ => refused(errno::NOENT, "Cannot find specified filter chain."),
        };
    };
    let table = match table(head, chain) {
        Ok(Some(table)) => table,
        Ok(None) => return refused(errno::NOENT, NO_TABLE),
        Err(()) => return refused(errno::INVAL, NO_TABLE),
    };
    if name.is_some_and(|name| name != table.kind()) {
        return refused(errno::INVAL, OTHER_FILTER);
    }
    // The engine refuses a handle that is missing.
    Ok(of_table(table, "del"))
}
