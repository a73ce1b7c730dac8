//! Captures (pcap, pcapng) and traffic files.

use txweir_core::Nanos;
use txweir_lab::trial::{Traffic, TrafficError};

/// The time of the run that the packets of a capture are for.
const TIME: Nanos = Nanos::from_secs(1);

/// Reads bytes as a file of traffic, and checks that a capture that breaks off is read up to there.
///
/// # Panics
/// If a capture that can be read cannot be read without its last bytes.
pub fn capture(data: &[u8]) {
    let read = Traffic::file(data, "c", TIME, 1);
    let Some(magic) = data.get(..4) else { return };
    let is_text = read.is_ok() && magic.is_ascii();
    if read.is_err() || is_text {
        return;
    }
    // The place of the cut follows from the bytes, so that an input always does the same.
    let sum = data.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let end = 4 + sum % (data.len() - 3);
    match Traffic::file(&data[..end], "c", TIME, 1) {
        Err(TrafficError::Capture(said)) => {
            let known = ["at least one packet", "breaks off", "not a capture"];
            assert!(known.iter().any(|k| said.contains(k)), "{end} of {} bytes: {said}", data.len());
        }
        Ok(_) | Err(TrafficError::Scenario(_)) => {}
    }
}
