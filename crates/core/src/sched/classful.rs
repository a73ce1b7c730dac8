//! Classes that commands make, change and delete: the trait that the author of such a kind
//! implements (`Classful`), and its erased form (`UserClasses`).
//!
//! A kind whose classes come with its options (prio) needs none of this.

use alloc::format;

use crate::base::env::Env;
use crate::base::tally::Tally;
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::erased::{Revised, Revision};
use crate::sched::node::{Class, Node};
use crate::sched::share::Wanted;
use crate::sched::spec::{ClassShape, EachGiven, RefusedBy, ShowDefaults};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::params::{Given, Param, Params, Shown, apply, each_given};
use crate::text::stats::Counter;
use crate::text::value::Words;

/// Declarations of the classes of a kind.
#[derive(Debug)]
pub struct ClassSpec {
    /// The kind of qdisc; its classes have the same word.
    pub kind: &'static str,
    /// The parameters of a class.
    pub params: &'static [Param],
    /// The keys that tc takes once in a line.
    pub once: &'static [&'static str],
    /// The words that tc accepts abbreviated, in the order in which it tries them.
    pub cut: &'static [&'static str],
    /// The keys that Linux does not have.
    pub own: &'static [&'static str],
    /// The program that refuses options of a class.
    pub refused_by: RefusedBy,
    /// The counters of a class, beside those that every class has.
    pub counters: &'static [Counter],
    /// See `Classful::ROOT_CLASS`.
    pub root_class: bool,
    /// True if classes are added and deleted by commands; false if they come with the qdisc and are
    /// only changed.
    pub made: bool,
    /// See `Classful::CLASS_STATE`.
    pub state: u64,
    /// Reads words as the options of a new class, and discards the result.
    read: fn(&mut Words<'_>, &Env) -> Result<(), ConfigError>,
    defaults: ShowDefaults,
    each_given: EachGiven,
}

impl ClassSpec {
    /// Returns the declarations of a kind.
    pub const fn of<D: Classful>() -> Self {
        Self {
            kind: D::KIND,
            params: D::Class::TABLE,
            once: D::Class::ONCE,
            cut: D::Class::CUT,
            own: D::Class::OWN,
            refused_by: D::CLASS_REFUSED_BY,
            counters: D::COUNTERS,
            root_class: D::ROOT_CLASS,
            made: matches!(D::SHAPE, ClassShape::Made),
            state: D::CLASS_STATE,
            read: |words, env| {
                let mut cfg = D::Class::defaults(env);
                words.know_link_rate(env.link_rate);
                apply(&mut cfg, D::KIND, words)?;
                D::complete_class(Object::Kind(D::KIND), &mut cfg, env)
            },
            defaults: |env, f| D::Class::defaults(env).visit(f),
            each_given: each_given::<D::Class>,
        }
    }
    /// Calls `f` on every parameter with its default on a device.
    pub fn defaults(&self, env: &Env, f: &mut dyn FnMut(Shown<'_>)) {
        (self.defaults)(env, f);
    }
    /// Calls `f` on each key of a line with the words that belong to it: see [`each_given`].
    pub fn each_given(&self, words: &mut Words<'_>, f: &mut dyn FnMut(Given)) -> bool {
        (self.each_given)(words, f)
    }
    /// Checks that words can be read as the options of a class. A contradiction to another class is
    /// found when the class is added.
    pub fn read(&self, words: &mut Words<'_>, env: &Env) -> Result<(), ConfigError> {
        (self.read)(words, env)
    }
}

/// Place of a class: minor numbers of the class and its parent, 0 for the qdisc itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassAt {
    /// The class.
    pub minor: u16,
    /// The class above it; 0 if that is the qdisc.
    pub parent: u16,
}

/// A class as visitors see it.
#[derive(Clone, Copy, Debug)]
pub struct ClassShown<'a> {
    /// Its place.
    pub at: ClassAt,
    /// The qdisc that its packets wait in; `None` for a class that has classes below instead, or a
    /// band without a qdisc.
    pub leaf: Option<&'a Node>,
    /// Packets and bytes that left through it.
    pub sent: Tally,
    /// Segments that left through it: tc counts them as packets.
    pub sent_segs: u64,
    /// Packets dropped on their way into it.
    pub drops: u64,
    /// Times that it had to wait for tokens.
    pub overlimits: u64,
    /// Packets and bytes that wait in it.
    pub backlog: Tally,
    /// Its other counters, in the order of `ClassSpec::counters`.
    pub values: &'a [i64],
}

impl<'a> ClassShown<'a> {
    /// Returns a class directly below the qdisc, whose counters are those of the qdisc in it.
    pub fn of(class: &'a Class) -> Self {
        let books = class.node.books();
        // A packet that a peek has taken out of that qdisc counts as sent there.
        let Tally { packets, bytes } = books.sent;
        let peeked = books.peeked;
        let sent = Tally { packets: packets + peeked.packets, bytes: bytes + peeked.bytes };
        Self {
            at: ClassAt { minor: class.minor, parent: 0 },
            leaf: Some(&class.node),
            sent,
            sent_segs: books.sent_segs + books.peeked_segs,
            drops: books.dropped.packets,
            overlimits: books.overlimits,
            backlog: books.queued,
            values: &[],
        }
    }
}

