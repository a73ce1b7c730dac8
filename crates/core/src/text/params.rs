//! One declaration per parameter: `params!` turns a list into the struct, its defaults and ranges,
//! the table that usage and documentation print, the reader of words, and the visitor that the
//! printers of text and JSON use.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use crate::base::env::Env;
use crate::text::attribute::Attribute;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Quantity, Refusal, Show, Words};

/// `String`, under a name that the macro below can reach.
#[doc(hidden)]
pub use alloc::string::String as Text;

/// Declaration of a parameter.
#[derive(Debug, PartialEq, Eq)]
pub struct Param {
    /// Field and first key: the tc word.
    pub key: &'static str,
    /// Every word that sets it. For a flag these are its values; otherwise aliases of the key.
    pub words: &'static [&'static str],
    /// True if the word itself is the value (`ecn`, `noecn`).
    pub flag: bool,
    /// Words without a value that also set the parameter. If there are any, `words` are keys, not
    /// aliases.
    pub alone: &'static [&'static str],
    /// Meaning, in one sentence.
    pub about: &'static str,
    /// Type, in words.
    pub expected: &'static str,
    /// Quantity of its words.
    pub quantity: Quantity,
    /// Range, in words; empty if the type is the range.
    pub range: &'static str,
    /// Default, as declared.
    pub default: &'static str,
    /// Its attribute in Linux's messages, if it has one of its own.
    pub attribute: Option<Attribute>,
}

/// A parameter with its present value, as `visit` shows it.
pub struct Shown<'a> {
    /// Declaration.
    pub param: &'static Param,
    /// Word to print: the key, or for a flag the word of the present value (`None`: it has no
    /// word).
    pub word: Option<&'static str>,
    /// The value.
    pub value: &'a dyn Show,
}

/// Result of `set` for a word.
#[derive(Debug, PartialEq, Eq)]
pub enum SetOutcome {
    /// The word set a parameter.
    Set,
    /// The word is not a key.
    UnknownKey,
    /// The words that follow were not taken as its value.
    BadValue(&'static Param, Refusal),
    /// The value is outside the range.
    OutOfRange(&'static Param),
}

/// The parameters of a kind. Made by `params!`.
pub trait Params: Send + Sync + Clone + PartialEq + core::fmt::Debug + 'static {
    /// Declarations, in order.
    const TABLE: &'static [Param];
    /// Keys that tc accepts once in a line.
    const ONCE: &'static [&'static str] = &[];
    /// Words that tc accepts abbreviated, in the order in which it tries them.
    const CUT: &'static [&'static str] = &[];
    /// Keys that Linux does not have.
    const OWN: &'static [&'static str] = &[];
    /// Returns the defaults on this device.
    fn defaults(env: &Env) -> Self;
    /// Sets the parameter that `key` names from the words after it.
    fn set(&mut self, key: &str, words: &mut Words<'_>) -> SetOutcome;
    /// Returns the first parameter whose value is outside its range, with the value; the default on
    /// this device is always good. Checks a configuration made as a value for the same ranges as
    /// `set` checks words.
    fn out_of_range(&self, _env: &Env) -> Option<(&'static Param, String)> {
        None
    }
    /// Calls `f` on every parameter, in order.
    fn visit(&self, f: &mut dyn FnMut(Shown<'_>));
}

/// One key of a line and the words that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Parameter that it sets.
    pub param: &'static Param,
    /// The key: for aliases the first; for words that are the value (flags), and for keys of a
    /// group, the word itself.
    pub key: &'static str,
    /// Indexes of its words, the key first.
    pub words: Range<usize>,
}

/// Calls `f` on each key of a line with its words, without a device. A value that is refused only
/// for its size, or for something that the device lacks, is shown too. False where a word is no
/// key, or the words that follow are no value of its type: then the keys of the line are not known.
pub fn each_given<P: Params>(words: &mut Words<'_>, f: &mut dyn FnMut(Given)) -> bool {
    let mut cfg = P::defaults(&Env::default());
    loop {
        let from = words.at();
        let Some(word) = words.take() else { return true };
        match cfg.set(word, words) {
            SetOutcome::UnknownKey | SetOutcome::BadValue(_, Refusal::NotSuch) => return false,
            SetOutcome::Set | SetOutcome::BadValue(..) | SetOutcome::OutOfRange(_) => {}
        }
        let Some((param, key)) = P::TABLE.iter().find_map(|p| Some((p, p.key_of(word)?))) else {
            return false;
        };
        f(Given { param, key, words: from..words.at() });
    }
}

impl Param {
    /// Returns the key that `word` stands for, if it sets this parameter: see [`Given::key`].
    pub fn key_of(&self, word: &str) -> Option<&'static str> {
        let itself = self.words.iter().chain(self.alone).find(|w| **w == word)?;
        let alias = !self.flag && self.alone.is_empty();
        if alias { self.words.first().copied() } else { Some(itself) }
    }
}

