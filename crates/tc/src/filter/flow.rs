//! flow (tc-flow(8)).

use std::net::Ipv4Addr;

use txweir_core::classify::filter::Flow;
use txweir_core::classify::filter::flow::{Key, Keys, Mode};

use super::{Shown, Where, ematch};
use crate::diagnostic::code;
use crate::failure::Failure;
use crate::language::uint;
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::Sentence;

const KEYS: [(&str, Key); 18] = [
    ("src", Key::Src),
    ("dst", Key::Dst),
    ("proto", Key::Proto),
    ("proto-src", Key::ProtoSrc),
    ("proto-dst", Key::ProtoDst),
    ("iif", Key::Iif),
    ("priority", Key::Priority),
    ("mark", Key::Mark),
    ("nfct", Key::Connection),
    ("nfct-src", Key::ConnectionSrc),
    ("nfct-dst", Key::ConnectionDst),
    ("nfct-proto-src", Key::ConnectionProtoSrc),
    ("nfct-proto-dst", Key::ConnectionProtoDst),
    ("rt-classid", Key::RouteClass),
    ("sk-uid", Key::SocketUser),
    ("sk-gid", Key::SocketGroup),
    ("vlan-tag", Key::VlanTag),
    ("rxhash", Key::RxHash),
];

fn keys(said: &Said<'_>, word: &Word) -> Result<Vec<Key>, Failure> {
    let one = |name: &str| {
        let found = KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key);
        found.ok_or_else(|| {
            let message = format!("flow has no key {name}");
            let failure = Failure::refused(said.error(code::UNSUPPORTED, word, message));
            failure.linux(format!("Unknown flow key \"{name}\""))
        })
    };
    word.text.split(',').map(one).collect()
}

/// Reads a number, or an address; one behind a minus is subtracted.
fn addend(word: &str, address: bool) -> Option<u32> {
    let (minus, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let number = uint(digits).and_then(|n| u32::try_from(n).ok());
    let number = number.or_else(|| digits.parse::<Ipv4Addr>().ok().filter(|_| address).map(u32::from))?;
    Some(if minus { number.wrapping_neg() } else { number })
}

pub(super) fn read(said: &Said<'_>, at: &Where) -> Result<Flow, Failure> {
    let mut rule = Flow { qdisc: at.qdisc.qdisc(), ..Flow::default() };
    let wrong = |key: &str, word: &Word, expected: &str| {
        let message = format!("flow filter: \"{}\" is not a value for this", word.text);
        let err = said.error(code::BAD_VALUE, word, message).expected(expected);
        Failure::unparsable(err).linux(Sentence::Illegal(if key == "and" { "mask" } else { key }))
    };
    for (setting, words) in said.settings.iter() {
        let [_, rest @ ..] = words else { continue };
        let Some(word) = rest.last().filter(|_| setting.key != "match") else { continue };
        let number = || {
            let number = uint(&word.text).and_then(|n| u32::try_from(n).ok());
            number.ok_or_else(|| wrong(setting.key, word, "a number of 32 bits"))
        };
        let (mask, xor) = rule.bits.unwrap_or((u32::MAX, 0));
        match setting.key {
            "map" | "hash" => {
                let listed = keys(said, word)?;
                rule.mode = Some(if setting.key == "map" { Mode::Map } else { Mode::Hash });
                rule.keys = Some(Keys::of(&listed));
            }
            // Each step updates the bits that stay, and the bits that are inverted.
            "and" => rule.bits = Some((mask & number()?, xor & number()?)),
            "or" => rule.bits = Some((mask & !number()?, xor | number()?)),
            "xor" => rule.bits = Some((mask, xor ^ number()?)),
            "rshift" => rule.rshift = Some(u8::try_from(number()?).unwrap_or(u8::MAX)),
            "addend" => {
                let of = |key| rule.keys == Some(Keys::of(&[key]));
                let address = of(Key::Src) || of(Key::Dst);
                let found = addend(&word.text, address).ok_or_else(|| {
                    let failure = wrong(setting.key, word, "a number, or an address for src and dst");
                    let digits = word.text.strip_prefix('-').unwrap_or(&word.text);
                    match address {
                        true => failure.linux(Sentence::Rather("any valid address", digits)),
                        false => failure,
                    }
                });
                rule.addend = Some(found?);
            }
            "divisor" => rule.divisor = Some(number()?),
            "perturb" => rule.perturb = Some(number()?),
            "baseclass" => {
                let class = said.settings.handle("baseclass").map(|class| class.value);
                let class = class.filter(|class| class.minor() != 0);
                rule.baseclass = Some(class.ok_or_else(|| wrong(setting.key, word, "a class, MAJOR:MINOR"))?);
            }
            _ => {}
        }
    }
    rule.expr = ematch::read(said)?;
    Ok(rule)
}

/// Returns the settings by their words, in printed form.
fn set(rule: &Flow) -> Vec<(&'static str, String)> {
    let (mask, xor) = rule.bits.unwrap_or((u32::MAX, 0));
    let (or, turned) = (xor & !mask, xor & mask);
    let mut all = Vec::new();
    let mut add = |name, is: bool, value: String| {
        if is {
            all.push((name, value));
        }
    };
    add("and", mask != u32::MAX, format!("{mask:#010x}"));
    add("xor", turned != 0, format!("{turned:#010x}"));
    add("or", or != 0, format!("{or:#010x}"));
    let rshift = rule.rshift.unwrap_or(0);
    add("rshift", rshift != 0, rshift.to_string());
    let addend = rule.addend.unwrap_or(0);
    add("addend", addend != 0, format!("{addend:#x}"));
    let divisor = rule.divisor.unwrap_or(0);
    add("divisor", divisor != 0, divisor.to_string());
    add("baseclass", true, rule.base().to_string());
    all
}

fn keys_word(rule: &Flow) -> String {
    let keys = rule.keys.unwrap_or_default().iter();
    let name = |key| KEYS.iter().find(|(_, one)| *one == key).map_or("", |(name, _)| name);
    keys.map(name).collect::<Vec<_>>().join(",")
}

fn mode(rule: &Flow) -> &'static str {
    if rule.mode == Some(Mode::Hash) { "hash" } else { "map" }
}

pub(super) fn show(rule: &Flow, shown: &Shown<'_>, out: &mut Out) {
    out.word("handle", &format!("{:x}", shown.handle), &format!("handle {:#x} ", shown.handle));
    let keys = keys_word(rule);
    out.word("mode", mode(rule), &format!("{} ", mode(rule)));
    out.word("keys", &keys, &format!("keys {keys} "));
    for (name, value) in set(rule) {
        out.word(name, &value, &format!("{name} {value} "));
    }
    if let Some(seconds) = rule.perturb.filter(|s| *s != 0) {
        out.uint("perturb", seconds, &format!("perturb {seconds}sec "));
    }
    ematch::show(rule.expr.as_ref(), out);
    if !shown.goal.actions.is_empty() {
        out.text("\n");
    }
}

pub(super) fn words(rule: &Flow) -> String {
    let key = if rule.mode == Some(Mode::Hash) { "keys" } else { "key" };
    let mut words = format!(" {} {key} {}", mode(rule), keys_word(rule));
    for (name, value) in set(rule) {
        words.push_str(&format!(" {name} {value}"));
    }
    if let Some(seconds) = rule.perturb.filter(|s| *s != 0) {
        words.push_str(&format!(" perturb {seconds}"));
    }
    words + &ematch::words(rule.expr.as_ref())
}
