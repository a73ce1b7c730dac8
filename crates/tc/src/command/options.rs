//! The words after a kind of the engine, read as tc reads them: its own refusals come before those
//! of the kernel, which are left to the engine.

use std::sync::Arc;

use txweir_core::sched::classful::ClassSpec;
use txweir_core::sched::spec::{RefusedBy, Refuser, Spec};
use txweir_core::text::error;
use txweir_core::text::params::{Given, Param};
use txweir_core::text::value::{Quantity, Value as _, Words};
use txweir_core::{Bytes, ConfigError, Env, ErrorKind, Rate};

use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, REFUSED, UNPARSABLE, USAGE};
use crate::language::{self, Object};
use crate::lex::Word;
use crate::option_sentence;
use crate::sentence::INCOMPLETE;
use crate::source::Source;

/// The declarations of the options of a qdisc, or of the classes of one.
#[derive(Clone, Copy)]
pub(super) enum Declared {
    Qdisc(&'static Spec),
    Class(&'static ClassSpec),
}

impl Declared {
    const fn kind(self) -> &'static str {
        match self {
            Self::Qdisc(spec) => spec.kind,
            Self::Class(classes) => classes.kind,
        }
    }
    const fn object(self) -> Object {
        match self {
            Self::Qdisc(_) => Object::Qdisc,
            Self::Class(_) => Object::Class,
        }
    }
    const fn params(self) -> &'static [Param] {
        match self {
            Self::Qdisc(spec) => spec.params,
            Self::Class(classes) => classes.params,
        }
    }
    const fn once(self) -> &'static [&'static str] {
        match self {
            Self::Qdisc(spec) => spec.once,
            Self::Class(classes) => classes.once,
        }
    }
    const fn refused_by(self) -> RefusedBy {
        match self {
            Self::Qdisc(spec) => spec.refused_by,
            Self::Class(classes) => classes.refused_by,
        }
    }
    fn read(self, words: &[&str]) -> Result<(), ConfigError> {
        let (words, env) = (&mut Words::new(words), Env::default());
        match self {
            Self::Qdisc(spec) => spec.read(words, &env).map(|_| ()),
            Self::Class(classes) => classes.read(words, &env),
        }
    }
    fn each_given(self, words: &mut Words<'_>, f: &mut dyn FnMut(Given)) -> bool {
        match self {
            Self::Qdisc(spec) => spec.each_given(words, f),
            Self::Class(classes) => classes.each_given(words, f),
        }
    }
}

/// Checks that tc would read options. A refusal by the kernel is left to the engine. `diagnostic`
/// returns that of an error of the kind.
pub(super) fn check(
    source: &Arc<Source>,
    declared: Declared,
    options: &[Word],
    diagnostic: impl Fn(&ConfigError) -> Diagnostic,
) -> Result<(), Failure> {
    let words: Vec<&str> = options.iter().map(|w| w.text.as_str()).collect();
    let mistake = declared.read(&words).err();
    if let Some(second) = second_limit(declared.kind(), &words)
        && mistake.as_ref().and_then(|mistake| mistake.word).is_none_or(|at| second < at)
    {
        let message = "tbf needs either limit or latency, given both";
        let err = Diagnostic::error(code::CONFLICT, source, options[second].span.clone(), message);
        return Err(Failure::unparsable(err.linux(option_sentence::both_limits(&words))));
    }
    if let Some(again) = given_again(declared, &words)
        && comes_first(declared.kind(), again, mistake.as_ref())
    {
        return Err(twice(source, declared, options, again));
    }
    let mistake = rate_too_early(declared.kind(), &words, mistake.as_ref())
        .or_else(|| out_of_order(declared.kind(), &words, mistake.as_ref()))
        .or(mistake);
    let Some(mistake) = mistake else { return Ok(()) };
    let status = |mistake: &ConfigError| status_of(declared, mistake, &words);
    let mistake = match status(&mistake) {
        REFUSED => unknown_later(declared, &words),
        _ => Some(mistake),
    };
    let Some(mistake) = mistake else { return Ok(()) };
    let said = option_sentence::of(declared.object(), declared.kind(), &mistake, &words);
    let status = if said == INCOMPLETE { USAGE } else { status(&mistake) };
    Err(Failure { status, diagnostic: diagnostic(&mistake).linux(said) })
}

/// Returns the place of the first key that is given again, and that tc takes once.
fn given_again(declared: Declared, words: &[&str]) -> Option<usize> {
    let again = |param: &Param| {
        (0..).zip(words).filter(|(_, word)| param.words.contains(word)).nth(1).map(|(at, _)| at)
    };
    let once = declared.params().iter().filter(|param| declared.once().contains(&param.key));
    once.filter_map(again).min()
}

/// Returns the place of the second of the limit and the latency of a tbf, if there are both.
fn second_limit(kind: &str, words: &[&str]) -> Option<usize> {
    let at = |key: &str| words.iter().position(|word| *word == key).filter(|_| kind == "tbf");
    Some(at("limit")?.max(at("latency")?))
}

/// True if tc meets the key that is given again before another mistake. It looks for the value
/// first, but for some kinds.
fn comes_first(kind: &str, again: usize, mistake: Option<&ConfigError>) -> bool {
    let Some((mistake, at)) = mistake.and_then(|mistake| Some((mistake, mistake.word?))) else { return true };
    let no_value = matches!(kind, "ets" | "prio" | "netem") && mistake.is_given_nothing();
    again < at || again == at && no_value
}

