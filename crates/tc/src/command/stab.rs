//! `stab ...` and `estimator ...`: words before a kind that have words of their own.

use txweir_core::Nanos;
use txweir_core::base::link::LinkLayer;
use txweir_core::text::value::{Value, Words};

use super::reader::Reader;
use super::{Part, whole};
use crate::ast::{At, Stab};
use crate::diagnostic::code;
use crate::failure::Failure;
use crate::lex::Word;
use crate::sentence::Sentence;

/// The keys of a size table (tc-stab(8)), in the order in which tc tries them on an abbreviation.
const KEYS: [&str; 5] = ["mtu", "mpu", "overhead", "tsize", "linklayer"];

/// Reads the words after `stab`, while they are its own. At least one key must be there.
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
                    .map_err(|_| reader.bad_value(word, value, "a whole number of bytes, also negative"))
                    .map_err(|failure| failure.linux(Sentence::Argument("invalid overhead", known)))?;
                stab.overhead = Some(bytes);
                value
            }
            "linklayer" => {
                const EXPECTED: &str = "ethernet, atm or adsl";
                let value = reader.argument(word, EXPECTED)?;
                stab.linklayer = Some(match value.text.as_str() {
                    "ethernet" => LinkLayer::Ethernet,
                    "atm" | "adsl" => LinkLayer::Atm,
                    _ => {
                        let sentence = Sentence::Argument("invalid linklayer", known);
                        return Err(reader.bad_value(word, value, EXPECTED).linux(sentence));
                    }
                });
                value
            }
            _ => {
                let value = reader.argument(word, "a whole number")?;
                let digits = value.text.bytes().all(|b| b.is_ascii_digit());
                let number = value.text.parse().ok().filter(|_| digits);
                let number = number.ok_or_else(|| {
                    let name = if known == "tsize" { "table size" } else { known };
                    let sentence = Sentence::Argument(&format!("invalid {name}"), known).to_string();
                    reader.bad_value(word, value, "a whole number").linux(sentence)
                })?;
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
        let failure = Failure::usage(err.expected(format!("one of {}", KEYS.join(", "))));
        return Err(if reader.peek().is_none() { failure.linux(Sentence::Incomplete) } else { failure });
    }
    Ok(At { value: stab, span })
}

/// Reads the two times after `estimator`, in microseconds: the interval and the averaging time. tc
/// has intervals of 250 ms to 8 s, and needs the average to be over more than one of them.
pub(super) fn estimator(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    key: &Word,
) -> Result<At<(u64, u64)>, Failure> {
    // tc names the key where it names the word elsewhere.
    let mut time = |expected: &str, invalid: &str| {
        let word = reader.argument(key, expected)?;
        let ns = Nanos::take(&mut Words::new(&[&word.text]));
        let ns = ns.map_err(|_| {
            reader.bad_value(key, word, expected).linux(Sentence::Argument(invalid, "estimator"))
        })?;
        Ok((ns.as_micros(), word.span.end))
    };
    let (interval, _) = time("an interval (1s)", "invalid estimator interval")?;
    let (average, end) = time("a time to average over (8s)", "invalid estimator time constant")?;
    const OUT_OF_RANGE: &str = "Error: estimator parameters are out of range.";
    let span = key.span.start..end;
    if average <= interval {
        let message = "estimator averages over no more than one of its intervals";
        let err = part.error(code::OUT_OF_RANGE, &span, message);
        let err = err.expected("a longer time after a shorter one: estimator 1s 8s");
        return Err(Failure::usage(err.linux(OUT_OF_RANGE)));
    }
    if average_of((interval, average)).is_none() {
        let message = "estimator cannot have these times";
        let err = part.error(code::OUT_OF_RANGE, &span, message);
        let err = err.expected("an interval up to 8s, and half as much again at least to average over");
        return Err(Failure::usage(err.linux(OUT_OF_RANGE)));
    }
    Ok(At { value: (interval, average), span })
}

/// The longest interval of an estimator: 250 ms times 2 to this.
const INTERVAL_LOG_MAX: u8 = 5;
/// The least weight of a sample: 2 to minus this.
const WEIGHT_LOG_MAX: u8 = 30;

/// Returns the measurement of an estimator of these times, as powers of two: its interval in units
/// of 250 ms, and the weight of a sample in its average. The average fades to 1/e in the given
/// time, or a little faster. `None` if it cannot.
pub(crate) fn average_of((interval, average): (u64, u64)) -> Option<(u8, u8)> {
    let interval_log = (0..=INTERVAL_LOG_MAX).find(|log| interval <= 250_000 << log)?;
    // An average that keeps 1 - 1/2^k with each sample fades to 1/e after interval / -ln(1 -
    // 1/2^k).
    let fades = |k: &u8| interval as f64 / -(-(0.5f64.powi((*k).into()))).ln_1p() <= average as f64;
    let weight_log = (1..=WEIGHT_LOG_MAX).take_while(fades).last()?;
    Some((interval_log, weight_log))
}
