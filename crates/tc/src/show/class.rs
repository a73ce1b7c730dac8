//! Classes as `tc class show` prints them. tc 6.1 prints text whatever the options say; asked for JSON, this is an object
//! for each class, with the keys that tc has for qdiscs.

use std::fmt::Write;

use txweir_core::node::{Class, Node};
use txweir_core::{Handle, Tree};

use super::{Form, books, write_books};
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

/// The classes of a tree, each in its text and as a JSON object. `name` gives a class its name, if it has one.
pub fn classes(
    tree: &Tree,
    form: &Form,
    asked: &Classes,
    name: &dyn Fn(Handle) -> Option<String>,
) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut objects = Vec::new();
    tree.visit(&mut |_, node| {
        if node.handle().is_none() {
            return;
        }
        for class in node.qdisc().classes() {
            let id = Handle::new(node.handle().major(), class.minor);
            if asked.wants(id) {
                // Writing into a String cannot fail.
                let _ = write_class(&mut text, node, class, form, asked, name);
                objects.push(object(node, class, form));
            }
        }
    });
    (text, objects)
}

fn write_class(
    out: &mut String,
    owner: &Node,
    class: &Class,
    form: &Form,
    asked: &Classes,
    name: &dyn Fn(Handle) -> Option<String>,
) -> std::fmt::Result {
    let kind = owner.qdisc().spec().kind;
    let id = Handle::new(owner.handle().major(), class.minor);
    let of = |handle: Handle| match asked.qdisc {
        // The major number goes without saying.
        Some(_) => Handle(handle.0 & 0xffff).to_string(),
        None => name(handle).unwrap_or_else(|| handle.to_string()),
    };
    write!(out, "class {kind} {} ", of(id))?;
    if let Some(dev) = &form.dev {
        write!(out, "dev {dev} ")?;
    }
    write!(out, "parent {} ", of(owner.handle()))?;
    if !class.node.handle().is_none() {
        write!(out, "leaf {} ", class.node.handle())?;
    }
    writeln!(out)?;
    if form.statistics {
        // tbf gives out no counters for its class.
        if kind != "tbf" {
            write_books(out, &class.node)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn object(owner: &Node, class: &Class, form: &Form) -> String {
    let id = Handle::new(owner.handle().major(), class.minor);
    let mut o = Object::new().text("class", owner.qdisc().spec().kind).text("handle", &id.to_string());
    if let Some(dev) = &form.dev {
        o = o.text("dev", dev);
    }
    o = o.text("parent", &owner.handle().to_string());
    if !class.node.handle().is_none() {
        o = o.text("leaf", &class.node.handle().to_string());
    }
    if form.statistics { books(o, &class.node).finish() } else { o.finish() }
}
