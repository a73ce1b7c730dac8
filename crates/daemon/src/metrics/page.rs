//! `Page`: a text of metrics in the format of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>). The type, unit and help of a metric
//! come from the declaration of its counter (`stats!`).

use std::collections::BTreeMap;
use std::fmt::Write;

use txweir_core::base::histogram::Histogram;
use txweir_core::text::stats::{Counter, Unit};

/// The media type of a page.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The objects that a metric is about, as parts of its name: `txweir_htb_class_lended_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(pub &'static str, pub &'static str);

/// The metrics that were collected so far. A metric is one piece of text, because the format wants
/// its samples together.
#[derive(Debug, Default)]
pub struct Page {
    metrics: BTreeMap<(Scope, &'static str), Metric>,
    bytes: usize,
}

/// A metric with its samples.
#[derive(Debug)]
struct Metric {
    /// The name of its samples.
    name: String,
    text: String,
    unit: Unit,
}

impl Page {
    /// Adds a sample of a counter. `labels` are as [`Labels`] writes them.
    pub fn add(&mut self, scope: Scope, counter: &'static Counter, labels: &str, n: i128) {
        let metric = self.metrics.entry((scope, counter.key)).or_insert_with(|| {
            let metric = Metric::new(scope, counter);
            self.bytes += metric.text.len();
            metric
        });
        let before = metric.text.len();
        metric.text.push_str(&metric.name);
        let _ = write!(metric.text, "{{{labels}}} ");
        write_number(&mut metric.text, metric.unit, n);
        metric.text.push('\n');
        self.bytes += metric.text.len() - before;
    }

    /// Adds a sample of a histogram.
    pub fn add_times(&mut self, scope: Scope, counter: &'static Counter, labels: &str, times: &Histogram) {
        let metric = self.metrics.entry((scope, counter.key)).or_insert_with(|| {
            let metric = Metric::of(scope, counter, "histogram");
            self.bytes += metric.text.len();
            metric
        });
        let Metric { name, text, unit } = metric;
        let (before, mut below) = (text.len(), 0);
        for (bound, count) in times.buckets() {
            below += count;
            // Writing into a String cannot fail.
            let _ = write!(text, "{name}_bucket{{{labels},le=\"");
            match bound {
                Some(bound) => write_number(text, *unit, bound.0.into()),
                None => text.push_str("+Inf"),
            }
            let _ = writeln!(text, "\"}} {below}");
        }
        let _ = write!(text, "{name}_count{{{labels}}} {below}\n{name}_sum{{{labels}}} ");
        write_number(text, *unit, times.sum().0.into());
        text.push('\n');
        self.bytes += text.len() - before;
    }

    /// Returns its length so far, bytes.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the text in pieces, to its end.
    pub fn finish(self) -> Vec<String> {
        let build = format!(
            "# TYPE txweir_build info\n# HELP txweir_build The version of the daemon.\n\
             txweir_build_info{{version=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        );
        let texts = self.metrics.into_values().map(|metric| metric.text);
        std::iter::once(build).chain(texts).chain(["# EOF\n".to_owned()]).collect()
    }
}

impl Metric {
    /// Makes the metric of a counter without samples, with the lines that describe it.
    fn new(scope: Scope, counter: &Counter) -> Self {
        Self::of(scope, counter, if counter.falls { "gauge" } else { "counter" })
    }

