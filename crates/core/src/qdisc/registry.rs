//! `Registry`: the kinds that a tree makes, that the language reads and that a check knows.

use alloc::string::String;

use crate::qdisc::KINDS;
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// The built-in kinds, or some of them, and those that the owner of a tree has registered beside
/// them. A value: a tree, a reader of commands and a check have one each.
///
/// ```
/// use txweir_core::qdisc::Registry;
///
/// let builtin = Registry::BUILT_IN;
/// assert_eq!(builtin.kind("fq_codel")?.params[0].key, "limit");
/// assert!(builtin.kind("wfq").is_err());
/// # Ok::<(), txweir_core::ConfigError>(())
/// ```
///
/// `examples/wfq.rs` of the crate `txweir` registers a kind of its own.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    built_in: &'static [&'static Spec],
    own: &'static [&'static Spec],
}

impl Registry {
    /// The built-in kinds.
    pub const BUILT_IN: Self = Self { built_in: KINDS, own: &[] };

    /// Returns these kinds alone, each an entry made by `Spec::of`; of two with one name the first.
    /// A program that makes its paths by `TxPath::of_kinds` has the code of these and of the
    /// defaults in it, and not that of all built-in kinds.
    ///
    /// ```
    /// use txweir_core::qdisc::{Registry, fq_codel::FqCodel};
    /// use txweir_core::sched::spec::Spec;
    /// use txweir_core::{PathConfig, TxPath};
    ///
    /// static FQ_CODEL: Spec = Spec::of::<FqCodel>();
    /// static KINDS: &[&Spec] = &[&FQ_CODEL];
    /// let path = TxPath::<u32>::of_kinds(PathConfig::for_socket(), Registry::only(KINDS))?;
    /// let path = path.with_qdisc("fq_codel", &["flows", "64"])?;
    /// assert!(path.with_qdisc("htb", &[]).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn only(kinds: &'static [&'static Spec]) -> Self {
        Self { built_in: kinds, own: &[] }
    }

    /// Returns the built-in kinds and these, each an entry made by `Spec::of`.
    ///
    /// # Errors
    /// Two kinds have the same name, or a name is no single word.
    pub fn with(own: &'static [&'static Spec]) -> Result<Self, ConfigError> {
        for (i, spec) in own.iter().enumerate() {
            let name = spec.kind;
            if name.is_empty()
                || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            {
                let expected = "a kind whose name is of a-z, 0-9 and _";
                return Err(ConfigError::new(ErrorKind::BadValue, Object::Qdisc(None), expected, name));
            }
            if KINDS.iter().chain(&own[..i]).any(|other| other.kind == name) {
                let expected = "a kind of another name";
                return Err(ConfigError::new(ErrorKind::Exists, Object::Qdisc(None), expected, name));
            }
        }
        Ok(Self { built_in: KINDS, own })
    }
    /// Returns every kind: the built-in ones in alphabetical order, then the registered ones.
    pub fn iter(&self) -> impl Iterator<Item = &'static Spec> + use<> {
        self.built_in.iter().chain(self.own).copied()
    }
    /// Returns the kind of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&'static Spec> {
        self.iter().find(|spec| spec.kind == name)
    }
    /// Returns the kind of that name.
    ///
    /// # Errors
    /// No kind has that name.
    pub fn kind(&self, name: &str) -> Result<&'static Spec, ConfigError> {
        self.get(name)
            .ok_or_else(|| ConfigError::new(ErrorKind::UnknownKind, Object::Qdisc(None), self.one_of(), name))
    }
    /// Returns the names of all kinds as an expected value: `one of bfifo, cake, ...`.
    pub fn one_of(&self) -> String {
        let mut known = String::from("one of ");
        for (i, spec) in self.iter().enumerate() {
            known.push_str(if i > 0 { ", " } else { "" });
            known.push_str(spec.kind);
        }
        known
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::BUILT_IN
    }
}

impl PartialEq for Registry {
    /// True if both have kinds of the same names.
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(|s| s.kind).eq(other.iter().map(|s| s.kind))
    }
}

impl Eq for Registry {}