/// Reads `words` into `cfg` until they end. After an error `cfg` is half-read, and the caller must
/// discard it.
pub fn apply<P: Params>(cfg: &mut P, kind: &'static str, words: &mut Words<'_>) -> Result<(), ConfigError> {
    while let Some(key) = words.take() {
        let at = words.at() - 1;
        let refused = match cfg.set(key, words) {
            SetOutcome::Set => continue,
            SetOutcome::UnknownKey => {
                let err =
                    ConfigError::new(ErrorKind::UnknownKey, Object::Kind(kind), known_keys(P::TABLE), key);
                return Err(err.word(at));
            }
            SetOutcome::BadValue(param, refusal) => (Some(refusal), param),
            SetOutcome::OutOfRange(param) => (None, param),
        };
        let (refusal, param) = refused;
        let mut first = at + 1;
        let (error, expected, hint, reason) = match (refusal, param.range) {
            (Some(Refusal::Because { kind, expected, hint, word }), _) => {
                first = word.unwrap_or(first);
                (kind, expected, hint, None)
            }
            (None, range) => (ErrorKind::OutOfRange, range.to_string(), None, Some(Reason::DeclaredRange)),
            (_, "") => (ErrorKind::BadValue, param.expected.to_string(), None, None),
            (_, range) => (ErrorKind::BadValue, format!("{}, {range}", param.expected), None, None),
        };
        // The words as given; the caret goes under the refused word of the value, the first one if
        // none is named, or under the key if there is none.
        let mut rest = Words::clone(words);
        rest.rewind(first);
        let (given, caret) = match rest.peek() {
            Some(w) => (w, first),
            None => ("", at),
        };
        let err = ConfigError::new(error, Object::Kind(kind), expected, given).key(key).word(caret);
        return Err(ConfigError { hint, reason, ..err });
    }
    Ok(())
}

fn known_keys(table: &'static [Param]) -> String {
    let mut s = String::new();
    let said = |p: &'static Param| match (p.flag, p.alone) {
        (false, []) => (&p.words[..1], p.alone),
        _ => (p.words, p.alone),
    };
    for word in table.iter().map(said).flat_map(|(words, alone)| words.iter().chain(alone)) {
        s.push_str(if s.is_empty() { "one of " } else { ", " });
        s.push_str(word);
    }
    if s.is_empty() { "no parameter".into() } else { s }
}

