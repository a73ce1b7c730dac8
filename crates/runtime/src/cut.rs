//! Cutting a super-frame into frames of the same store.

use txweir_core::Meta;
use txweir_device::{Segmenter, Store};

use crate::stats::DirectionStats;

/// Cuts a super-frame and gives each segment to `each`, together with the store.
pub fn cut<S: Store>(
    store: &mut S,
    stats: &mut DirectionStats,
    whole: S::Frame,
    meta: &Meta,
    each: &mut dyn FnMut(&mut S, S::Frame, Meta),
) {
    stats.cut += 1;
    let beside = *store.beside(&whole);
    let (mut pieces, mut made) = (u64::from(meta.segs), 0);
    if let Ok(mut segmenter) = Segmenter::new(&beside.hdr, store.bytes(&whole)) {
        let room = segmenter.longest();
        pieces = segmenter.segments() as u64;
        for _ in 0..segmenter.segments() {
            let next = &mut |whole: &[u8], room: &mut [u8]| segmenter.next_into(whole, room).ok().flatten();
            let Some(mut piece) = store.build_from(&whole, room, next) else { break };
            store.beside_mut(&mut piece).network = beside.network;
            let mut m = *meta;
            m.len = u32::try_from(store.bytes(&piece).len()).unwrap_or(u32::MAX);
            (m.wire_len, m.segs, m.gso_size, m.header_len) = (m.len, 1, 0, 0);
            made += 1;
            each(store, piece, m);
        }
    }
    stats.pieces += pieces;
    stats.unmade += pieces - made;
    store.give(whole);
}
