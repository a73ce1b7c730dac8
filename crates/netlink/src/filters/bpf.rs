//! bpf: the program, and whether it decides.

use txweir_core::classify::filter::Bpf;

use super::{Form, NONE, Words, pair};
use crate::program::{self, program_words};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const OPS_LEN: u16 = 4;
const OPS: u16 = 5;
const FD: u16 = 6;
const FLAGS: u16 = 8;
/// The bit of [`FLAGS`] for a program that decides.
const DIRECT: u32 = 1;

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
    words.extend(program_words(all, OPS_LEN, OPS)?.into_iter().flat_map(|text| pair("bytecode", text)));
    match all.u32(FLAGS)?.unwrap_or(0) {
        0 => {}
        DIRECT => words.push("direct-action".into()),
        flags => return Err(Refusal::invalid(format!("bpf: expected flags of 0 or 1, given {flags}"))),
    }
    Ok(words)
}

pub(super) fn write(rule: &Bpf, w: &mut Writer) {
    program::write(&rule.program, OPS_LEN, OPS, w);
    if rule.direct {
        w.u32(FLAGS, DIRECT);
    }
}
