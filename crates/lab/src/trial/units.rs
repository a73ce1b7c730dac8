//! Values of a trial as text: three digits and a unit, and the ends of an interval beside them.

use serde::Serialize;

use crate::report::text::{bit_rate, scale, size, time};

/// The unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitRate,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Time,
    /// Bytes.
    #[serde(rename = "bytes")]
    Size,
    /// Packets.
    #[serde(rename = "packets")]
    Packets,
    /// Transactions per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A part of the whole, 0 to 1.
    #[serde(rename = "share")]
    Share,
    /// An index, 0 to 1, where 1 is the best.
    #[serde(rename = "index")]
    Index,
}

/// Multiple of the median beyond which interval ends have a unit of their own.
const FAR: f64 = 1000.0;

impl Unit {
    /// Returns the unit of this name in JSON.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bit/s" => Self::BitRate,
            "ns" => Self::Time,
            "bytes" => Self::Size,
            "packets" => Self::Packets,
            "1/s" => Self::PerSecond,
            "share" => Self::Share,
            "index" => Self::Index,
            _ => return None,
        })
    }

    /// Returns a value with its unit; a negative value, which no measure has, is shown as zero.
    pub(super) fn text(self, value: f64) -> String {
        // A float beyond the range of the integer becomes its largest value.
        let whole = value.round() as u64;
        match self {
            Self::BitRate => bit_rate(whole),
            Self::Time => time(whole),
            Self::Size => size(whole),
            Self::Packets => whole.to_string(),
            Self::PerSecond => format!("{value:.1}"),
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Index => format!("{value:.3}"),
        }
    }

    /// Returns the ends of an interval in the unit of its median; `None` if both read like the
    /// median. An absent end is beyond every value, and is shown as such.
    pub(super) fn interval(self, low: Option<f64>, median: f64, high: Option<f64>) -> Option<String> {
        let ends = self.ends(low.unwrap_or(median), median, high.unwrap_or(median));
        let given = ends.clone().unwrap_or_else(|| [self.text(median), self.text(median)]);
        let [first, last] = given;
        match (low, high) {
            (Some(_), Some(_)) => ends.map(|ends| ends.join("..")),
            (low, high) => {
                let end = |known: Option<f64>, text: String| known.map_or("none".into(), |_| text);
                Some(format!("{}..{}", end(low, first), end(high, last)))
            }
        }
    }

    fn ends(self, low: f64, median: f64, high: f64) -> Option<[String; 2]> {
        let texts = [low, median, high].map(|v| self.text(v));
        if texts[0] == texts[1] && texts[2] == texts[1] {
            return None;
        }
        let of_its_own = median <= 0.0 || high > median * FAR;
        let ends = match self {
            Self::BitRate | Self::Time | Self::Size if of_its_own => {
                let [low, _, high] = texts;
                [low, high]
            }
            Self::BitRate | Self::Time | Self::Size => {
                let (power, _) = scale(median.round() as u64);
                let unit = 1000_f64.powi(power as i32);
                [low, high].map(|v| if power == 0 { format!("{v:.0}") } else { digits(v / unit) })
            }
            Self::Packets => [low, high].map(|v| format!("{v:.0}")),
            Self::PerSecond => [low, high].map(|v| if v < 99.95 { format!("{v:.1}") } else { digits(v) }),
            Self::Share => [low, high].map(|v| digits(v * 100.0)),
            Self::Index => [low, high].map(|v| {
                let text = format!("{v:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }),
        };
        Some(ends)
    }
}

/// Returns three significant digits, and all digits before the point.
fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_the_unit_of_the_median() {
        let of = |unit: Unit, [low, median, high]: [f64; 3]| {
            (unit.text(median), unit.interval(Some(low), median, Some(high)).unwrap_or_default())
        };
        let said = |value: &str, ends: &str| (value.to_string(), ends.to_string());
        assert_eq!(of(Unit::BitRate, [18.3e6, 18.4e6, 18.5e6]), said("18.4 Mbit/s", "18.3..18.5"));
        assert_eq!(of(Unit::Time, [958e3, 1.02e6, 12.3e6]), said("1.02 ms", "0.96..12.3"));
        assert_eq!(of(Unit::Time, [5.0, 7.0, 9.0]), said("7 ns", "5..9"));
        assert_eq!(of(Unit::Size, [0.0, 0.0, 1.46e6]), said("0 B", "0 B..1.46 MB"));
        assert_eq!(of(Unit::Share, [0.999, 0.9995, 1.0]), said("100.0 %", "99.9..100"));
        assert_eq!(of(Unit::Index, [0.98, 0.998, 1.0]), said("0.998", "0.98..1"));
        assert_eq!(of(Unit::PerSecond, [186.9, 187.7, 1200.0]), said("187.7", "187..1200"));
        assert_eq!(of(Unit::PerSecond, [6.2, 6.2, 6.4]), said("6.2", "6.2..6.4"));
        assert_eq!(of(Unit::Packets, [3.0, 5.0, 5.0]), said("5", "3..5"));
        // The ends read like the median.
        assert_eq!(of(Unit::Time, [24.96e6, 25.0e6, 25.04e6]), said("25.0 ms", ""));
        assert_eq!(Unit::Time.interval(Some(20e6), 25e6, None), Some("20.0..none".into()));
    }

    #[test]
    fn names_are_those_of_json() {
        let all =
            [Unit::BitRate, Unit::Time, Unit::Size, Unit::Packets, Unit::PerSecond, Unit::Share, Unit::Index];
        for unit in all {
            let json = serde_json::to_string(&unit).unwrap_or_default();
            assert_eq!(Unit::named(json.trim_matches('"')), Some(unit), "{json}");
        }
        assert_eq!(Unit::named("furlong"), None);
    }
}