    /// Does the same for a metric of this type.
    fn of(scope: Scope, counter: &Counter, kind: &str) -> Self {
        let (suffix, unit) = unit_of(counter.unit);
        let family = family(scope, counter.key, suffix);
        let mut text = format!("# TYPE {family} {kind}\n");
        if let Some(unit) = unit {
            let _ = writeln!(text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(text, "# HELP {family} {}", help(counter));
        let name = if kind == "counter" { format!("{family}_total") } else { family };
        Self { name, text, unit: counter.unit }
    }
}

/// Returns the end of the name of a metric with this unit, and the unit of its samples.
const fn unit_of(unit: Unit) -> (&'static str, Option<&'static str>) {
    match unit {
        Unit::One => ("", None),
        Unit::Bytes => ("bytes", Some("bytes")),
        Unit::Rate => ("bytes_per_second", Some("bytes_per_second")),
        Unit::Micros | Unit::Nanos => ("seconds", Some("seconds")),
        Unit::Part32 | Unit::Part64 => ("ratio", Some("ratio")),
    }
}

/// Units of numbers that declarations name, with the words for the unit of the samples.
const BASE_UNITS: [(&str, &str); 4] = [
    ("Nanoseconds", "Seconds"),
    ("nanoseconds", "seconds"),
    ("microseconds", "seconds"),
    (", in parts of 2^32", ""),
];

/// Returns the meaning of a counter, with the unit of the samples.
fn help(counter: &Counter) -> String {
    let about = escaped(counter.about);
    match unit_of(counter.unit) {
        (_, None) => about,
        _ => BASE_UNITS.iter().fold(about, |text, (own, base)| text.replace(*own, base)),
    }
}

/// Returns the name of a metric: `txweir_`, the scope, the key, and the unit at the end, once.
fn family(Scope(first, second): Scope, key: &str, unit: &str) -> String {
    let mut name = format!("txweir_{first}");
    // The key names another unit where the samples have a base unit.
    let stem = key.strip_suffix("_us").or_else(|| key.strip_suffix("_ns")).filter(|_| unit == "seconds");
    let stem = stem.unwrap_or(key);
    for part in [second, stem] {
        if !part.is_empty() {
            let _ = write!(name, "_{part}");
        }
    }
    if !name.ends_with(unit) {
        let _ = write!(name, "_{unit}");
    }
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}

/// Writes a number in the base unit.
fn write_number(out: &mut String, unit: Unit, n: i128) {
    // Writing into a String cannot fail.
    let _ = match unit {
        Unit::One | Unit::Bytes | Unit::Rate => write!(out, "{n}"),
        Unit::Micros => write_decimal(out, n, 6),
        Unit::Nanos => write_decimal(out, n, 9),
        Unit::Part32 => write!(out, "{}", n as f64 / 2f64.powi(32)),
        Unit::Part64 => write!(out, "{}", n as f64 / 2f64.powi(64)),
    };
}

/// Writes a number with so many decimal places.
fn write_decimal(out: &mut String, n: i128, places: u32) -> std::fmt::Result {
    let (sign, one) = (if n < 0 { "-" } else { "" }, 10u128.pow(places));
    let n = n.unsigned_abs();
    write!(out, "{sign}{}.{:0width$}", n / one, n % one, width = places as usize)
}

/// Returns a text with the characters escaped that the format gives a meaning.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

/// The labels of a sample: names with their values.
#[derive(Clone, Debug, Default)]
pub struct Labels(String);

impl Labels {
    /// Returns these labels with one more.
    #[must_use]
    pub fn and(&self, name: &str, value: &str) -> Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        Self(format!("{}{comma}{name}=\"{}\"", self.0, escaped(value)))
    }

    /// Returns their text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::Nanos;

    #[test]
    fn names_have_base_units_once() {
        let name = |key: &str, unit: Unit| family(Scope("cake", "tin"), key, unit_of(unit).0);
        assert_eq!(name("avg_delay_us", Unit::Micros), "txweir_cake_tin_avg_delay_seconds");
        assert_eq!(name("sent_bytes", Unit::Bytes), "txweir_cake_tin_sent_bytes");
        assert_eq!(name("max_pkt_len", Unit::Bytes), "txweir_cake_tin_max_pkt_len_bytes");
        assert_eq!(name("threshold_rate", Unit::Rate), "txweir_cake_tin_threshold_rate_bytes_per_second");
        assert_eq!(name("way_us", Unit::One), "txweir_cake_tin_way_us");
        assert_eq!(family(Scope("qdisc", ""), "bytes", "bytes"), "txweir_qdisc_bytes");
        assert_eq!(family(Scope("my-kind", ""), "a", ""), "txweir_my_kind_a");
    }

    #[test]
    fn the_meaning_of_a_metric_has_the_unit_of_its_samples() {
        let about = "Time, nanoseconds; 0 if it is due.";
        assert_eq!(help(&Counter::new("a_ns", about).of(Unit::Nanos)), "Time, seconds; 0 if it is due.");
        assert_eq!(help(&Counter::new("a", "A mean, microseconds.").of(Unit::Micros)), "A mean, seconds.");
        let about = "Nanoseconds to the end.";
        assert_eq!(help(&Counter::new("a", about).of(Unit::Nanos)), "Seconds to the end.");
        let about = "Probability, in parts of 2^32, of all.";
        assert_eq!(help(&Counter::new("a", about).of(Unit::Part32)), "Probability, of all.");
        assert_eq!(help(&Counter::new("a_us", "A time, microseconds.")), "A time, microseconds.");
    }

    #[test]
    fn numbers_are_exact_in_base_units() {
        let text = |unit, n| {
            let mut out = String::new();
            write_number(&mut out, unit, n);
            out
        };
        assert_eq!(text(Unit::Bytes, i128::from(u64::MAX)), "18446744073709551615");
        assert_eq!(text(Unit::Micros, 1_000_007), "1.000007");
        assert_eq!(text(Unit::Nanos, -5), "-0.000000005");
        assert_eq!(text(Unit::Part32, 1 << 31), "0.5");
        assert_eq!(text(Unit::Part64, 1 << 62), "0.25");
    }

    /// The buckets of a histogram count up, to all of its times.
    #[test]
    fn a_histogram_has_buckets_a_count_and_a_sum() {
        static DELAY: Counter = Counter::new("delay_ns", "Time.").of(Unit::Nanos);
        let (mut page, mut times) = (Page::default(), Histogram::default());
        [500, 500, 3000, 1 << 40].into_iter().for_each(|time| times.add(Nanos(time)));
        page.add_times(Scope("link", ""), &DELAY, Labels::default().and("stage", "qdisc").text(), &times);
        let (len, pieces) = (page.len(), page.finish());
        let text = &pieces[1];
        assert_eq!(len, text.len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "# TYPE txweir_link_delay_seconds histogram",
                "# UNIT txweir_link_delay_seconds seconds",
                "# HELP txweir_link_delay_seconds Time.",
                "txweir_link_delay_seconds_bucket{stage=\"qdisc\",le=\"0.000001024\"} 2",
                "txweir_link_delay_seconds_bucket{stage=\"qdisc\",le=\"0.000002048\"} 2",
                "txweir_link_delay_seconds_bucket{stage=\"qdisc\",le=\"0.000004096\"} 3",
            ]
        );
        assert_eq!(
            lines[lines.len() - 4..],
            [
                "txweir_link_delay_seconds_bucket{stage=\"qdisc\",le=\"8.589934592\"} 3",
                "txweir_link_delay_seconds_bucket{stage=\"qdisc\",le=\"+Inf\"} 4",
                "txweir_link_delay_seconds_count{stage=\"qdisc\"} 4",
                "txweir_link_delay_seconds_sum{stage=\"qdisc\"} 1099.511631776",
            ]
        );
        assert_eq!(lines.len(), 3 + 25 + 2);
    }

