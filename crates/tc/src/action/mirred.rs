//! mirred (tc-mirred(8)).

use txweir_core::classify::action::{Control, Mirred};
use txweir_core::classify::packet::{PortId, Way};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::{INCOMPLETE, Sentence};

/// Reads the words; `ports` returns the number of a device.
pub(super) fn read(
    said: &Said<'_>,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Option<(Mirred, Control)>, Diagnostic> {
    let s = &said.settings;
    if s.has("blockid") {
        let err = said.error(code::UNSUPPORTED, said.at("blockid"), "mirred sends to one device");
        return Err(err.expected("dev NAME"));
    }
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
    let Some(dev) = s.word("dev") else {
        let err = said.error(code::MISSING, said.kind, "action mirred needs dev").expected("dev NAME");
        return Err(err.linux(INCOMPLETE));
    };
    let Some(to) = ports(&dev.text) else {
        let message = format!("there is no device \"{}\"", dev.text);
        return Err(said.error(code::NOT_FOUND, dev, message).linux(Sentence::NoDevice(&dev.text)));
    };
    let redirect = what.text == "redirect";
    let control = if redirect { Control::Stolen } else { Control::Pipe };
    Ok(Some((Mirred { to, name: dev.text.clone(), way, redirect }, control)))
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
    out.word("to_dev", &mirred.name, &format!(" to device {})", mirred.name));
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t", out);
}

pub(super) fn words(mirred: &Mirred, control: &str) -> String {
    let (direction, what, _) = said_as(mirred);
    let control = if mirred.redirect { String::new() } else { format!(" {control}") };
    format!("mirred {direction} {what} dev {}{control}", mirred.name)
}
