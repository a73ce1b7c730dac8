//! Recorded traces, and their replay.

use txweir_lab::replay::{Step, Trace};

/// Longest virtual time of a replay, nanoseconds.
const TIME_MAX: i64 = 10_000_000_000;
/// Most bytes of all packets of a replay.
const BYTES_MAX: u64 = 4 << 20;
/// Most transmit queues of the device of a replay.
const QUEUES_MAX: u32 = 16;

/// Reads a text as a trace and replays it: an error names a line of the text, the replay ends, and
/// each packet has left or is counted as gone.
///
/// # Panics
/// If one of these laws does not hold.
pub fn trace(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let trace = match Trace::read(&text) {
        Ok(trace) => trace,
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "{error}: {lines} lines");
            return;
        }
    };
    let times = || trace.steps.iter().map(Step::at);
    let span = times().max().unwrap_or(0).saturating_sub(times().min().unwrap_or(0));
    let bytes: u64 = trace.arrivals.iter().map(|arrival| u64::from(arrival.size)).sum();
    if span > TIME_MAX || bytes > BYTES_MAX || trace.head.device.queues > QUEUES_MAX {
        return;
    }
    let replayed = trace.replay_once(0);
    assert_eq!(replayed.arrived, trace.arrivals.len());
    assert!(replayed.left + replayed.gone >= replayed.arrived, "{replayed:?}");
}
