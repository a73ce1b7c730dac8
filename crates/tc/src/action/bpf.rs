//! bpf (tc-bpf(8)): programs of the classic machine. Differs from Linux (PARITY.md: broken-json).

use txweir_core::classify::action::{Bpf, Control};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::out::Out;
use crate::program;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Bpf, Control)>, Diagnostic> {
    let Some(program) = program::read(said, "bad action parsing")? else { return Ok(None) };
    match Bpf::new(program) {
        Ok(bpf) => Ok(Some((bpf, Control::Pipe))),
        Err(err) => {
            let err = said.error(code::BAD_VALUE, said.at("bytecode"), err.to_string());
            Err(err.linux(kernel::INVALID_TALKING))
        }
    }
}

pub(super) fn show(bpf: &Bpf, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "bpf", "bpf ");
    program::show(bpf.program(), out);
    show_control(shown.action.control, "control_action", " default-action ", out);
    shown.numbers("\n\t ", out);
}

pub(super) fn words(bpf: &Bpf) -> String {
    format!("bpf bytecode {}", program::text(bpf.program()))
}
