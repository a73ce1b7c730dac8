//! bpf: the program as an array of `struct sock_filter`.

use txweir_core::classify::filter::Bpf;
use txweir_core::classify::filter::bpf::PROGRAM_MAX;

use super::{Form, NONE, Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const OPS_LEN: u16 = 4;
const OPS: u16 = 5;
const FD: u16 = 6;
const FLAGS: u16 = 8;
/// The bit of [`FLAGS`] for a program that decides.
const DIRECT: u32 = 1;
/// Bytes of an instruction.
const INSTRUCTION: usize = 8;

pub(super) const FORM: Form = Form {
    kind: "bpf",
    actions: 1,
    police: 2,
    class: 3,
    flags: 9,
    known: &[OPS_LEN, OPS, FD, 7, FLAGS, 10, 11],
    ..NONE
};

pub(super) fn read(all: &Attributes<'_>) -> Words {
    let mut words = Vec::new();
    if let Some(fd) = all.u32(FD)? {
        // The engine says why it has no program of this kind.
        words.extend(pair("object-pinned", fd));
    }
    if let Some(bytes) = all.bytes(OPS) {
        let count = bytes.len() / INSTRUCTION;
        let said = all.record(OPS_LEN, 2)?.map_or(count, |r| r.u16(0).into());
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
        words.extend(pair("bytecode", program));
    }
    match all.u32(FLAGS)?.unwrap_or(0) {
        0 => {}
        DIRECT => words.push("direct-action".into()),
        flags => return Err(Refusal::invalid(format!("bpf: expected flags of 0 or 1, given {flags}"))),
    }
    Ok(words)
}

pub(super) fn write(rule: &Bpf, w: &mut Writer) {
    w.u16(OPS_LEN, u16::try_from(rule.program.len()).unwrap_or(u16::MAX));
    w.nest(OPS, |w| {
        for one in &rule.program {
            w.put(&one.code.to_ne_bytes());
            w.put(&[one.jt, one.jf]);
            w.put(&one.k.to_ne_bytes());
        }
    });
    if rule.direct {
        w.u32(FLAGS, DIRECT);
    }
}
