//! Programs of the classic machine as arrays of `struct sock_filter`, in filters and in actions.

use txweir_core::classify::machine::{Instruction, PROGRAM_MAX};

use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;

/// Returns a program as tc writes it, from the attributes of its length and of its instructions;
/// `None` if there is none.
pub(crate) fn program_words(all: &Attributes<'_>, len: u16, ops: u16) -> Result<Option<String>, Refusal> {
    let Some(bytes) = all.bytes(ops) else { return Ok(None) };
    let count = bytes.len() / INSTRUCTION;
    let said = all.record(len, 2)?.map_or(count, |r| r.u16(0).into());
    if said != count || bytes.len() % INSTRUCTION != 0 || !(1..=PROGRAM_MAX).contains(&count) {
        let text = format!(
            "bpf: expected {said} instructions of {INSTRUCTION} bytes, 1 to {PROGRAM_MAX}, given {} bytes",
            bytes.len()
        );
        return Err(Refusal::invalid(text));
    }
    let r = Record::of(bytes, bytes.len(), "bpf")?;
    let mut program = count.to_string();
    for at in (0..bytes.len()).step_by(INSTRUCTION) {
        let [code, jt, jf] = [r.u16(at), r.u8(at + 2).into(), r.u8(at + 3).into()];
        program.push_str(&format!(",{code} {jt} {jf} {}", r.u32(at + 4)));
    }
    Ok(Some(program))
}

/// Writes a program.
pub(crate) fn write(program: &[Instruction], len: u16, ops: u16, w: &mut Writer) {
    w.u16(len, u16::try_from(program.len()).unwrap_or(u16::MAX));
    w.nest(ops, |w| {
        for one in program {
            w.put(&one.code.to_ne_bytes());
            w.put(&[one.jt, one.jf]);
            w.put(&one.k.to_ne_bytes());
        }
    });
}
