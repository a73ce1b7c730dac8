//! The commands that make the qdiscs of a device again, and copies of the qdiscs.

use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::stab::Stab;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle, Tree};

use super::{push_words, stab, words_of};

/// Returns the commands that make the tree, without loss, one a line, parents first. A default root
/// takes none.
pub fn commands<'a>(trees: impl Into<Trees<'a>>, dev: Option<&str>) -> String {
    let mut out = String::new();
    for made in made_by(&trees.into()) {
        out.push_str(if made.class.is_some() { "class replace" } else { "qdisc replace" });
        if let Some(dev) = dev {
            out.push_str(&format!(" dev {dev}"));
        }
        match made.parent {
            Handle::ROOT => out.push_str(" root"),
            parent => out.push_str(&format!(" parent {parent}")),
        }
        match made.class {
            Some(class) => out.push_str(&format!(" classid {class}")),
            None => out.push_str(&format!(" handle {}", made.handle)),
        }
        if let Some(stab) = &made.stab {
            out.push_str(&format!(" {}", stab::words(stab)));
        }
        out.push_str(&format!(" {}", made.kind));
        for word in made.options {
            out.push(' ');
            out.push_str(&word);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
std::thread_local! {
    /// Copies of trees that this thread has made.
    pub(crate) static COPIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns a tree of the same structure and options, with nothing queued and nothing counted. The
/// copy of a port whose queues have trees of their own is one tree: changes to either are named and
/// refused alike, and packets put into it wait in the same places.
pub(crate) fn copy<'a>(trees: impl Into<Trees<'a>>, cx: &mut Cx) -> Result<Tree, ConfigError> {
    #[cfg(test)]
    COPIES.with(|copies| copies.set(copies.get() + 1));
    let trees = &trees.into();
    let copy = if trees.is_of_port() { Tree::of_port(*trees.env()) } else { Tree::new(*trees.env()) };
    let mut copy = copy.with_kinds(trees.kinds());
    for made in made_by(trees) {
        let options: Vec<&str> = made.options.iter().map(String::as_str).collect();
        let words = &mut Words::new(&options);
        match made.class {
            Some(class) => copy.edit(cx).replace_class(made.parent, class, Some(made.kind), words)?,
            None => {
                copy.edit(cx).replace(made.parent, Some(made.handle), made.kind, words)?;
            }
        }
        if made.stab.is_some() {
            copy.edit(cx).set_stab(made.parent, made.stab)?;
        }
    }
    copy.edit(cx).set_blocks(&trees.blocks());
    Ok(copy)
}

/// The parts of a command that makes one qdisc or class.
struct Made {
    /// Its parent: a class, or `ROOT`; for a class its qdisc or a class.
    parent: Handle,
    /// The qdisc's handle.
    handle: Handle,
    kind: &'static str,
    options: Vec<String>,
    stab: Option<Stab>,
    /// The class, if it is one.
    class: Option<Handle>,
}

/// Returns everything that commands have made, parents first: each qdisc, then its classes.
fn made_by(trees: &Trees<'_>) -> Vec<Made> {
    let mut all = Vec::new();
    trees.visit(&mut |place, node| {
        if node.handle().is_none() {
            return;
        }
        let options = words_of(node.qdisc());
        let (parent, handle, kind) = (place.parent, node.handle(), node.qdisc().spec().kind);
        all.push(Made { parent, handle, kind, options, stab: node.front().stab().copied(), class: None });
        let Some(classes) = node.qdisc().user_classes().filter(|c| c.class_spec().made) else { return };
        classes.list(&mut |class| {
            let of = |minor| Handle::new(handle.major(), minor);
            let mut options = Vec::new();
            classes.options(class.at.minor, &mut |o| push_words(&mut options, &o));
            all.push(Made {
                parent: of(class.at.parent),
                handle,
                kind,
                options,
                stab: None,
                class: Some(of(class.at.minor)),
            });
        });
    });
    all
}
