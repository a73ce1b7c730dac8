//! bpf (tc-bpf(8)): programs of the classic machine, as numbers.

use txweir_core::classify::filter::Bpf;

use super::Shown;
use crate::action::Ways;
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::out::Out;
use crate::program;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Bpf, Diagnostic> {
    let Some(program) = program::read(said, "Unable to parse bpf command line")? else {
        let err = said.error(code::MISSING, said.kind, "bpf has no program");
        return Err(err.expected("bytecode 'N,CODE JT JF K,...'").linux(kernel::INVALID_TALKING));
    };
    Ok(Bpf { program, direct: said.settings.has("direct-action"), skip_hw: said.settings.has("skip_hw") })
}

pub(super) fn show(rule: &Bpf, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    let handle = format!("{:#x}", shown.handle);
    out.word("handle", &handle, &format!("handle {handle} "));
    shown.class("flowid", ways, out);
    if rule.direct {
        out.flag("direct-action", "direct-action ");
    }
    if rule.skip_hw {
        out.flag("skip_hw", "skip_hw ");
    }
    out.flag("not_in_hw", "not_in_hw ");
    program::show(&rule.program, out);
}

pub(super) fn words(rule: &Bpf) -> String {
    let direct = if rule.direct { " direct-action" } else { "" };
    let skip_hw = if rule.skip_hw { " skip_hw" } else { "" };
    format!(" bytecode {}{direct}{skip_hw}", program::text(&rule.program))
}