fn twice(source: &Arc<Source>, declared: Declared, options: &[Word], again: usize) -> Failure {
    let (kind, word) = (declared.kind(), &options[again]);
    let key = declared.params().iter().find_map(|param| param.key_of(&word.text));
    let message = format!("{kind} {} is given twice", key.unwrap_or(&word.text));
    let err = Diagnostic::error(code::CONFLICT, source, word.span.clone(), message);
    let err = err.hint(Some("leave one of them out".into()));
    Failure::unparsable(err.linux(option_sentence::again(kind, &word.text)))
}

/// Returns the error for a rate of mqprio ahead of its shaper, if tc meets it before `mistake`: tc
/// does not know the key there.
fn rate_too_early(kind: &'static str, words: &[&str], mistake: Option<&ConfigError>) -> Option<ConfigError> {
    let is_rate = |word: &&str| matches!(*word, "min_rate" | "max_rate");
    let at = words.iter().take_while(|word| **word != "bw_rlimit").position(is_rate)?;
    let first = mistake.and_then(|mistake| mistake.word).is_none_or(|other| at <= other);
    (kind == "mqprio" && first).then(|| unknown_key(kind, words[at], at))
}

/// Returns the error for a word of gred in another place than tc takes it, if tc meets it before
/// `mistake`: `setup` comes first, and `vqs` before `default`; without it these are no words.
fn out_of_order(kind: &'static str, words: &[&str], mistake: Option<&ConfigError>) -> Option<ConfigError> {
    let at = |any: &[&str]| words.iter().skip(1).position(|word| any.contains(word)).map(|at| at + 1);
    let object = error::Object::Kind(kind);
    let err = match words {
        _ if kind != "gred" => return None,
        ["setup", ..] => match (at(&["setup"]), at(&["default"]), at(&["vqs", "DPs"])) {
            (Some(again), ..) => unknown_key(kind, "setup", again),
            (None, Some(default), vqs) if vqs.is_none_or(|vqs| default < vqs) => {
                ConfigError::new(ErrorKind::OutOfRange, object, "vqs before default", "0")
                    .key("vqs")
                    .word(default)
            }
            _ => return None,
        },
        [first, ..] => {
            let own = ["vqs", "DPs", "default", "grio"];
            match if own.contains(first) { Some(0) } else { at(&own) } {
                Some(at) => unknown_key(kind, words[at], at),
                None => {
                    let expected = "setup in front of the other words";
                    let late = at(&["setup"])?;
                    ConfigError::new(ErrorKind::BadValue, object, expected, "setup").key("setup").word(late)
                }
            }
        }
        [] => return None,
    };
    mistake.and_then(|mistake| mistake.word).is_none_or(|other| err.word < Some(other)).then_some(err)
}

/// Returns the error for a word that is no key, behind a value that the kernel refuses: tc reads
/// all words before it asks the kernel.
fn unknown_later(declared: Declared, words: &[&str]) -> Option<ConfigError> {
    let mut next = 0;
    // The base of a rate in percent does not matter here.
    let mut rest = Words::new(words).link_rate(Rate(u32::MAX.into()));
    if declared.each_given(&mut rest, &mut |given| next = given.words.end) {
        return None;
    }
    let word = *words.get(next)?;
    let is_key = declared.params().iter().any(|param| param.key_of(word).is_some());
    (!is_key).then(|| unknown_key(declared.kind(), word, next))
}

fn unknown_key(kind: &'static str, word: &str, at: usize) -> ConfigError {
    let object = error::Object::Kind(kind);
    ConfigError::new(ErrorKind::UnknownKey, object, "one of its parameters", word).word(at)
}

/// Returns the exit status of tc for options that the engine refuses: tc itself refuses most, the
/// kernel the rest.
fn status_of(declared: Declared, err: &ConfigError, words: &[&str]) -> u8 {
    match (declared.refused_by())(err, words) {
        Some(Refuser::Usage) => return USAGE,
        Some(Refuser::Tool) => return UNPARSABLE,
        Some(Refuser::Kernel) => return REFUSED,
        None => {}
    }
    let key = err.key.as_deref().unwrap_or("");
    let is_time = || {
        let param = declared.params().iter().find(|param| param.key_of(key).is_some());
        param.is_some_and(|param| param.quantity == Quantity::Time)
    };
    match err.kind {
        ErrorKind::BadValue if err.is_given_nothing() => USAGE,
        ErrorKind::UnknownKey | ErrorKind::BadValue | ErrorKind::Missing => UNPARSABLE,
        ErrorKind::OutOfRange if is_wide(&err.given) && !is_time() => UNPARSABLE,
        _ => REFUSED,
    }
}

/// True if a size, a number or a rate has more than the 32 bits in which tc reads it, where its
/// range is one of 32 bits.
fn is_wide(word: &str) -> bool {
    let words = &[word];
    let bytes = Bytes::take(&mut Words::new(words)).map(|bytes| bytes.0);
    let rate = || Rate::take(&mut Words::new(words).link_rate(Rate(u64::MAX))).map(|rate| rate.0);
    bytes.or_else(|_| rate()).is_ok_and(|value| value > u32::MAX.into())
}

/// Checks the words of a kind that the engine does not have, as tc does.
pub(super) fn check_foreign(
    source: &Arc<Source>,
    object: Object,
    kind: &str,
    words: &[Word],
) -> Result<(), Failure> {
    // A key without its value has a status of its own in tc.
    let failure = |d: Diagnostic| match d.code == code::BAD_VALUE && d.given.is_empty() {
        true => Failure::usage(d),
        false => Failure::unparsable(d),
    };
    language::read(object, kind, source, words).map(|_| ()).map_err(failure)
}
