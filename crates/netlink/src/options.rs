//! The options of qdiscs and classes: from attributes to the words of tc, and from the engine's
//! options to attributes.
//!
//! A message becomes the words that tc would have been given, because one reader of options, one
//! set of checks and one way to apply a change exist already. Parameters with an attribute of their
//! own declare it ([`txweir_core::text::attribute`]); the modules here have the kinds whose options
//! are C structs, lists or numbers for words (`linux/pkt_sched.h`).

pub(crate) mod bucket;
mod cake;
mod dualpi2;
mod ets;
mod fixed;
mod fq;
mod fq_codel;
mod gred;
mod hfsc;
mod htb;
mod mqprio;
mod netem;
mod prio;
mod red;
mod sfq;
mod stab;
mod taprio;
mod tbf;

use txweir_core::qdisc::Registry;
use txweir_core::sched::spec::Spec;
use txweir_core::text::params::Param;

use crate::given::{Given, words};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

pub(crate) use stab::{stab_words, write_stab};

/// Words, or the reason for which there are none.
pub(crate) type Words = Result<Vec<String>, Refusal>;

/// How the options of a kind look in a message.
#[derive(Clone, Copy)]
pub(crate) enum Codec {
    /// No options.
    None,
    /// Each parameter is an attribute, as it declares.
    Declared,
    /// A C struct, or attributes of its own.
    Own {
        /// Returns the words.
        read: fn(&[u8]) -> Words,
        /// Writes the value of `TCA_OPTIONS`.
        write: fn(&Given, &mut Writer),
    },
}

macro_rules! own {
    ($module:ident) => {
        Codec::Own { read: $module::read, write: $module::write }
    };
    ($module:ident, $read:ident, $write:ident) => {
        Codec::Own { read: $module::$read, write: $module::$write }
    };
}

/// Returns the codec of a kind of qdisc; `None` if there is none.
fn of_qdisc(kind: &str) -> Option<Codec> {
    Some(match kind {
        "pfifo" | "pfifo_head_drop" | "skbprio" => own!(fixed, read_packets, write_limit),
        "bfifo" => own!(fixed, read_bytes, write_limit),
        "multiq" => own!(fixed, read_multiq, write_multiq),
        "plug" => own!(fixed, read_plug, write_plug),
        "cbs" => own!(fixed, read_cbs, write_cbs),
        "sfb" => own!(fixed, read_sfb, write_sfb),
        "etf" => own!(fixed, read_etf, write_etf),
        "pfifo_fast" => own!(prio, read_none, write_pfifo_fast),
        "prio" => own!(prio),
        "mq" | "drr" | "qfq" | "noqueue" | "noop" => Codec::None,
        "mqprio" => own!(mqprio),
        "tbf" => own!(tbf),
        "htb" => own!(htb),
        "hfsc" => own!(hfsc),
        "gred" => own!(gred),
        "red" => own!(red, read_red, write_red),
        "choke" => own!(red, read_choke, write_choke),
        "sfq" => own!(sfq),
        "netem" => own!(netem),
        "cake" | "cake_mq" => own!(cake),
        "fq" => own!(fq),
        "fq_codel" => own!(fq_codel),
        "ets" => own!(ets),
        "dualpi2" => own!(dualpi2),
        "taprio" => own!(taprio),
        "codel" | "pie" | "fq_pie" | "hhf" => Codec::Declared,
        _ => return None,
    })
}

/// Returns the codec of the classes of a kind; `None` if there is none.
fn of_class(kind: &str) -> Option<Codec> {
    Some(match kind {
        "htb" => own!(htb, read_class, write_class),
        "hfsc" => own!(hfsc, read_class, write_class),
        "drr" | "qfq" => Codec::Declared,
        "ets" => own!(ets, read_class, write_class),
        _ => return None,
    })
}

/// The object whose options are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A qdisc.
    Qdisc,
    /// A class.
    Class,
}

/// Returns the words of the options of a qdisc or a class.
///
/// # Errors
/// The kind has no codec, or the options are malformed or unknown.
pub(crate) fn read(object: Object, spec: &Spec, options: Option<&[u8]>) -> Words {
    let (codec, params, what): (_, &[Param], _) = match object {
        Object::Qdisc => (of_qdisc(spec.kind), spec.params, "qdisc"),
        Object::Class => {
            let params = spec.classes.map_or(&[][..], |classes| classes.params);
            (of_class(spec.kind), params, "class")
        }
    };
    let Some(options) = options else { return Ok(Vec::new()) };
    match codec {
        Some(Codec::None) => Ok(Vec::new()),
        Some(Codec::Declared) => declared(params, spec.kind, options),
        Some(Codec::Own { read, .. }) => read(options),
        None if options.is_empty() => Ok(Vec::new()),
        None => {
            let text = format!("a {what} {} has no options in messages: Linux does not have it", spec.kind);
            Err(Refusal::unsupported(text))
        }
    }
}

/// Writes the options of a qdisc or a class as the value of `TCA_OPTIONS`.
pub(crate) fn write(object: Object, kind: &str, given: &Given, w: &mut Writer) {
    let codec = match object {
        Object::Qdisc => of_qdisc(kind),
        Object::Class => of_class(kind),
    };
    match codec {
        None | Some(Codec::None) => {}
        Some(Codec::Declared) => given.write_declared(w),
        Some(Codec::Own { write, .. }) => write(given, w),
    }
}

/// True if the options of a qdisc of this kind are written.
pub(crate) fn has_options(object: Object, kind: &str) -> bool {
    let codec = match object {
        Object::Qdisc => of_qdisc(kind),
        Object::Class => of_class(kind),
    };
    // The kernel lists no options of plug.
    kind != "plug" && !matches!(codec, None | Some(Codec::None))
}

/// Returns the words of declared parameters.
fn declared(params: &[Param], kind: &str, options: &[u8]) -> Words {
    let attributes = Attributes::read(options, kind)?;
    let known: Vec<u16> = params.iter().filter_map(|p| Some(p.attribute?.number)).collect();
    attributes.only(&known)?;
    declared_words(params, &attributes)
}

/// Returns the words of the declared parameters whose attributes are there.
fn declared_words(params: &[Param], attributes: &Attributes<'_>) -> Words {
    let mut all = Vec::new();
    for param in params {
        let Some(declared) = param.attribute else { continue };
        let width = declared.form.width();
        if let Some(r) = attributes.record(declared.number, width)? {
            let n = match width {
                1 => r.u8(0).into(),
                4 => r.u32(0).into(),
                _ => r.u64(0),
            };
            all.extend(words(param, declared.form, n));
        }
    }
    Ok(all)
}

/// Returns the parameters of a kind of the engine.
fn params_of(kind: &str) -> &'static [Param] {
    Registry::BUILT_IN.get(kind).map_or(&[], |spec| spec.params)
}

/// Returns the struct that is the whole of a kind's options.
fn record<'a>(options: &'a [u8], len: usize, kind: &str) -> Result<Record<'a>, Refusal> {
    Record::of(options, len, kind)
}

/// Returns a key and its value as words.
fn pair(key: &str, value: impl ToString) -> [String; 2] {
    [key.to_string(), value.to_string()]
}

/// Returns a key and a list of values as words.
fn many<T: ToString>(key: &str, values: impl IntoIterator<Item = T>) -> Vec<String> {
    std::iter::once(key.to_string()).chain(values.into_iter().map(|v| v.to_string())).collect()
}
