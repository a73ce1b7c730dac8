//! mirred (tc-mirred(8)).

use txweir_core::classify::action::mirred::Target;
use txweir_core::classify::action::{Control, Mirred};
use txweir_core::classify::packet::{PortId, Way};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::{INCOMPLETE, NO_BLOCK_NUMBER, Sentence};

/// tc's refusal of a device beside a block.
const EXCLUSIVE: &str = "blockid and device are mutually exclusive.";

/// Reads the words; `ports` returns the number of a device.
pub(super) fn read(
    said: &Said<'_>,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Option<(Mirred, Control)>, Diagnostic> {
    let s = &said.settings;
    let (way, what) = match (s.word("egress"), s.word("ingress")) {
        (Some(_), Some(_)) => {
            let message = "mirred has one direction";
            let err = said.error(code::CONFLICT, said.at("ingress"), message);
            return Err(err.linux("Can't have both ingress and egress"));
        }
        (Some(what), None) => (Way::Egress, what),
        (None, Some(what)) => (Way::Ingress, what),
        (None, None) => return Ok(None),
    };
    let to = match (s.word("dev"), said.u32("blockid")) {
        (Some(dev), Some(_)) => {
            let (at, message) = (said.at("blockid"), "mirred sends to one device or to those of one block");
            let err = said.error(code::CONFLICT, at, message);
            let second = dev.span.start < at.span.start;
            return Err(err.linux(if second { "Bad action type blockid" } else { EXCLUSIVE }));
        }
        (None, Some(0)) => {
            let err = said.error(code::OUT_OF_RANGE, said.at("blockid"), "block cannot be 0");
            return Err(err.expected("a block's number, at least 1").linux(NO_BLOCK_NUMBER));
        }
        (None, Some(number)) => Target::Block(number),
        (Some(dev), None) => {
            let Some(port) = ports(&dev.text) else {
                let message = format!("there is no device \"{}\"", dev.text);
                return Err(said.error(code::NOT_FOUND, dev, message).linux(Sentence::NoDevice(&dev.text)));
            };
            Target::Port { port, name: dev.text.clone() }
        }
        (None, None) => {
            let err = said.error(code::MISSING, said.kind, "action mirred needs dev or blockid");
            return Err(err.expected("dev NAME, or blockid N").linux(INCOMPLETE));
        }
    };
    let redirect = what.text == "redirect";
    let control = if redirect { Control::Stolen } else { Control::Pipe };
    Ok(Some((Mirred { to, way, redirect }, control)))
}

fn said_as(mirred: &Mirred) -> (&'static str, &'static str, &'static str) {
    let direction = if mirred.way == Way::Egress { "egress" } else { "ingress" };
    let text = match (mirred.way, mirred.redirect) {
        (Way::Egress, true) => "Egress Redirect",
        (Way::Egress, false) => "Egress Mirror",
        (Way::Ingress, true) => "Ingress Redirect",
        (Way::Ingress, false) => "Ingress Mirror",
    };
    (direction, if mirred.redirect { "redirect" } else { "mirror" }, text)
}

pub(super) fn show(mirred: &Mirred, shown: &Shown<'_>, out: &mut Out) {
    let (direction, what, text) = said_as(mirred);
    out.word("kind", "mirred", "mirred ");
    out.word("mirred_action", what, "");
    out.word("direction", direction, &format!("({text}"));
    match &mirred.to {
        Target::Port { name, .. } => out.word("to_dev", name, &format!(" to device {name})")),
        Target::Block(number) => out.uint("to_blockid", *number, &format!(" to blockid {number})")),
    }
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t", out);
}

pub(super) fn words(mirred: &Mirred, control: &str) -> String {
    let (direction, what, _) = said_as(mirred);
    let control = if mirred.redirect { String::new() } else { format!(" {control}") };
    let to = match &mirred.to {
        Target::Port { name, .. } => format!("dev {name}"),
        Target::Block(number) => format!("blockid {number}"),
    };
    format!("mirred {direction} {what} {to}{control}")
}
