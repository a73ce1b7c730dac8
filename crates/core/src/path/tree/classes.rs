//! Operations on the classes that commands make.

use alloc::format;

use super::{OnClasses, Tree, at_place};
use crate::base::handle::Handle;
use crate::sched::classful::ClassAt;
use crate::sched::cx::Cx;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::Words;

impl Tree {
    /// Adds a class to the qdisc that its major number names; without one, to that of `parent`. `parent` is the class
    /// above it, or the qdisc, or `ROOT` for the root qdisc. `kind_name`, if given, must be the qdisc's.
    pub fn add_class(
        &mut self,
        parent: Handle,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        let (class, above, place) = self.class_owner(Some(parent), class, kind_name)?;
        let at = ClassAt { minor: class.minor(), parent: above.unwrap_or(0) };
        if at.minor == 0 {
            return Err(ConfigError::new(
                ErrorKind::Missing,
                Object::Class(None),
                "a class, MAJOR:MINOR",
                "",
            )
            .key("classid"));
        }
        let env = self.env;
        self.with_classes(class, place, cx, &mut |name, classes, cx| classes.add(name, at, options, &env, cx))
    }

    /// Changes options of a class; `parent`, if given, must be where it is.
    pub fn change_class(
        &mut self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        let (class, above, place) = self.class_owner(parent, class, kind_name)?;
        let env = self.env;
        self.with_classes(class, place, cx, &mut |name, classes, cx| {
            classes.change(name, class.minor(), above, options, &env, cx)
        })
    }

    /// Like `add_class`, but one that is there is changed.
    pub fn replace_class(
        &mut self,
        parent: Handle,
        class: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        let (full, _, _) = self.class_owner(Some(parent), class, kind_name)?;
        match self.has_class(full) {
            true => self.change_class(Some(parent), class, kind_name, options, cx),
            false => self.add_class(parent, class, kind_name, options, cx),
        }
    }

    /// Deletes a class and the qdisc in it, dropping what is queued there.
    pub fn delete_class(&mut self, class: Handle, cx: &mut Cx) -> Result<(), ConfigError> {
        let (class, _, place) = self.class_owner(None, class, None)?;
        let env = self.env;
        // Those below a refused one are still there.
        let below = self.blocks_below(class);
        self.with_classes(class, place, cx, &mut |name, classes, cx| {
            classes.delete(name, class.minor(), &env, cx)
        })?;
        self.orphan(&below);
        Ok(())
    }

    /// Whether there is a class of that number that a command has made or may change.
    pub(super) fn has_class(&self, class: Handle) -> bool {
        let mut found = false;
        self.visit(&mut |_, node| {
            let owner = node.handle() == class.qdisc() && !node.handle().is_none();
            found |= owner && node.qdisc().user_classes().is_some_and(|c| c.has(class.minor()));
        });
        found
    }

    /// The full name of a class, the minor number of what is above it, as far as that is said, and the place of the
    /// qdisc that has it.
    fn class_owner(
        &self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
    ) -> Result<(Handle, Option<u16>, Handle), ConfigError> {
        let root = self.root.handle();
        let below = parent.map(|p| if p == Handle::ROOT { root } else { p });
        let major =
            [Some(class), below, Some(root)].into_iter().flatten().map(Handle::major).find(|m| *m != 0);
        let class = Handle::new(major.unwrap_or(0), class.minor());
        let object = Object::Class(Some(class));
        if let Some(p) = below.filter(|p| p.major() != 0 && p.major() != class.major()) {
            let expected = format!("{}, its qdisc, or a class of that", class.qdisc());
            return Err(ConfigError::new(ErrorKind::Conflict, object, expected, p).key("parent"));
        }
        let mut found = None;
        self.visit(&mut |place, node| {
            if !node.handle().is_none() && node.handle() == class.qdisc() {
                found = Some((place.parent, node.qdisc().spec()));
            }
        });
        let Some((place, spec)) = found else {
            let given = class.qdisc();
            let err = ConfigError::new(
                ErrorKind::NotFound,
                Object::Qdisc(Some(given)),
                "a qdisc of this tree",
                given,
            );
            return Err(err.key("classid"));
        };
        if let Some(given) = kind_name.filter(|k| *k != spec.kind) {
            let expected = format!("{}, the kind of qdisc {}", spec.kind, class.qdisc());
            return Err(ConfigError::new(ErrorKind::Conflict, object, expected, given).key("kind"));
        }
        if spec.classes.is_none() {
            let expected = format!("a qdisc whose classes commands make: {} is not one", spec.kind);
            return Err(ConfigError::new(ErrorKind::Unsupported, object, expected, "this"));
        }
        Ok((class, below.map(Handle::minor), place))
    }

    /// Calls `f` on the classes of the qdisc at `place`, reached through its ancestors.
    fn with_classes(
        &mut self,
        class: Handle,
        place: Handle,
        cx: &mut Cx,
        f: OnClasses<'_>,
    ) -> Result<(), ConfigError> {
        let name = Object::Class(Some(class));
        let mut done = Ok(());
        at_place(&mut self.root, Handle::ROOT, place, cx, &mut |node, cx| {
            node.with(cx, |qdisc, cx| {
                if let Some(classes) = qdisc.user_classes_mut() {
                    done = f(name, classes, cx);
                }
            });
        });
        if done.is_ok() {
            self.disturb();
        }
        done
    }
}
