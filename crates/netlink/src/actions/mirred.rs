//! mirred: `struct tc_mirred`, which names the other link by its number.

use txweir_core::classify::action::Mirred;
use txweir_core::classify::action::mirred::Target;
use txweir_core::classify::packet::Way;
use txweir_tc::tool::LOOPBACK;

use super::{Asked, Form, Found, Links, Shown, pair};
use crate::links::{LOOPBACK_INDEX, index_of};
use crate::refusal::{Refusal, errno};
use crate::wire::Writer;

const TIMES: u16 = 1;
const PARMS: u16 = 2;
const PAD: u16 = 3;
const BLOCK: u16 = 4;

pub(super) const FORM: Form =
    Form { kind: "mirred", parms: (PARMS, 28), times: TIMES, known: &[PAD, BLOCK], read };

/// The deed of each number: direction, redirection or copy.
const DONE: [(u32, &str, &str); 4] = [
    (1, "egress", "redirect"),
    (2, "egress", "mirror"),
    (3, "ingress", "redirect"),
    (4, "ingress", "mirror"),
];

fn read(asked: &Asked<'_>, links: Links<'_>) -> Found {
    let (done, link) = (asked.parms.u32(20), asked.parms.u32(24));
    if done == 0 {
        return Ok(None);
    }
    let Some((_, way, what)) = DONE.iter().find(|(number, ..)| *number == done) else {
        let text = format!("action mirred: expected an action of 1 to 4, given {done}");
        return Err(Refusal::invalid(text));
    };
    let mut words = Vec::from(pair(way, what));
    if let Some(block) = asked.all.u32(BLOCK)? {
        if link != 0 {
            let text =
                format!("action mirred: expected a link or a block, given link {link} and block {block}");
            return Err(Refusal::invalid(text));
        }
        words.extend(pair("blockid", block));
    } else {
        words.extend(pair("dev", name(link, links)?));
    }
    // A packet that is redirected is gone, whatever the control.
    if *what == "mirror" {
        words.extend(asked.control()?);
    }
    Ok(Some(words))
}

/// Returns the name of a link.
fn name(link: u32, links: Links<'_>) -> Result<String, Refusal> {
    let name = match link {
        LOOPBACK_INDEX => Some(LOOPBACK.to_string()),
        link => links(link),
    };
    let missing =
        || Refusal { errno: errno::NODEV, text: format!("there is no link with the number {link}") };
    name.ok_or_else(missing)
}

pub(super) fn write(mirred: &Mirred, shown: &Shown<'_>, w: &mut Writer) {
    let done = match (mirred.way, mirred.redirect) {
        (Way::Egress, true) => 1,
        (Way::Egress, false) => 2,
        (Way::Ingress, true) => 3,
        (Way::Ingress, false) => 4,
    };
    match &mirred.to {
        Target::Port { port, name } => shown.parms(PARMS, &[done, index_of(name, *port)], w),
        Target::Block(number) => {
            shown.parms(PARMS, &[done, 0], w);
            w.bytes(BLOCK, &number.to_ne_bytes());
        }
    }
}
