//! basic (tc-basic(8)).

use txweir_core::classify::filter::Basic;

use super::{Shown, ematch};
use crate::action::Ways;
use crate::diagnostic::code;
use crate::failure::Failure;
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Basic, Failure> {
    if said.settings.iter().next().is_none() {
        let err = said.error(code::MISSING, said.kind, "basic leads nowhere");
        let err = err.expected("match EXPRESSION, classid MAJOR:MINOR, action KIND ...");
        return Err(Failure::refused(err.linux(crate::kernel::INVALID_TALKING)));
    }
    Ok(Basic { expr: ematch::read(said)? })
}

pub(super) fn show(rule: &Basic, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    out.word("handle", &format!("{:x}", shown.handle), &format!("handle {:#x} ", shown.handle));
    shown.class("flowid", ways, out);
    ematch::show(rule.expr.as_ref(), out);
}

pub(super) fn words(rule: &Basic) -> String {
    ematch::words(rule.expr.as_ref())
}
