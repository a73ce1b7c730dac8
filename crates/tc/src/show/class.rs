//! Classes as `tc class show` prints them. tc 6.1 prints text with any options; the JSON here is an
//! object for each class, with the keys that tc has for qdiscs.

use std::fmt::Write;

use txweir_core::path::trees::Trees;
use txweir_core::sched::capability::FlowShown;
use txweir_core::sched::classful::{ClassAt, ClassShown, UserClasses};
use txweir_core::sched::node::{Class, Node};
use txweir_core::sched::spec::ClassShape;
use txweir_core::text::value::text_of;
use txweir_core::{Bytes, Handle, Tally};

#[cfg(feature = "kinds")]
use super::htb;
use super::measured::Usual;
use super::{Form, Printed, books, in_order, queues, time_text, write_books};
use crate::json::Object;

/// The classes that a line asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    /// `parent`: the classes of its qdisc.
    pub(crate) parent: Option<Handle>,
    /// `classid`: this class.
    pub(crate) classid: Option<Handle>,
    /// `qdisc`: the classes of this one, printed by their minor numbers.
    pub(crate) qdisc: Option<Handle>,
}

impl Classes {
    pub(super) fn wants(&self, class: Handle) -> bool {
        self.parent.is_none_or(|p| p != Handle::ROOT && p.qdisc() == class.qdisc())
            && self.classid.is_none_or(|c| c == class)
            && self.qdisc.is_none_or(|q| q.qdisc() == class.qdisc())
    }
}

/// A class of a device.
pub struct Seen<'a> {
    /// The qdisc that it belongs to.
    pub owner: &'a Node,
    /// Its number.
    pub id: Handle,
    /// The source of what is known of it.
    pub what: What<'a>,
}

/// The sources of what is known of a class.
pub enum What<'a> {
    /// A traffic class or a transmit queue of a root that stands for queues.
    OfQueues(&'a queues::OfQueues),
    /// A class that a command has made, or may change.
    Made(&'a dyn UserClasses, &'a ClassShown<'a>),
    /// A band.
    Band(&'a Class),
    /// A flow that a qdisc keeps apart.
    Flow(&'a FlowShown<'a>),
}

impl Seen<'_> {
    /// Returns the counters that tc prints of every class; `None` for a flow, which has not all.
    pub(super) fn usual(&self) -> Option<Usual> {
        match self.what {
            What::OfQueues(of) => Some((&of.books).into()),
            What::Made(_, class) => Some(class.into()),
            What::Band(class) => Some((&class.node.books()).into()),
            What::Flow(_) => None,
        }
    }

    /// Returns its parent, [`Handle::ROOT`] for the root; `None` if it has none.
    #[must_use]
    pub fn parent(&self) -> Option<Handle> {
        match self.what {
            What::OfQueues(of) => of.parent(),
            What::Made(classes, ClassShown { at, .. }) if is_root(classes, *at) => Some(Handle::ROOT),
            What::Made(_, class) => Some(Handle::new(self.owner.handle().major(), class.at.parent)),
            What::Band(_) | What::Flow(_) => Some(self.owner.handle()),
        }
    }
}

/// True if a class has no class above it. Where the qdisc itself is a class, only that has none.
fn is_root(classes: &dyn UserClasses, at: ClassAt) -> bool {
    at.parent == 0 && (at.minor == 0 || !classes.class_spec().root_class)
}

/// Calls `f` on each class in the order of the list. The flows that a qdisc keeps apart, if they
/// are asked for, are classes too, if the waiting packets are known, while packets wait in them or
/// their turn is to come.
pub fn each(trees: &Trees<'_>, flows: bool, f: &mut dyn FnMut(&Seen<'_>)) {
    in_order(trees, &mut |_, node, pool| {
        if queues::stand(node) {
            return queues::each_class(node, &queues::below(trees), &mut |id, of| {
                f(&Seen { owner: node, id, what: What::OfQueues(of) });
            });
        }
        if node.handle().is_none() {
            return;
        }
        let id = |minor: u16| Handle::new(node.handle().major(), minor);
        if let Some(classes) = node.qdisc().user_classes() {
            classes.list(&mut |class| {
                f(&Seen { owner: node, id: id(class.at.minor), what: What::Made(classes, &class) });
            });
            return;
        }
        for class in node.qdisc().classes() {
            // netem has a class only while a qdisc is in it.
            let kind = node.qdisc().spec().kind;
            // That of sfb is never listed.
            if kind != "sfb" && (kind != "netem" || !class.node.handle().is_none()) {
                f(&Seen { owner: node, id: id(class.minor), what: What::Band(class) });
            }
        }
        let Some(pool) = pool.filter(|_| flows) else { return };
        node.qdisc().flows(pool, &mut |flow| {
            // The last of 65 536 flows has no minor number.
            let Ok(minor) = u16::try_from(flow.minor) else { return };
            f(&Seen { owner: node, id: id(minor), what: What::Flow(&flow) });
        });
    });
}