/// A parameter that is set by several words, each with a value of its own or alone: a mode of
/// `params!`.
pub trait Group: Show + Clone + PartialEq {
    /// Words that follow a key, for error messages and tables.
    const EXPECTED: &'static str;
    /// Quantity of the words after a key.
    const QUANTITY: Quantity = Quantity::Other;
    /// Takes the value of `key`, which is one of those declared.
    ///
    /// # Errors
    /// The words that follow are not a value of the key.
    fn read(&mut self, key: &str, words: &mut Words<'_>) -> Result<(), Refusal>;
}

/// Declares parameters. Each line: documentation, field, type, default (may use the environment),
/// then `keys ["word", "alias"]`, `sizes ["word", "alias"]` (a size that a cell may follow) or
/// `flags ["on-word" = value, "off-word" = value]`, or for a type that is a `Group` (and prints its
/// own words) `group (["key"], ["word"])` with the words that take a value and those that stand
/// alone; then, where Linux's messages have an attribute for it, `@ form number` (`@ us32 1`:
/// [`Attribute`]); then an optional range in words with its test.
///
/// After the name may stand `once ["key"]`, `cut ["word"]` and `own ["key"]`: see `Params::{ONCE,
/// CUT, OWN}`.
#[macro_export]
#[doc(hidden)]
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($env:ident)
            $(once [$($once:literal),*])? $(cut [$($cut:literal),*])? $(own [$($own:literal),*])? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $type:ty = $default:expr, $mode:ident $keys:tt $(@ $form:ident $number:literal)?
                    $(, $range:literal : $check:expr)? ;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $type, )* }

        impl $crate::text::params::Params for $name {
            const TABLE: &'static [$crate::text::params::Param] = &[ $(
                $crate::text::params::Param {
                    key: stringify!($field),
                    words: $crate::params!(@words $mode $keys),
                    flag: $crate::params!(@flag $mode),
                    alone: $crate::params!(@alone $mode $keys),
                    about: concat!($($doc),+).trim_ascii(),
                    expected: $crate::params!(@expected $mode $type),
                    quantity: $crate::params!(@quantity $mode $type),
                    range: concat!($($range)?),
                    default: stringify!($default),
                    attribute: $crate::params!(@attribute $($form $number)?),
                },
            )* ];
            $( const ONCE: &'static [&'static str] = &[$($once),*]; )?
            $( const CUT: &'static [&'static str] = &[$($cut),*]; )?
            $( const OWN: &'static [&'static str] = &[$($own),*]; )?

            #[allow(unused_variables)]
            fn defaults($env: &$crate::base::env::Env) -> Self {
                Self { $( $field: $default, )* }
            }

            #[allow(unused_variables)]
            fn set(&mut self, key: &str, words: &mut $crate::text::value::Words<'_>) -> $crate::text::params::SetOutcome {
                #[allow(unused_imports)]
                use $crate::text::params::{Params, SetOutcome};
                #[allow(unused_mut)]
                let mut index = 0..;
                $(
                    let at = index.next().unwrap_or(0);
                    $crate::params!(@set $mode $keys, self.$field, $type, key, words, at $(, $check)?);
                )*
                SetOutcome::UnknownKey
            }

            #[allow(unused_variables, unused_mut)]
            fn out_of_range(
                &self,
                env: &$crate::base::env::Env,
            ) -> Option<(&'static $crate::text::params::Param, $crate::text::params::Text)> {
                let default = <Self as $crate::text::params::Params>::defaults(env);
                let mut table = <Self as $crate::text::params::Params>::TABLE.iter();
                $(
                    let param = table.next();
                    $(
                        let check: fn(&$type) -> bool = $check;
                        if self.$field != default.$field && !check(&self.$field) {
                            return param.map(|p| (p, $crate::text::value::exact_of(&self.$field)));
                        }
                    )?
                )*
                None
            }

            #[allow(unused_variables, unused_mut)]
            fn visit(&self, f: &mut dyn FnMut($crate::text::params::Shown<'_>)) {
                let mut table = Self::TABLE.iter();
                $(
                    if let Some(param) = table.next() {
                        let word = $crate::params!(@word $mode $keys, self.$field);
                        f($crate::text::params::Shown { param, word, value: &self.$field });
                    }
                )*
            }
        }
    };

    (@attribute) => { None };
    (@attribute $form:ident $number:literal) => {
        Some($crate::text::attribute::Attribute { number: $number, form: $crate::text::attribute::Form::$form })
    };
    (@words keys [$($key:literal),+]) => { &[$($key),+] };
    (@words flags [$($key:literal = $value:expr),+]) => { &[$($key),+] };
    (@words group ([$($key:literal),*], $alone:tt)) => { &[$($key),*] };
    (@alone group ($keys:tt, [$($word:literal),*])) => { &[$($word),*] };
    (@alone $mode:ident $keys:tt) => { &[] };
    (@expected group $type:ty) => { <$type as $crate::text::params::Group>::EXPECTED };
    (@expected $mode:ident $type:ty) => { <$type as $crate::text::value::Value>::EXPECTED };
    (@quantity group $type:ty) => { <$type as $crate::text::params::Group>::QUANTITY };
    (@quantity $mode:ident $type:ty) => { <$type as $crate::text::value::Value>::QUANTITY };
    (@flag group) => { false };
    (@word group $keys:tt, $field:expr) => { None };
    (@set group ([$($key:literal),*], [$($word:literal),*]), $field:expr, $type:ty, $given:ident, $words:ident, $at:ident) => {
        if [$($key,)* $($word),*].contains(&$given) {
            return match $crate::text::params::Group::read(&mut $field, $given, $words) {
                Ok(()) => SetOutcome::Set,
                Err(refusal) => SetOutcome::BadValue(&Self::TABLE[$at], refusal),
            };
        }
    };
    (@words sizes $keys:tt) => { $crate::params!(@words keys $keys) };
    (@flag keys) => { false };
    (@flag sizes) => { false };
    (@flag flags) => { true };
    (@word keys [$first:literal $(, $key:literal)*], $field:expr) => { Some($first) };
    (@word sizes $keys:tt, $field:expr) => { $crate::params!(@word keys $keys, $field) };
    (@word flags [$($key:literal = $value:expr),+], $field:expr) => {{
        let mut word = None;
        $( if $field == $value { word = word.or(Some($key)); } )+
        word
    }};
    (@set keys $keys:tt, $field:expr, $type:ty, $given:ident, $words:ident, $at:ident $(, $check:expr)?) => {
        let take = <$type as $crate::text::value::Value>::take;
        $crate::params!(@take take, $keys, $field, $type, $given, $words, $at $(, $check)?);
    };
    (@set sizes $keys:tt, $field:expr, $type:ty, $given:ident, $words:ident, $at:ident $(, $check:expr)?) => {
        let take = $crate::text::value::take_with_cell::<$type>;
        $crate::params!(@take take, $keys, $field, $type, $given, $words, $at $(, $check)?);
    };
    (@take $take:ident, [$($key:literal),+], $field:expr, $type:ty, $given:ident, $words:ident, $at:ident $(, $check:expr)?) => {
        if [$($key),+].contains(&$given) {
            return match $take($words) {
                Err(refusal) => SetOutcome::BadValue(&Self::TABLE[$at], refusal),
                $( Ok(v) if !{ let check: fn(&$type) -> bool = $check; check(&v) } =>
                    SetOutcome::OutOfRange(&Self::TABLE[$at]), )?
                Ok(v) => { $field = v; SetOutcome::Set }
            };
        }
    };
    (@set flags [$($key:literal = $value:expr),+], $field:expr, $type:ty, $given:ident, $words:ident, $at:ident) => {
        $( if $given == $key { $field = $value; return SetOutcome::Set; } )+
    };
}