    #[test]
    fn a_page_has_each_metric_once_with_its_samples() {
        static SENT: Counter = Counter::new("sent_bytes", "Bytes \"sent\".").of(Unit::Bytes);
        static WAITING: Counter = Counter::new("qlen", "Packets.").falls();
        let mut page = Page::default();
        let a = Labels::default().and("link", "a\"b\\\n");
        page.add(Scope("link", ""), &SENT, a.text(), 1);
        page.add(Scope("link", ""), &WAITING, a.text(), 2);
        page.add(Scope("link", ""), &SENT, a.and("reason", "x").text(), 3);
        let (len, pieces) = (page.len(), page.finish());
        let text: String = pieces[1..pieces.len() - 1].concat();
        assert_eq!(len, text.len());
        assert_eq!(
            text,
            "# TYPE txweir_link_qlen gauge\n# HELP txweir_link_qlen Packets.\n\
             txweir_link_qlen{link=\"a\\\"b\\\\\\n\"} 2\n\
             # TYPE txweir_link_sent_bytes counter\n# UNIT txweir_link_sent_bytes bytes\n\
             # HELP txweir_link_sent_bytes Bytes \\\"sent\\\".\n\
             txweir_link_sent_bytes_total{link=\"a\\\"b\\\\\\n\"} 1\n\
             txweir_link_sent_bytes_total{link=\"a\\\"b\\\\\\n\",reason=\"x\"} 3\n"
        );
        assert_eq!(pieces.last().map(String::as_str), Some("# EOF\n"));
    }
}
