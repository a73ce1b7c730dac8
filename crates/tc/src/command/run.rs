//! A `qdisc` or `class` line run on the qdiscs of a device.

use std::borrow::Cow;
use std::sync::Arc;

use txweir_core::path::qdiscs::{Planned, Qdiscs, Sharing};
use txweir_core::path::trees::Trees;
use txweir_core::sched::stab::Stab;
use txweir_core::text::error::Object;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, ErrorKind, Handle};

use crate::ast::{At, ClassCommand, Command, Place, QdiscCommand, Verb};
use crate::diagnostic::Diagnostic;
use crate::source::Source;
use crate::{kernel, refusal};

/// Runs it. An error leaves everything as it was.
pub(crate) fn run(source: &Arc<Source>, cmd: &Change, qdiscs: &mut Qdiscs<'_>) -> Result<(), Diagnostic> {
    let done = match cmd {
        Change::Qdisc(cmd) => qdisc(cmd, qdiscs),
        Change::Class(cmd) => class(cmd, qdiscs),
    };
    done.map_err(|err| refused(source, cmd, &err))
}

/// Returns the diagnostic for a line that a tree, or the trees that share rates with it, refuse.
pub(crate) fn refused(source: &Arc<Source>, cmd: &Change, err: &ConfigError) -> Diagnostic {
    let (diagnostic, linux) = match cmd {
        Change::Qdisc(cmd) => (refusal::of(source, cmd, err), kernel::for_qdisc(cmd, err)),
        Change::Class(cmd) => (refusal::of(source, cmd, err), kernel::for_class(cmd, err)),
    };
    Diagnostic { linux: linux.map(Cow::Borrowed), ..diagnostic }
}

/// A line that changes a tree.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Qdisc(QdiscCommand),
    Class(ClassCommand),
}

impl Change {
    /// True if it asks for a shared rate.
    pub(crate) fn shares(&self) -> bool {
        self.options().any(|word| word == "shared")
    }
    /// Iterates over the words of its options.
    fn options(&self) -> impl Iterator<Item = &str> {
        let options = match self {
            Self::Qdisc(cmd) => &cmd.options,
            Self::Class(cmd) => &cmd.options,
        };
        options.iter().map(|word| word.text.as_str())
    }
    /// Returns the change of a command; `None` if it is not about a tree.
    pub(crate) fn of(cmd: &Command) -> Option<Self> {
        match cmd {
            Command::Qdisc(cmd) => Some(Self::Qdisc(cmd.clone())),
            Command::Class(cmd) => Some(Self::Class(cmd.clone())),
            Command::Filter(_) | Command::Chain(_) | Command::Actions(_) => None,
        }
    }
}

/// The object of a line that gives new options: the qdisc at a place, or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Planning {
    Qdisc(Handle),
    Class(Handle),
}

/// Returns the object of a line and the effect of the line on it, if the line only gives new
/// options to one that exists; `None` if it may do more, or is refused.
pub(crate) fn plan(cmd: &Change, trees: &Trees<'_>) -> Option<(Planning, Planned)> {
    let options: Vec<&str> = cmd.options().collect();
    let words = &mut Words::new(&options);
    match cmd {
        Change::Class(cmd) => {
            let class = cmd.classid.as_ref()?.value;
            let parent = cmd.parent.as_ref().map(|p| p.value);
            let parent = match cmd.verb {
                Verb::Replace => Some(parent.unwrap_or(class.qdisc())),
                Verb::Change => parent,
                _ => return None,
            };
            let kind = cmd.kind.as_ref().map(|k| k.text.as_str());
            let (class, planned) = trees.plan_class(parent, class, kind, words)?;
            Some((Planning::Class(class), planned))
        }
        Change::Qdisc(cmd) => {
            let Some(Place::Below(parent)) = cmd.place.as_ref().map(|p| p.value) else { return None };
            if parent.major() == Handle::ROOT.major() && parent != Handle::ROOT {
                // It may be a hook.
                return None;
            }
            let plain = cmd.stab.is_none() && cmd.blocks.iter().all(Option::is_none);
            let verb = matches!(cmd.verb, Verb::Replace | Verb::Change);
            let kind = cmd.kind.as_ref().filter(|_| plain && verb)?;
            let handle = cmd.handle.as_ref().map(|h| h.value);
            let (place, planned) = trees.plan_qdisc(parent, handle, Some(&kind.text), words)?;
            Some((Planning::Qdisc(place), planned))
        }
    }
}