/// Trait of a kind whose classes commands make or change, for its author to implement. The kind
/// also names its declarations in `Discipline::MADE`.
pub trait Classful: Discipline {
    /// The parameters of a class, from `params!`.
    type Class: Params;
    /// The counters of a class, beside those that every class has.
    const COUNTERS: &'static [Counter] = &[];
    /// The program that refuses options of a class, if it is another one than for most kinds.
    const CLASS_REFUSED_BY: RefusedBy = |_, _| None;
    /// Effect of a change on options not named.
    const CLASS_CHANGE: ChangeRule = ChangeRule::Merge;
    /// The rate that a class asks to share with these parameters.
    const CLASS_WANTS: fn(&Self::Class) -> Option<Wanted> = |_| None;
    /// Bytes of the state that the qdisc keeps for a class, at most; the class itself counts with
    /// the qdisc in it (`Env::memory`).
    const CLASS_STATE: u64 = 512;
    /// True if the qdisc itself is a class, the one at the root: `list_classes` shows it first,
    /// with the minor number 0, and the classes directly below the qdisc are below that one.
    const ROOT_CLASS: bool = false;
    /// True if the options of classes decide in which class a packet waits.
    const CLASS_SELECTS: bool = true;

    /// Brings the parameters of one class to one form, and refuses incomplete ones.
    fn complete_class(_class: Object, _cfg: &mut Self::Class, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Brings parameters to one form, and refuses impossible ones: an impossible place, parameters
    /// that contradict each other or those of other classes, a change that is not possible while
    /// running. `old` are the present ones, or `None` for a new class; `class` is the class, for
    /// errors. After it nothing can fail.
    fn resolve_class(
        &self,
        class: Object,
        at: ClassAt,
        cfg: &mut Self::Class,
        old: Option<&Self::Class>,
        env: &Env,
    ) -> Result<(), ConfigError>;
    /// Brings the parameters of the qdisc up to date, where commands to its classes change them.
    fn refresh(&self, _cfg: &mut Self::Config) {}
    /// Makes a class with a new number. The packets that a class above it held are dropped.
    fn add_class(&mut self, at: ClassAt, cfg: Self::Class, env: &Env, cx: &mut Cx);
    /// Gives an existing class new parameters.
    fn change_class(&mut self, minor: u16, cfg: Self::Class, env: &Env, cx: &mut Cx);
    /// Refuses to delete a class that others need.
    fn may_delete(&self, _class: Object, _minor: u16) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Deletes an existing class and drops the packets in it.
    fn delete_class(&mut self, minor: u16, env: &Env, cx: &mut Cx);
    /// Returns the parameters of a class.
    fn class_config(&self, minor: u16) -> Option<&Self::Class>;
    /// Returns the class above an existing one; 0 if that is the qdisc.
    fn class_parent(&self, _minor: u16) -> u16 {
        0
    }
    /// Calls `f` on every class, parents before children; see `ROOT_CLASS`.
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>));
}

