//! bpf: `struct tc_act_bpf`, and the program.

use txweir_core::classify::action::Bpf;

use super::{Asked, Form, Found, Links, Shown, pair};
use crate::program::{self, program_words};
use crate::wire::Writer;

const OPS_LEN: u16 = 3;
const OPS: u16 = 4;
const FD: u16 = 5;

pub(super) const FORM: Form =
    Form { kind: "bpf", parms: (2, 20), times: 1, known: &[OPS_LEN, OPS, FD, 6, 7, 8, 9], read };

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let mut words = Vec::new();
    if let Some(fd) = asked.all.u32(FD)? {
        // The engine says why it has no program of this kind.
        words.extend(pair("object-pinned", fd));
    }
    words
        .extend(program_words(&asked.all, OPS_LEN, OPS)?.into_iter().flat_map(|text| pair("bytecode", text)));
    if words.is_empty() {
        return Ok(None);
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write(bpf: &Bpf, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(2, &[], w);
    program::write(bpf.program(), OPS_LEN, OPS, w);
}
