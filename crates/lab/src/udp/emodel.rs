//! The quality of a call: ITU-T G.107 with every value at its default but delay and loss.

/// R of a call with neither delay nor loss (G.107, 2015, section 7.7: all defaults).
const BEST: f64 = 93.2;
/// Robustness of G.711 with its loss concealment against random loss (G.113, appendix I, table
/// I.4).
const ROBUSTNESS: f64 = 25.1;
/// Delay above which conversation suffers, ms (Cole and Rosenbluth, "Voice over IP performance
/// monitoring", CCR 31(2), 2001, who fit two straight lines to the delay impairment of G.107).
const KNEE_MS: f64 = 177.3;

/// Returns the transmission rating factor R for a mean delay from mouth to ear and a percentage of
/// packets that were not played.
pub fn rating(delay_ms: f64, loss_percent: f64) -> f64 {
    let delay = 0.024 * delay_ms + 0.11 * (delay_ms - KNEE_MS).max(0.0);
    // Effective equipment impairment (G.107 section 7.6) for random loss; G.711's own is zero.
    let loss = 95.0 * loss_percent / (loss_percent + ROBUSTNESS);
    BEST - delay - loss
}

/// Returns the mean opinion score of R (G.107 annex B), 1 to 4.5.
pub fn opinion(r: f64) -> f64 {
    let score = 1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6;
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        _ => score.clamp(1.0, 4.5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_and_scores_by_hand() {
        let near = |got: f64, expected: f64| assert!((got - expected).abs() < 0.005, "{got} for {expected}");
        near(rating(0.0, 0.0), 93.2);
        near(rating(100.0, 0.0), 90.8);
        // The delay impairment is 4.8, and 0.11 times 22.7.
        near(rating(200.0, 0.0), 85.903);
        // The loss impairment is 95 / 26.1.
        near(rating(0.0, 1.0), 89.560);
        near(opinion(93.2), 4.41);
        // The score is 1 + 1.75 - 500 * 50 * 7e-6.
        near(opinion(50.0), 2.575);
        near(opinion(80.0), 4.024);
        assert_eq!([opinion(-5.0), opinion(3.0), opinion(101.0)], [1.0, 1.0, 4.5]);
    }
}