/// The classes of a qdisc of any kind. Implemented once, for every `Classful`.
pub trait UserClasses {
    /// See `Discipline::MADE`.
    fn class_spec(&self) -> &'static ClassSpec;
    /// See `Classful::class_parent`; 0 too for a class that does not exist.
    fn parent(&self, minor: u16) -> u16;
    /// True if the class exists.
    fn has(&self, minor: u16) -> bool;
    /// Adds a class that does not exist yet, all or nothing. `class` is the class, for errors.
    fn add(
        &mut self,
        class: Object,
        at: ClassAt,
        words: &mut Words<'_>,
        env: &Env,
        cx: &mut Cx,
    ) -> Result<(), ConfigError>;
    /// Changes a class, all or nothing; `parent`, if given, must be the class above it.
    fn change(
        &mut self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
        cx: &mut Cx,
    ) -> Result<(), ConfigError>;
    /// Reads new parameters as `change` does, and changes nothing.
    fn revised(
        &self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
    ) -> Result<Revised, ConfigError>;
    /// Applies parameters that `revised` has read, if the classes have not changed since.
    fn revise(&mut self, revision: &mut Revision, env: &Env, cx: &mut Cx);
    /// Deletes a class.
    fn delete(&mut self, class: Object, minor: u16, env: &Env, cx: &mut Cx) -> Result<(), ConfigError>;
    /// Returns the rate that a class would ask to share after `change` with these words, or after
    /// `add` if it is not there; `None` also if those refuse them.
    fn wanted(
        &self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
    ) -> Option<Wanted>;
    /// Calls `f` on every parameter of a class with its present value.
    fn options(&self, minor: u16, f: &mut dyn FnMut(Shown<'_>));
    /// See `Classful::list_classes`.
    fn list(&self, f: &mut dyn FnMut(ClassShown<'_>));
}

fn no_class(class: Object) -> ConfigError {
    ConfigError::new(ErrorKind::NotFound, class, "a class that is there", "")
}

/// Returns the parameters of a class after a change, and whether they are the present ones;
/// `parent`, if given, must be the class above it.
fn changed<D: Classful>(
    qdisc: &D,
    class: Object,
    (minor, parent): (u16, Option<u16>),
    words: &mut Words<'_>,
    env: &Env,
) -> Result<(D::Class, bool), ConfigError> {
    let old = qdisc.class_config(minor).ok_or_else(|| no_class(class))?;
    let at = ClassAt { minor, parent: parent.unwrap_or_else(|| qdisc.class_parent(minor)) };
    let mut cfg = match D::CLASS_CHANGE {
        ChangeRule::Merge => old.clone(),
        ChangeRule::Replace => D::Class::defaults(env),
    };
    words.know_link_rate(env.link_rate);
    apply(&mut cfg, D::KIND, words)?;
    D::complete_class(class, &mut cfg, env)?;
    qdisc.resolve_class(class, at, &mut cfg, Some(old), env)?;
    let same = cfg == *old;
    Ok((cfg, same))
}

/// Returns the parameters of a class that is to be made.
fn added<D: Classful>(
    qdisc: &D,
    class: Object,
    at: ClassAt,
    words: &mut Words<'_>,
    env: &Env,
) -> Result<D::Class, ConfigError> {
    let mut cfg = D::Class::defaults(env);
    words.know_link_rate(env.link_rate);
    apply(&mut cfg, D::KIND, words)?;
    D::complete_class(class, &mut cfg, env)?;
    qdisc.resolve_class(class, at, &mut cfg, None, env)?;
    Ok(cfg)
}

impl<D: Classful> UserClasses for D {
    fn class_spec(&self) -> &'static ClassSpec {
        const { &ClassSpec::of::<D>() }
    }
    fn parent(&self, minor: u16) -> u16 {
        if self.has(minor) { self.class_parent(minor) } else { 0 }
    }
    fn has(&self, minor: u16) -> bool {
        self.class_config(minor).is_some()
    }
    fn add(
        &mut self,
        class: Object,
        at: ClassAt,
        words: &mut Words<'_>,
        env: &Env,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        if D::SHAPE != ClassShape::Made {
            let expected = format!("the classes that come with {}", D::KIND);
            return Err(ConfigError::new(ErrorKind::Unsupported, class, expected, "another one"));
        }
        if self.has(at.minor) {
            let err = ConfigError::new(ErrorKind::Exists, class, "a class that is not there yet", class);
            return Err(err.reason(Reason::AlreadyThere));
        }
        let cfg = added(self, class, at, words, env)?;
        self.add_class(at, cfg, env, cx);
        Ok(())
    }
    fn change(
        &mut self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        let (cfg, same) = changed(self, class, (minor, parent), words, env)?;
        if !(cx.swapping() && same) {
            self.change_class(minor, cfg, env, cx);
        }
        Ok(())
    }
    fn revised(
        &self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
    ) -> Result<Revised, ConfigError> {
        let (cfg, same) = changed(self, class, (minor, parent), words, env)?;
        Ok(match same {
            true => Revised::Same,
            false if D::CLASS_SELECTS => Revised::Wide,
            false => Revised::Alone(Revision::of(minor, cfg)),
        })
    }
    fn revise(&mut self, revision: &mut Revision, env: &Env, cx: &mut Cx) {
        for (minor, cfg) in revision.drain::<D::Class>() {
            self.change_class(minor, cfg, env, cx);
        }
    }
    fn delete(&mut self, class: Object, minor: u16, env: &Env, cx: &mut Cx) -> Result<(), ConfigError> {
        if !self.has(minor) {
            return Err(no_class(class));
        }
        if D::SHAPE != ClassShape::Made {
            let expected = "a class that a command has made: this one comes with its qdisc";
            return Err(ConfigError::new(ErrorKind::Unsupported, class, expected, "del"));
        }
        self.may_delete(class, minor)?;
        self.delete_class(minor, env, cx);
        Ok(())
    }
    fn wanted(
        &self,
        class: Object,
        minor: u16,
        parent: Option<u16>,
        words: &mut Words<'_>,
        env: &Env,
    ) -> Option<Wanted> {
        let cfg = match self.has(minor) {
            true => changed(self, class, (minor, parent), words, env).map(|(cfg, _)| cfg),
            false => added(self, class, ClassAt { minor, parent: parent.unwrap_or(0) }, words, env),
        };
        (D::CLASS_WANTS)(&cfg.ok()?)
    }
    fn options(&self, minor: u16, f: &mut dyn FnMut(Shown<'_>)) {
        if let Some(cfg) = self.class_config(minor) {
            cfg.visit(f);
        }
    }
    fn list(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        self.list_classes(f);
    }
}
