//! Operations on the classes that commands make.

use alloc::format;

use super::{Qdiscs, rules};
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::path::tree::names;
use crate::path::tree::tables;
use crate::path::trees::Trees;
use crate::sched::classful::{ClassAt, UserClasses};
use crate::sched::cx::Cx;
use crate::sched::erased::Qdisc;
use crate::sched::node::Class;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::Words;

/// Function on the classes of a qdisc; it gets the name of the class that the command is about.
type OnClasses<'a> =
    &'a mut dyn FnMut(Object, &mut dyn UserClasses, &Env, &mut Cx) -> Result<(), ConfigError>;

/// A class that an operation is about.
struct Named {
    /// Its full name.
    class: Handle,
    /// Minor number of the class or qdisc above it, if the command gives one.
    above: Option<u16>,
    /// Number of the tree of its qdisc, and the qdisc's place there.
    tree: usize,
    place: Handle,
}

impl Qdiscs<'_> {
    /// Adds a class to the qdisc that its major number names; without one, to that of `parent`.
    /// `parent` is the class above it, or the qdisc, or `ROOT` for the root qdisc. `kind_name`, if
    /// given, must be the qdisc's.
    pub fn add_class(
        &mut self,
        parent: Handle,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        let named = self.class(Some(parent), class, kind_name)?;
        let at = ClassAt { minor: named.class.minor(), parent: named.above.unwrap_or(0) };
        if at.minor == 0 {
            let object = Object::Class(None);
            let err = ConfigError::new(ErrorKind::Missing, object, "a class, MAJOR:MINOR", "");
            return Err(err.key("classid"));
        }
        let trees = self.trees();
        let made = trees.qdisc(named.class).and_then(|node| node.qdisc().user_classes());
        let need = made.map_or(0, |made| made.class_spec().state + Class::BYTES);
        rules::check_memory(&trees, Object::Class(Some(named.class)), need, None)?;
        self.on_classes(&named, true, &mut |name, classes, env, cx| classes.add(name, at, options, env, cx))
    }

    /// Changes options of a class; `parent`, if given, must be its present parent.
    pub fn change_class(
        &mut self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        let named = self.class(parent, class, kind_name)?;
        self.on_classes(&named, false, &mut |name, classes, env, cx| {
            classes.change(name, named.class.minor(), named.above, options, env, cx)
        })
    }

    /// Like `add_class`, but changes a class that exists already.
    pub fn replace_class(
        &mut self,
        parent: Handle,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        let full = self.class(Some(parent), class, kind_name)?.class;
        match has_class(&self.trees(), full) {
            true => self.change_class(Some(parent), class, kind_name, options),
            false => self.add_class(parent, class, kind_name, options),
        }
    }

    /// Deletes a class and the qdisc in it, and drops the packets queued there.
    pub fn delete_class(&mut self, class: Handle) -> Result<(), ConfigError> {
        let named = self.class(None, class, None)?;
        self.on_classes(&named, true, &mut |name, classes, env, cx| {
            classes.delete(name, named.class.minor(), env, cx)
        })?;
        self.edit(named.tree, &mut |tree, _| {
            names::forget_class(tree, named.class);
            Ok(())
        })
    }

    /// Returns the class that the words of a command name.
    fn class(
        &self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
    ) -> Result<Named, ConfigError> {
        let trees = self.trees();
        let (class, below) = trees.full_class(parent, class);
        let object = Object::Class(Some(class));
        if let Some(p) = below.filter(|p| p.major() != 0 && p.major() != class.major()) {
            let expected = format!("{}, its qdisc, or a class of that", class.qdisc());
            return Err(ConfigError::new(ErrorKind::Conflict, object, expected, p).key("parent"));
        }
        let Some(owner) = trees.owner(class) else {
            return Err(self.no_qdisc(class.qdisc()).key("classid"));
        };
        let spec = owner.node.qdisc().spec();
        if let Some(given) = kind_name.filter(|k| *k != spec.kind) {
            let expected = format!("{}, the kind of qdisc {}", spec.kind, class.qdisc());
            return Err(ConfigError::new(ErrorKind::Conflict, object, expected, given).key("kind"));
        }
        match (owner.in_tree, &spec.classes) {
            (Some(_), Some(spec)) if spec.root_class && parent == Some(Handle::ROOT) => {
                let expected = format!("{}, which is the class at the root", class.qdisc());
                Err(ConfigError::new(ErrorKind::Conflict, object, expected, "root").key("parent"))
            }
            (Some((tree, place)), Some(_)) => {
                Ok(Named { class, above: below.map(Handle::minor), tree, place: place.parent })
            }
            _ => {
                let expected = format!("a qdisc whose classes commands make: {} is not one", spec.kind);
                Err(ConfigError::new(ErrorKind::Unsupported, object, expected, "this"))
            }
        }
    }

    /// Calls `f` on the classes of the qdisc of a class, reached through its ancestors. `counts` is
    /// true if `f` makes the class or deletes it.
    fn on_classes(&mut self, named: &Named, counts: bool, f: OnClasses<'_>) -> Result<(), ConfigError> {
        let name = Object::Class(Some(named.class));
        self.edit(named.tree, &mut |tree, cx| {
            let (env, mut done, mut bytes) = (*tree.env(), Ok(()), [0; 2]);
            tree.reach(named.place, cx, &mut |node, cx| {
                node.with(cx, |qdisc, cx| {
                    // The class above has a qdisc as long as there is no class below it.
                    let minor = named.class.minor();
                    let above = qdisc.user_classes().map_or(0, |classes| classes.parent(minor));
                    let two = [minor, named.above.unwrap_or(above)];
                    let count = |qdisc: &dyn Qdisc| match counts {
                        true => tables::of_classes(qdisc, two, &env),
                        false => 0,
                    };
                    bytes[0] = count(&*qdisc);
                    if let Some(classes) = qdisc.user_classes_mut() {
                        done = f(name, classes, &env, cx);
                    }
                    bytes[1] = count(&*qdisc);
                });
            });
            tree.count_change(bytes[0], bytes[1]);
            if done.is_ok() {
                // A class that has classes below has no qdisc.
                let above =
                    named.above.filter(|above| *above != 0).map(|m| Handle::new(named.class.major(), m));
                if let Some(above) = above.filter(|above| names::at(tree, *above).is_none()) {
                    names::forget(tree, above);
                }
                tree.disturb();
            }
            done
        })
    }
}

impl Trees<'_> {
    /// Returns the full name of a class, and of the class or qdisc above it, if a command gives
    /// one: a major number that is not given is that of the other, or of the root qdisc.
    pub(super) fn full_class(&self, parent: Option<Handle>, class: Handle) -> (Handle, Option<Handle>) {
        let root = self.root().handle();
        let below = parent.map(|p| if p == Handle::ROOT { root } else { p });
        let named = [Some(class), below, Some(root)].into_iter().flatten();
        let major = named.map(Handle::major).find(|m| *m != 0);
        (Handle::new(major.unwrap_or(0), class.minor()), below)
    }
}

/// True if a class of that number exists that a command has made or may change.
pub(super) fn has_class(trees: &Trees<'_>, class: Handle) -> bool {
    let owner = trees.owner(class);
    owner.and_then(|spot| spot.node.qdisc().user_classes()).is_some_and(|c| c.has(class.minor()))
}
