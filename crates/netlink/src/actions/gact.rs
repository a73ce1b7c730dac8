//! gact: `struct tc_gact`, and `struct tc_gact_p` for the other control.

use txweir_core::classify::action::Gact;
use txweir_core::classify::action::gact::Chance;

use super::{Asked, Form, Found, Links, Shown, control_code, control_words, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

const TIMES: u16 = 1;
const PARMS: u16 = 2;
const PROB: u16 = 3;
const PAD: u16 = 4;
/// Kinds of chance by their numbers.
const RANDOM: u16 = 1;
const EVERY: u16 = 2;

pub(super) const FORM: Form =
    Form { kind: "gact", parms: (PARMS, 20), times: TIMES, known: &[PROB, PAD], read };

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let mut words = asked.control()?;
    if let Some(r) = asked.all.record(PROB, 8)? {
        let how = match r.u16(0) {
            0 => return Ok(Some(words)),
            RANDOM => "netrand",
            EVERY => "determ",
            n => {
                return Err(Refusal::invalid(format!("action gact: expected a chance of 0 to 2, given {n}")));
            }
        };
        words.extend(pair("random", how));
        words.extend(control_words(r.i32(4))?);
        words.push(r.u16(2).to_string());
    }
    Ok(Some(words))
}

pub(super) fn write(gact: &Gact, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(PARMS, &[], w);
    if let Some((chance, control)) = gact.instead {
        let (how, n) = match chance {
            Chance::Random(n) => (RANDOM, n),
            Chance::Every(n) => (EVERY, n),
        };
        w.nest(PROB, |w| {
            w.put(&how.to_ne_bytes());
            w.put(&n.to_ne_bytes());
            w.put(&control_code(control).to_ne_bytes());
        });
    }
}
