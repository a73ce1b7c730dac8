//! The acknowledgement in a queue that a newly queued segment makes needless ("Piece of CAKE",
//! section III-E).
//!
//! A pure acknowledgement of the same connection is needless if the newcomer acknowledges as much
//! in sequence and everything that it acknowledges selectively, and more of either. It stays if it
//! carries anything else: data, other flags, unknown options, newer timestamps, a duplicate
//! selective acknowledgement.

use crate::packet::detail::{Detail, TcpDetail};
use crate::packet::headers::tcp_flag::{ACK, CWR, ECE, SYN};

/// True if `a` is after `b`, as sequence numbers wrap (RFC 9293 section 3.4).
const fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() < 0
}

/// Returns the position in the queue of the acknowledgement to drop, if there is one. `queue` has
/// the segments from the oldest to the newcomer, which is the last and never chosen. O(length of
/// the queue).
pub fn needless<'a>(
    mut queue: impl Iterator<Item = &'a Detail>,
    newest: &TcpDetail,
    len: usize,
    aggressive: bool,
) -> Option<usize> {
    // A SYN has no earlier acknowledgements.
    if newest.flags & (ACK | SYN) != ACK {
        return None;
    }
    let mut found: Option<(usize, u8)> = None;
    for at in 0..len.saturating_sub(1) {
        let Some(tcp) = queue.next().and_then(|d| d.tcp.as_ref()) else { continue };
        if tcp.addresses != newest.addresses || tcp.ports != newest.ports {
            continue;
        }
        if found.is_some_and(|(_, notice)| notice != tcp.notice()) {
            // The two differ in their congestion notification: dropping the first would lose the
            // change.
            found = None;
        }
        if !covers(newest, tcp) {
            continue;
        }
        match found {
            // A second one stands between it and the newcomer: the first can go.
            Some((first, _)) => return Some(first),
            None => found = Some((at, tcp.notice())),
        }
    }
    // A single one goes only if the newcomer follows it directly with the same congestion
    // notification.
    let (at, notice) = found.filter(|_| aggressive)?;
    (at + 2 == len && notice == newest.notice()).then_some(at)
}

/// True if `new` carries all the information of `old`, and acknowledges more.
fn covers(new: &TcpDetail, old: &TcpDetail) -> bool {
    if old.flags & !(ECE | CWR) != ACK || old.reserved || old.data || !old.plain || after(old.ack, new.ack) {
        return false;
    }
    if let Some([sent, echoed]) = old.stamps {
        let [new_sent, new_echoed] = new.stamps.unwrap_or_default();
        if after(sent, new_sent) || after(echoed, new_echoed) {
            return false;
        }
    }
    match more_blocks(new, old) {
        None => false,
        Some(more) => more || old.ack != new.ack,
    }
}

/// Returns `None` if `old` acknowledges something selectively that `new` does not; else true if
/// `new` acknowledges more selectively.
fn more_blocks(new: &TcpDetail, old: &TcpDetail) -> Option<bool> {
    if old.blocks().is_empty() {
        return Some(!new.blocks().is_empty());
    }
    let size =
        |blocks: &[[u32; 2]]| blocks.iter().fold(0u32, |sum, [l, r]| sum.wrapping_add(r.wrapping_sub(*l)));
    for [left, right] in old.blocks() {
        // A block below the cumulative acknowledgement reports a duplicate (RFC 2883), once only.
        let duplicate = after(old.ack, *left);
        let within = |b: &[u32; 2]| !after(b[0], *left) && !after(*right, b[1]);
        if duplicate || !new.blocks().iter().any(within) {
            return None;
        }
    }
    Some(size(new.blocks()) > size(old.blocks()))
}