/// Returns the sharing of a rate that a line would make; `None` for none, and if it is refused.
pub(crate) fn sharing(cmd: &Change, trees: &Trees<'_>) -> Option<Sharing> {
    let options: Vec<&str> = cmd.options().collect();
    let words = &mut Words::new(&options);
    match cmd {
        Change::Class(cmd) => {
            let class = cmd.classid.as_ref()?.value;
            let parent = cmd.parent.as_ref().map(|p| p.value);
            match cmd.verb {
                Verb::Add | Verb::Replace => {
                    trees.sharing_of_class(Some(parent.unwrap_or(class.qdisc())), class, words)
                }
                Verb::Delete => None,
                _ => trees.sharing_of_class(parent, class, words),
            }
        }
        Change::Qdisc(cmd) => {
            let handle = cmd.handle.as_ref().map(|h| h.value);
            let place = match (cmd.place.as_ref().map(|p| p.value), handle) {
                (Some(Place::Below(place)), _) => place,
                (Some(Place::Handle(handle)), _) | (None, Some(handle)) => trees.place_of(handle)?,
                _ => return None,
            };
            let kind = cmd.kind.as_ref().map(|k| k.text.as_str());
            match cmd.verb {
                Verb::Delete => None,
                Verb::Add | Verb::Replace => trees.sharing_of_qdisc(place, handle, Some(kind?), words),
                _ => trees.sharing_of_qdisc(place, None, None, words),
            }
        }
    }
}

fn class(cmd: &ClassCommand, qdiscs: &mut Qdiscs<'_>) -> Result<(), ConfigError> {
    let parent = cmd.parent.as_ref().map(|p| p.value);
    let class = cmd.classid.as_ref().map_or(Handle::NONE, |c| c.value);
    let kind = cmd.kind.as_ref().map(|k| k.text.as_str());
    let options: Vec<&str> = cmd.options.iter().map(|w| w.text.as_str()).collect();
    let words = &mut Words::new(&options);
    match cmd.verb {
        Verb::Add => qdiscs.add_class(parent.unwrap_or(class.qdisc()), class, kind, words),
        Verb::Replace => qdiscs.replace_class(parent.unwrap_or(class.qdisc()), class, kind, words),
        Verb::Delete => qdiscs.delete_class(class),
        Verb::Change | Verb::Link | Verb::Get | Verb::Show | Verb::Flush => {
            qdiscs.change_class(parent, class, kind, words)
        }
    }
}

