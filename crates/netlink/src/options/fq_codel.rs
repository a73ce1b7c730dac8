//! fq_codel: declared attributes, and the two numbers of a selector.

use super::{Words, declared_words, pair, params_of};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const SELECTOR: u16 = 10;
const MASK: u16 = 11;
const KEY: &str = "ce_threshold_selector";

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "fq_codel")?;
    let params = params_of("fq_codel");
    let mut known = vec![SELECTOR, MASK];
    known.extend(params.iter().filter_map(|p| Some(p.attribute?.number)));
    all.only(&known)?;
    let mut words = declared_words(params, &all)?;
    let byte = |number| Ok::<_, Refusal>(all.record(number, 1)?.map(|r| r.u8(0)));
    match (byte(SELECTOR)?, byte(MASK)?) {
        (Some(value), Some(mask)) => words.extend(pair(KEY, format!("{value}/{mask}"))),
        (None, None) => {}
        _ => {
            return Err(Refusal::invalid(
                "fq_codel: the selector of ce_threshold and its mask come together",
            ));
        }
    }
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    given.write_declared(w);
    if given.has("ce_threshold") {
        let text = given.exact(KEY);
        let byte = |word: &str| u8::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
        let (value, mask) = text.split_once('/').unwrap_or(("0", "0"));
        w.u8(SELECTOR, byte(value));
        w.u8(MASK, byte(mask));
    }
}