/// Returns a class as text or as a JSON object; `None` if it is not asked for.
pub(crate) fn one(seen: &Seen<'_>, form: &Form, asked: &Classes, as_json: bool) -> Option<String> {
    let Seen { owner, id, what } = seen;
    if !asked.wants(*id) {
        return None;
    }
    if as_json {
        return Some(match what {
            What::OfQueues(of) => queues::class_object(owner, *id, of, form),
            What::Made(classes, class) => user_object(owner, *classes, class, form),
            What::Band(class) => object(owner, class, form),
            What::Flow(flow) => flow_object(owner, *id, flow, form),
        });
    }
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = match what {
        What::OfQueues(of) => queues::write_class(&mut text, owner, *id, of, form, asked),
        What::Made(classes, class) => write_user_class(&mut text, owner, *classes, class, form, asked),
        What::Band(class) => write_class(&mut text, owner, class, form, asked),
        What::Flow(flow) => write_flow(&mut text, owner, *id, flow, form, asked),
    };
    Some(text)
}

fn write_class(
    out: &mut String,
    owner: &Node,
    class: &Class,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    let id = Handle::new(owner.handle().major(), class.minor);
    write_head(out, owner, id, form, asked)?;
    if !class.node.handle().is_none() {
        write!(out, "leaf {} ", class.node.handle())?;
    }
    writeln!(out)?;
    if form.statistics {
        match owner.qdisc().spec().shape {
            // Kinds with one class report no counters for it.
            ClassShape::One => writeln!(out)?,
            _ => write_books(out, &class.node, &[])?,
        }
    }
    Ok(())
}

/// Writes a class that a command has made, or may change.
fn write_user_class(
    out: &mut String,
    owner: &Node,
    classes: &dyn UserClasses,
    class: &ClassShown<'_>,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    let id = Handle::new(owner.handle().major(), class.at.minor);
    write_name(out, owner, id, form, asked)?;
    if is_root(classes, class.at) {
        write!(out, "root ")?;
    } else {
        let parent = Handle::new(owner.handle().major(), class.at.parent);
        write!(out, "parent {} ", name_of(parent, form, asked))?;
    }
    if let Some(leaf) = class.leaf.filter(|leaf| !leaf.handle().is_none()) {
        write!(out, "leaf {} ", leaf.handle())?;
    }
    for text in class_options(classes, class, form).into_iter().filter_map(|o| o.text) {
        write!(out, "{text} ")?;
    }
    writeln!(out)?;
    if !form.statistics {
        return Ok(());
    }
    writeln!(
        out,
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues 0) ",
        class.sent.bytes, class.sent_segs, class.drops, class.overlimits
    )?;
    let Tally { packets, bytes } = class.backlog;
    writeln!(out, " backlog {} {packets}p requeues 0", text_of(&Bytes(bytes)))?;
    match (classes.class_spec().kind, class.values) {
        #[cfg(feature = "kinds")]
        ("htb", _) => write!(out, "{}", htb::class_counters(class)),
        ("hfsc", [period, work, rtwork, level]) => {
            write!(out, " period {period} ")?;
            for (key, bytes) in [("work", work), ("rtwork", rtwork)] {
                if *bytes != 0 {
                    write!(out, "{key} {bytes} bytes ")?;
                }
            }
            writeln!(out, "level {level} \n")
        }
        ("drr", [deficit]) => writeln!(out, " deficit {} ", text_of(&Bytes(deficit.unsigned_abs()))),
        _ => Ok(()),
    }
}

/// Returns the options of a class as tc prints them.
fn class_options(classes: &dyn UserClasses, class: &ClassShown<'_>, form: &Form) -> Vec<Printed> {
    #[cfg(feature = "kinds")]
    if classes.class_spec().kind == "htb" {
        return htb::class_options(classes, class, form);
    }
    let mut printed = Vec::new();
    classes.options(class.at.minor, &mut |o| printed.extend(super::option(&o, form)));
    printed
}