fn qdisc(cmd: &QdiscCommand, qdiscs: &mut Qdiscs<'_>) -> Result<(), ConfigError> {
    let handle = cmd.handle.as_ref().map(|h| h.value);
    let parent = match (cmd.place.as_ref().map(|p| p.value), handle) {
        (Some(Place::Below(parent)), _) => qdiscs.trees().named(parent),
        (Some(Place::Handle(handle)), _) | (None, Some(handle)) => qdiscs.parent_of(handle)?,
        (Some(Place::Ingress | Place::Clsact | Place::Egress), _) => {
            let expected = "root, or parent MAJOR:MINOR";
            return Err(
                ConfigError::new(ErrorKind::Unsupported, Object::Tree, expected, "a hook").key("parent")
            );
        }
        (None, None) => {
            let expected = "root, or parent MAJOR:MINOR";
            return Err(ConfigError::new(ErrorKind::Missing, Object::Qdisc(None), expected, "").key("parent"));
        }
    };
    let kind = cmd.kind.as_ref().map(|k| k.text.as_str());
    let options: Vec<&str> = cmd.options.iter().map(|w| w.text.as_str()).collect();
    let words = &mut Words::new(&options);
    let stab = cmd.stab.as_ref().map(|stab| Stab::from(&stab.value));
    if let Some(stab) = stab.filter(|_| cmd.verb != Verb::Delete) {
        check_stab(cmd, qdiscs, parent, stab)?;
    }
    match (cmd.verb, kind) {
        (Verb::Add, Some(kind)) => qdiscs.add(parent, handle, kind, words).map(|_| ()),
        (Verb::Replace, Some(kind)) => qdiscs.replace(parent, handle, kind, words).map(|_| ()),
        // A line without options changes nothing.
        (Verb::Change | Verb::Link, None) => {
            present(cmd, qdiscs, parent, None).and_then(|there| match there {
                true => Ok(()),
                false => qdiscs.change(parent, kind, words),
            })
        }
        (Verb::Change | Verb::Link, Some(_)) => {
            present(cmd, qdiscs, parent, None)?;
            qdiscs.change(parent, kind, words)
        }
        (Verb::Delete, kind) => {
            present(cmd, qdiscs, parent, kind)?;
            qdiscs.delete(parent)
        }
        (Verb::Add | Verb::Replace | Verb::Get | Verb::Show | Verb::Flush, _) => {
            Err(ConfigError::new(ErrorKind::Missing, Object::Qdisc(None), "a kind", "").key("kind"))
        }
    }?;
    // As in Linux, a size table that a line does not repeat is removed.
    let trees = qdiscs.trees();
    if trees.is_met_first(parent) && cmd.verb != Verb::Delete && !trees.root().handle().is_none() {
        return qdiscs.set_stab(parent, stab);
    }
    Ok(())
}

/// Refuses a size table before anything is done, so that the line applies whole or not at all.
fn check_stab(
    cmd: &QdiscCommand,
    qdiscs: &Qdiscs<'_>,
    parent: Handle,
    stab: Stab,
) -> Result<(), ConfigError> {
    let trees = qdiscs.trees();
    let there_kind = trees.qdisc_at(parent).unwrap_or_else(|| trees.root()).qdisc().spec().kind;
    let kind = cmd.kind.as_ref().map_or(there_kind, |kind| &kind.text);
    let handle = cmd.handle.as_ref().map(|h| h.value).filter(|_| cmd.verb == Verb::Replace);
    qdiscs.check_stab(parent, handle, kind, stab)?;
    if trees.is_met_first(parent) {
        return Ok(());
    }
    let expected = "a size table at the root, or at the qdisc of a queue of mq or mqprio";
    let err = ConfigError::new(ErrorKind::Unsupported, Object::Qdisc(None), expected, format!("at {parent}"));
    Err(err.key("stab").hint("it counts for all that is below"))
}

/// Returns true if a qdisc exists; an error if it is not the named one, by handle and kind as far
/// as given.
fn present(
    cmd: &QdiscCommand,
    qdiscs: &Qdiscs<'_>,
    parent: Handle,
    kind: Option<&str>,
) -> Result<bool, ConfigError> {
    let there = qdiscs.trees().qdisc_at(parent).filter(|node| !node.handle().is_none());
    let present = there.map(|node| (node.handle(), node.qdisc().spec().kind));
    // For an empty place the tree itself returns the error.
    let Some((handle, present_kind)) = present else { return Ok(false) };
    if let Some(At { value: given, .. }) = cmd.handle.as_ref().filter(|h| h.value.qdisc() != handle) {
        let err = ConfigError::new(
            ErrorKind::Conflict,
            Object::Qdisc(None),
            format!("{handle}, which is there"),
            given,
        );
        return Err(err.key("handle"));
    }
    match kind.filter(|k| *k != present_kind) {
        None => Ok(true),
        Some(given) => {
            let expected = format!("{present_kind}, which is there");
            Err(ConfigError::new(ErrorKind::Conflict, Object::Qdisc(None), expected, given).key("kind"))
        }
    }
}
