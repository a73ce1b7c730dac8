//! Files of flent.

use txweir_lab::flent::{Line, STEPS_MAX};

/// Reads bytes as a file of flent, and checks what every run has.
///
/// # Panics
/// If a run that was read has more steps than the bound, series of other lengths, or steps out of
/// order; or if an error does not say what was expected.
pub fn flent(data: &[u8]) {
    let line = match Line::read(data, "f") {
        Ok(line) => line,
        Err(e) => {
            let said = e.to_string();
            assert!(said.contains(": expected ") && said.contains(", given "), "{said}");
            return;
        }
    };
    let steps = line.at_ns.len();
    assert!((1..=STEPS_MAX).contains(&steps) && line.at_ns.is_sorted(), "{steps} steps");
    for flows in [&line.upload, &line.download].into_iter().flatten() {
        let all = flows.flows.iter().map(|f| &f.series_bit_s).chain([&flows.series_bit_s]);
        assert!(all.into_iter().all(|s| s.len() == steps));
    }
    if let Some(ping) = &line.ping {
        assert!(
            ping.series_ns.len() == steps && ping.percents_ns.len() == 101 && ping.percents_ns.is_sorted()
        );
    }
}
