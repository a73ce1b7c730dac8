//! tcpctl: control segments of TCP. Its counters are printed as those of u32: packets asked about,
//! and packets matched.

use txweir_core::classify::filter::tcpctl::Tcpctl;

use super::Shown;
use crate::action::Ways;
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Tcpctl, Diagnostic> {
    if said.settings.iter().next().is_none() {
        let err = said.error(code::MISSING, said.kind, "tcpctl leads nowhere");
        return Err(err.expected("classid MAJOR:MINOR, action KIND ..."));
    }
    Ok(Tcpctl {})
}

pub(super) fn show(shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    out.uint("handle", shown.handle, &format!("handle {:#x} ", shown.handle));
    shown.class("flowid", ways, out);
    if ways.statistics {
        let [hits, matched] = [0, 1].map(|n| ways.hits(shown.hits + n));
        out.uint("rule_hit", hits, &format!(" (rule hit {hits}"));
        out.uint("success", matched, &format!(" success {matched})"));
    }
}
