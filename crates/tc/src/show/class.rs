//! Classes as `tc class show` prints them. tc 6.1 prints text whatever the options say; asked for JSON, this is an object
//! for each class, with the keys that tc has for qdiscs.

use std::fmt::Write;

use txweir_core::node::{Class, Node};
use txweir_core::pool::Pool;
use txweir_core::qdisc::FlowShown;
use txweir_core::value::text_of;
use txweir_core::{Bytes, Handle, Tally, Tree};

use super::{Form, books, in_order, time_text, write_books};
use crate::json::Object;

/// Which classes are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// `parent`: those of its qdisc.
    pub parent: Option<Handle>,
    /// `classid`: this one.
    pub classid: Option<Handle>,
    /// `qdisc`: those of this one, printed by their minor numbers.
    pub qdisc: Option<Handle>,
}

impl Classes {
    fn wants(&self, class: Handle) -> bool {
        self.parent.is_none_or(|p| p != Handle::ROOT && p.qdisc() == class.qdisc())
            && self.classid.is_none_or(|c| c == class)
            && self.qdisc.is_none_or(|q| q.qdisc() == class.qdisc())
    }
}

/// The classes of a tree, each in its text and as a JSON object; `pool` has the packets that wait in it. The flows that a
/// qdisc keeps apart are classes too, as long as something waits in them or their turn is to come.
pub fn classes(tree: &Tree, pool: &Pool, form: &Form, asked: &Classes) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut objects = Vec::new();
    in_order(tree, &mut |_, node| {
        if node.handle().is_none() {
            return;
        }
        for class in node.qdisc().classes() {
            let id = Handle::new(node.handle().major(), class.minor);
            if asked.wants(id) {
                // Writing into a String cannot fail.
                let _ = write_class(&mut text, node, class, form, asked);
                objects.push(object(node, class, form));
            }
        }
        node.qdisc().flows(pool, &mut |flow| {
            // The last of 65 536 flows has no minor number.
            let Ok(minor) = u16::try_from(flow.minor) else { return };
            let id = Handle::new(node.handle().major(), minor);
            if asked.wants(id) {
                let _ = write_flow(&mut text, node, id, &flow, form, asked);
                objects.push(flow_object(node, id, &flow, form));
            }
        });
    });
    (text, objects)
}

fn write_class(
    out: &mut String,
    owner: &Node,
    class: &Class,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    let kind = owner.qdisc().spec().kind;
    let id = Handle::new(owner.handle().major(), class.minor);
    write_head(out, owner, id, form, asked)?;
    if !class.node.handle().is_none() {
        write!(out, "leaf {} ", class.node.handle())?;
    }
    writeln!(out)?;
    if form.statistics {
        match kind {
            // tbf gives out no counters for its class.
            "tbf" => writeln!(out)?,
            _ => write_books(out, &class.node)?,
        }
    }
    Ok(())
}

/// Which class it is, and of which qdisc.
fn write_head(out: &mut String, owner: &Node, id: Handle, form: &Form, asked: &Classes) -> std::fmt::Result {
    let of = |handle: Handle| match asked.qdisc {
        // The major number goes without saying.
        Some(_) => Handle(handle.0 & 0xffff).to_string(),
        None => form.named(handle),
    };
    write!(out, "class {} {} ", owner.qdisc().spec().kind, of(id))?;
    if let Some(dev) = &form.dev {
        write!(out, "dev {dev} ")?;
    }
    write!(out, "parent {} ", of(owner.handle()))
}

/// A flow: what waits in it, and what its law knows.
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
    writeln!(out, " (dropped 0, overlimits 0 requeues 0) ")?;
    write!(out, " backlog {} {packets}p requeues 0\n ", text_of(&Bytes(bytes)))?;
    for (key, value) in known(flow) {
        match key {
            "dropping" => write!(out, " dropping")?,
            "ldelay" | "drop_next" => {
                let sign = if value < 0 { "-" } else { "" };
                write!(out, " {key} {sign}{}", time_text(value.unsigned_abs()))?;
            }
            _ => write!(out, " {key} {value}")?,
        }
    }
    writeln!(out)
}

/// What is known of a flow, without what says nothing while it drops nothing.
fn known<'a>(flow: &FlowShown<'a>) -> impl Iterator<Item = (&'static str, i64)> + use<'a> {
    let values = flow.values;
    let dropping = values.iter().any(|(key, value)| *key == "dropping" && *value != 0);
    values.iter().copied().filter(move |(key, _)| dropping || !matches!(*key, "dropping" | "drop_next"))
}

fn flow_object(owner: &Node, id: Handle, flow: &FlowShown<'_>, form: &Form) -> String {
    let o = head_object(owner, id, form);
    if !form.statistics {
        return o.finish();
    }
    let counts = [("drops", 0), ("overlimits", 0), ("requeues", 0), ("backlog", flow.backlog.bytes)];
    let o = counts.into_iter().chain([("qlen", flow.backlog.packets)]).fold(o, |o, (key, n)| o.uint(key, n));
    let value = |o: Object, (key, value): (&str, i64)| match key {
        "dropping" => o.bool(key, true),
        _ => o.raw(key, &value.to_string()),
    };
    known(flow).fold(o, value).finish()
}

fn head_object(owner: &Node, id: Handle, form: &Form) -> Object {
    let mut o = Object::new().text("class", owner.qdisc().spec().kind).text("handle", &form.named(id));
    if let Some(dev) = &form.dev {
        o = o.text("dev", dev);
    }
    o.text("parent", &form.named(owner.handle()))
}

fn object(owner: &Node, class: &Class, form: &Form) -> String {
    let mut o = head_object(owner, Handle::new(owner.handle().major(), class.minor), form);
    if !class.node.handle().is_none() {
        o = o.text("leaf", &class.node.handle().to_string());
    }
    if form.statistics { books(o, &class.node).finish() } else { o.finish() }
}
