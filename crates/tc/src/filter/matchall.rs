//! matchall (tc-matchall(8)).

use txweir_core::classify::filter::Matchall;

use super::Shown;
use crate::action::Ways;
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Matchall, Diagnostic> {
    if said.settings.iter().next().is_none() {
        let err = said.error(code::MISSING, said.kind, "matchall leads nowhere");
        let err = err.expected("classid MAJOR:MINOR, action KIND ...");
        return Err(err.linux(crate::kernel::INVALID_TALKING));
    }
    Ok(Matchall { skip_hw: said.settings.has("skip_hw") })
}

pub(super) fn show(rule: &Matchall, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    out.uint("handle", shown.handle, &format!("handle {:#x} ", shown.handle));
    shown.class("flowid", ways, out);
    if rule.skip_hw {
        out.flag("skip_hw", "\n  skip_hw");
    }
    out.flag("not_in_hw", "\n  not_in_hw");
    if ways.statistics {
        let hits = ways.hits(shown.hits);
        out.uint("rule_hit", hits, &format!(" (rule hit {hits})"));
    }
}

pub(super) fn words(rule: &Matchall) -> String {
    if rule.skip_hw { " skip_hw".into() } else { String::new() }
}
