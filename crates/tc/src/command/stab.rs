//! `stab ...` and `estimator ...`: what stands before a kind and has words of its own.

use txweir_core::Nanos;
use txweir_core::value::{Value, Words};

use super::reader::Reader;
use super::{Failure, Part, whole};
use crate::ast::{At, LinkLayer, Stab};
use crate::diagnostic::code;
use crate::lex::Word;

/// The keys of a size table (tc-stab(8)), in the order in which tc tries them on an abbreviation.
const KEYS: [&str; 5] = ["mtu", "mpu", "overhead", "tsize", "linklayer"];

/// The words after `stab`, while they are its own. At least one key must be there.
pub(super) fn stab(part: &Part<'_>, reader: &mut Reader<'_>, key: &Word) -> Result<At<Stab>, Failure> {
    let mut stab = Stab::default();
    let mut span = key.span.clone();
    let mut some = false;
    while let Some(word) = reader.peek() {
        let Some(known) = whole(&word.text, KEYS.into_iter()) else { break };
        reader.next();
        some = true;
        let value = match known {
            "overhead" => {
                let value = reader.argument(word, "a number of bytes, also negative")?;
                let bytes = value
                    .text
                    .parse()
                    .map_err(|_| reader.bad_value(word, value, "a whole number of bytes, also negative"))?;
                stab.overhead = Some(bytes);
                value
            }
            "linklayer" => {
                const EXPECTED: &str = "ethernet, atm or adsl";
                let value = reader.argument(word, EXPECTED)?;
                stab.linklayer = Some(match value.text.as_str() {
                    "ethernet" => LinkLayer::Ethernet,
                    "atm" | "adsl" => LinkLayer::Atm,
                    _ => return Err(reader.bad_value(word, value, EXPECTED)),
                });
                value
            }
            _ => {
                let value = reader.argument(word, "a whole number")?;
                let digits = value.text.bytes().all(|b| b.is_ascii_digit());
                let number = value.text.parse().ok().filter(|_| digits);
                let number = number.ok_or_else(|| reader.bad_value(word, value, "a whole number"))?;
                let slot = match known {
                    "mtu" => &mut stab.mtu,
                    "mpu" => &mut stab.mpu,
                    _ => &mut stab.tsize,
                };
                *slot = Some(number);
                value
            }
        };
        span.end = value.span.end;
    }
    if !some {
        let err = part.error(code::MISSING, &span, "\"stab\" needs at least one of its keys");
        return Err(Failure::usage(err.expected(format!("one of {}", KEYS.join(", ")))));
    }
    Ok(At { value: stab, span })
}

/// The two times after `estimator`, in microseconds: how often it looks, and over how long it averages. tc has intervals
/// of 250 ms to 8 s, and needs the average to be over more than one of them.
pub(super) fn estimator(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    key: &Word,
) -> Result<At<(u64, u64)>, Failure> {
    let mut time = |expected: &str| {
        let word = reader.argument(key, expected)?;
        let ns = Nanos::take(&mut Words::new(&[&word.text]));
        let ns = ns.ok_or_else(|| reader.bad_value(key, word, expected))?;
        Ok((ns.as_micros(), word.span.end))
    };
    let (interval, _) = time("an interval (1s)")?;
    let (average, end) = time("a time to average over (8s)")?;
    let span = key.span.start..end;
    if average <= interval {
        let message = "estimator averages over no more than one of its intervals";
        let err = part.error(code::OUT_OF_RANGE, &span, message);
        return Err(Failure::usage(err.expected("a longer time after a shorter one: estimator 1s 8s")));
    }
    Ok(At { value: (interval, average), span })
}
