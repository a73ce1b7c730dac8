//! The memory of frames that are gone serves those to come.

use txweir_core::Instant;
use txweir_counted::calls;
use txweir_device::VnetHdr;
use txweir_runtime::Received;

use crate::list::{List, To, direction};

/// Frames of a burst.
const BURST: usize = 64;

/// Nothing is allocated for a frame once bursts have passed: the device of this test copies each,
/// once, and nothing else calls the allocator.
#[test]
fn nothing_is_allocated_for_a_frame() {
    let mut way = direction("rate=1gbit", 1 << 20);
    let mut list = List::default();
    let mut made = Vec::new();
    for burst in 1..=4 {
        list.incoming.extend((0..BURST).map(|n| (VnetHdr::default(), vec![n as u8; 200])));
        list.sent.reserve(BURST);
        list.doorbells.reserve(BURST);
        let now = Instant(burst * 1_000_000);
        made.push(calls(|| {
            while let Received::Frame(arrival) = way.receive(&mut list).expect("a list") {
                way.admit_to(now, arrival, &mut list).expect("a device");
            }
            way.advance_to(now, &mut list).expect("a device");
        }));
    }
    way.advance_to(Instant(1_000_000_000), &mut list).expect("a device");
    assert_eq!(list.sent.len(), 4 * BURST);
    assert_eq!(made[3], BURST as u64, "allocations of each burst: {made:?}");
}
