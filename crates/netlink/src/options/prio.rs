//! prio and pfifo_fast: `struct tc_prio_qopt`, bands and the band of each priority.

use txweir_core::qdisc::pfifo_fast::PRIOMAP;

use super::{Words, many, pair, record};
use crate::given::Given;
use crate::wire::Writer;

/// Bytes of the struct.
const LEN: usize = 20;

pub(super) fn read(options: &[u8]) -> Words {
    let r = record(options, LEN, "prio")?;
    let mut words = Vec::from(pair("bands", r.u32(0)));
    words.extend(many("priomap", (4..LEN).map(|at| r.u8(at))));
    Ok(words)
}
pub(super) fn write(given: &Given, w: &mut Writer) {
    w.put_all(&[given.u32("bands")]);
    w.put(&map(&given.list("priomap")));
}

/// Returns 16 bands; those left out are the first.
pub(super) fn map(list: &[u64]) -> [u8; 16] {
    let mut map = [0; 16];
    map.iter_mut().zip(list).for_each(|(to, band)| *to = u8::try_from(*band).unwrap_or(u8::MAX));
    map
}

/// pfifo_fast has no options to be set; Linux ignores those of a message.
pub(super) fn read_none(_options: &[u8]) -> Words {
    Ok(Vec::new())
}
pub(super) fn write_pfifo_fast(_given: &Given, w: &mut Writer) {
    w.put_all(&[3]);
    w.put(&PRIOMAP);
}
