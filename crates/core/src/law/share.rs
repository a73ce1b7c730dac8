//! Room of a buffer that flows share: dynamic thresholds (Choudhury & Hahne, "Dynamic Queue Length
//! Thresholds for Multiuser Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking
//! 6(2), 1998). A flow may have a quarter of the free room: less than the usual one to eight times
//! the free room, because its sender waits. So a flow that came first takes at most a fifth.
//!
//! - I1: a flow without anything in the buffer is taken as long as the buffer is not full.
//! - I2: `n` flows that always have more to put in come to have `limit / (n + 4)` each, and leave
//!   four times as much free for others.
//! - I3: each departure, of any flow, brings a flow that was refused closer to its threshold, and a
//!   flow without anything in the buffer is taken after it.

/// The free room is so many times the room of a flow.
const FACTOR: u64 = 4;

/// True if a flow that has `own` of the `waiting` units in a buffer of `limit` units may put one
/// more in: it has less than its part of what is free.
pub const fn has_room(own: u64, waiting: u64, limit: u64) -> bool {
    own.saturating_mul(FACTOR) < limit.saturating_sub(waiting)
}

/// Returns the part of `waiting` units that a flow has, by its part of the bytes: for a buffer that
/// counts other units than its flows do. It is rounded down, and at most `waiting`.
pub const fn part(own_bytes: u64, all_bytes: u64, waiting: u64) -> u64 {
    if own_bytes >= all_bytes {
        return if own_bytes == 0 { 0 } else { waiting };
    }
    let part = own_bytes as u128 * waiting as u128 / all_bytes as u128;
    part as u64 // at most `waiting`
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Flows put in one unit after the other, until none may.
    #[test]
    fn greedy_flows_get_the_same_and_leave_as_much() {
        for (flows, limit) in [(1, 100), (2, 99), (3, 4000), (30, 10_240), (300, 1000)] {
            let mut own = vec![0; flows];
            let mut waiting = 0;
            let mut went = true;
            while std::mem::take(&mut went) {
                for own in &mut own {
                    if has_room(*own, waiting, limit) {
                        (*own, waiting, went) = (*own + 1, waiting + 1, true);
                    }
                }
            }
            let part = limit / (flows as u64 + FACTOR);
            assert!(own.iter().all(|own| (part..=part + 1).contains(own)), "{flows}: {own:?}");
            assert!(
                waiting <= limit && limit - waiting + flows as u64 >= FACTOR * part,
                "{flows}: {waiting}"
            );
            assert!(!has_room(own[0], waiting, limit), "{flows}");
            assert!(has_room(0, waiting.min(limit - 1), limit), "{flows}: a new flow");
        }
    }

    #[test]
    fn ends() {
        assert!(has_room(0, 0, 1) && !has_room(0, 1, 1) && !has_room(0, 0, 0) && !has_room(0, 5, 1));
        assert!(!has_room(u64::MAX, 0, u64::MAX) && has_room(0, 0, u64::MAX));
        assert_eq!((part(0, 0, 0), part(0, 0, 7), part(1, 3, 7), part(3, 3, 7)), (0, 0, 2, 7));
        assert_eq!((part(5, 3, 7), part(u64::MAX - 1, u64::MAX, u64::MAX)), (7, u64::MAX - 1));
    }
}