/// Returns the options of a class as the plan prints them, each with its key; and without loss.
pub(crate) fn class_option_texts(
    classes: &dyn UserClasses,
    class: &ClassShown<'_>,
) -> (Vec<(&'static str, String)>, String) {
    let printed = class_options(classes, class, &Form::default());
    let texts = printed.into_iter().filter_map(|p| Some((p.key, p.text?))).collect();
    let mut exact = Vec::new();
    classes.options(class.at.minor, &mut |o| super::push_words(&mut exact, &o));
    (texts, exact.join(" "))
}

fn user_object(owner: &Node, classes: &dyn UserClasses, class: &ClassShown<'_>, form: &Form) -> String {
    let major = owner.handle().major();
    let mut o = name_object(owner, Handle::new(major, class.at.minor), form);
    o = match is_root(classes, class.at) {
        true => o.bool("root", true),
        false => o.text("parent", &form.named(Handle::new(major, class.at.parent))),
    };
    if let Some(leaf) = class.leaf.filter(|leaf| !leaf.handle().is_none()) {
        o = o.text("leaf", &leaf.handle().to_string());
    }
    let options = class_options(classes, class, form);
    let options = options.iter().filter_map(|p| Some((p.key, p.json.as_ref()?)));
    o = o.raw("options", &options.fold(Object::new(), |o, (key, value)| o.value(key, value)).finish());
    if !form.statistics {
        return o.finish();
    }
    let o = Usual::from(class).members(o);
    let own = classes.class_spec().counters.iter().zip(class.values);
    own.fold(o, |o, (counter, value)| o.raw(counter.key, &value.to_string())).finish()
}

/// Writes the class, and its qdisc.
fn write_head(out: &mut String, owner: &Node, id: Handle, form: &Form, asked: &Classes) -> std::fmt::Result {
    write_name(out, owner, id, form, asked)?;
    write!(out, "parent {} ", name_of(owner.handle(), form, asked))
}

pub(super) fn name_of(handle: Handle, form: &Form, asked: &Classes) -> String {
    match asked.qdisc {
        // The major number is left out.
        Some(_) => Handle(handle.0 & 0xffff).to_string(),
        None => form.named(handle),
    }
}

pub(super) fn write_name(
    out: &mut String,
    owner: &Node,
    id: Handle,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    write!(out, "class {} {} ", owner.qdisc().spec().kind, name_of(id, form, asked))?;
    match &form.dev {
        Some(dev) => write!(out, "dev {dev} "),
        None => Ok(()),
    }
}

/// Writes a flow: its backlog, and the state of its law.
fn write_flow(
    out: &mut String,
    owner: &Node,
    id: Handle,
    flow: &FlowShown<'_>,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    write_head(out, owner, id, form, asked)?;
    writeln!(out)?;
    if !form.statistics {
        return Ok(());
    }
    let Tally { packets, bytes } = flow.backlog;
    let [drops, overlimits] = refused(flow);
    writeln!(out, " (dropped {drops}, overlimits {overlimits} requeues 0) ")?;
    writeln!(out, " backlog {} {packets}p requeues 0", text_of(&Bytes(bytes)))?;
    for (i, (key, value)) in known(flow).enumerate() {
        if i == 0 {
            write!(out, " ")?;
        }
        match key {
            "dropping" => write!(out, " dropping")?,
            "ldelay" | "drop_next" | "blue_timer" => {
                let sign = if value < 0 { "-" } else { "" };
                write!(out, " {key} {sign}{}", time_text(value.unsigned_abs()))?;
            }
            _ => write!(out, " {key} {value}")?,
        }
    }
    if known(flow).next().is_some() {
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the drops of a flow, and those for want of room.
fn refused(flow: &FlowShown<'_>) -> [i64; 2] {
    REFUSED.map(|key| flow.values.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n))
}

/// Values of a flow that tc prints as those of any class.
const REFUSED: [&str; 2] = ["drops", "overlimits"];

/// Returns the values of a flow, without those that are meaningless while it drops nothing.
fn known<'a>(flow: &FlowShown<'a>) -> impl Iterator<Item = (&'static str, i64)> + use<'a> {
    let values = flow.values;
    let dropping = values.iter().any(|(key, value)| *key == "dropping" && *value != 0);
    let blue = values.iter().any(|(key, value)| *key == "blue_prob" && *value != 0);
    let said = move |key: &str| match key {
        "drops" | "overlimits" => false,
        "dropping" | "drop_next" => dropping,
        "blue_timer" => blue,
        _ => true,
    };
    values.iter().copied().filter(move |(key, _)| said(key))
}

fn flow_object(owner: &Node, id: Handle, flow: &FlowShown<'_>, form: &Form) -> String {
    let o = head_object(owner, id, form);
    if !form.statistics {
        return o.finish();
    }
    let [drops, overlimits] = refused(flow).map(i64::unsigned_abs);
    let Tally { packets, bytes } = flow.backlog;
    let counts = [
        ("drops", drops),
        ("overlimits", overlimits),
        ("requeues", 0),
        ("backlog", bytes),
        ("qlen", packets),
    ];
    let o = counts.into_iter().fold(o, |o, (key, n)| o.uint(key, n));
    let value = |o: Object, (key, value): (&str, i64)| match key {
        "dropping" => o.bool(key, true),
        _ => o.raw(key, &value.to_string()),
    };
    known(flow).fold(o, value).finish()
}

pub(super) fn name_object(owner: &Node, id: Handle, form: &Form) -> Object {
    let o = Object::new().text("class", owner.qdisc().spec().kind).text("handle", &form.named(id));
    match &form.dev {
        Some(dev) => o.text("dev", dev),
        None => o,
    }
}

fn head_object(owner: &Node, id: Handle, form: &Form) -> Object {
    name_object(owner, id, form).text("parent", &form.named(owner.handle()))
}

fn object(owner: &Node, class: &Class, form: &Form) -> String {
    let mut o = head_object(owner, Handle::new(owner.handle().major(), class.minor), form);
    if !class.node.handle().is_none() {
        o = o.text("leaf", &class.node.handle().to_string());
    }
    if form.statistics { books(o, &class.node, &[]).finish() } else { o.finish() }
}
