//! Reads a file of flent: total, in bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use txweir_core::Nanos;
use txweir_tc::printable::{clean, shortened};

use super::{Flow, Flows, Line, Pings, STEPS_MAX};
use crate::dist::Dist;
use crate::sampled::results::FLOWS_MAX;

/// Largest file, bytes.
pub const FILE_BYTES_MAX: usize = 32 << 20;
/// Largest text that a file may unpack to, bytes: a run of an hour has some 30 MB.
pub const TEXT_BYTES_MAX: usize = 128 << 20;
/// Most values of a series.
pub const POINTS_MAX: usize = 200_000;
/// Most series.
pub const SERIES_MAX: usize = 4096;
/// Newest version of the format that is known.
const VERSION: u64 = 4;
/// Longest text of the metadata that is kept, characters.
const WORDS_MAX: usize = 80;
/// Longest run, seconds.
const SECONDS_MAX: f64 = 86_400.0;
/// Largest rate, Mbit/s.
const RATE_MAX: f64 = 1e7;
/// Longest round trip, milliseconds.
const PING_MAX: f64 = 3_600_000.0;

/// Reason that bytes are no run of flent: the key, the expected, the given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlentError {
    key: String,
    expected: String,
    given: String,
}

impl fmt::Display for FlentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, given {}", self.key, self.expected, self.given)
    }
}

impl std::error::Error for FlentError {}

fn refused<T>(
    key: impl Into<String>,
    expected: impl Into<String>,
    given: impl fmt::Display,
) -> Result<T, FlentError> {
    Err(FlentError { key: key.into(), expected: expected.into(), given: given.to_string() })
}

/// The file's object; each value is read on its own, so that an error names its key. Other keys
/// (`raw_values`) are passed by.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    x_values: Option<&'a RawValue>,
    #[serde(borrow)]
    results: Option<&'a RawValue>,
}

type Series<'a> = BTreeMap<String, &'a RawValue>;

impl Line {
    /// Reads the bytes of a file called `name`.
    ///
    /// # Errors
    /// The bytes are no run of flent, or are beyond a bound: the error names the key, the expected
    /// and the given.
    pub fn read(bytes: &[u8], name: &str) -> Result<Self, FlentError> {
        let text = unpacked(bytes)?;
        let object: Object<'_> =
            serde_json::from_str(&text).or_else(|e| refused("file", "an object of JSON", e))?;
        // Files without a version are of the first one.
        let version = object.version.map_or(Ok(1), |v| value::<u64>("version", "a number", v))?;
        if !(1..=VERSION).contains(&version) {
            return refused("version", format!("1 to {VERSION}"), version);
        }
        let words = metadata(object.metadata)?;
        let of = |key: &str| words.get(key).cloned().unwrap_or_default();
        let seconds = seconds(object.x_values)?;
        let results = results(object.results, seconds.len())?;
        Ok(Self {
            test: of("NAME"),
            title: of("TITLE"),
            host: of("HOST"),
            time: of("TIME"),
            ..covered(word(name), &seconds, &results)
        })
    }
}

/// Returns a text as a terminal and a page may show it.
fn word(text: &str) -> String {
    shortened(&clean(text), WORDS_MAX).into_owned()
}

/// Returns the text of a file, which may be compressed.
fn unpacked(bytes: &[u8]) -> Result<String, FlentError> {
    if bytes.len() > FILE_BYTES_MAX {
        return refused("file", format!("at most {FILE_BYTES_MAX} bytes"), bytes.len());
    }
    if bytes.starts_with(b"BZh") {
        return refused("file", "JSON, or JSON compressed with gzip", "bzip2");
    }
    let mut text = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        // One byte more than the bound tells that there is more.
        let mut unpacking = MultiGzDecoder::new(bytes).take(TEXT_BYTES_MAX as u64 + 1);
        if let Err(e) = unpacking.read_to_end(&mut text) {
            return refused("file", "gzip that unpacks", format!("{e} after {} bytes", text.len()));
        }
        if text.len() > TEXT_BYTES_MAX {
            return refused("file", format!("at most {TEXT_BYTES_MAX} bytes unpacked"), "more");
        }
    } else {
        text.extend_from_slice(bytes);
    }
    String::from_utf8(text).or_else(|e| {
        let at = e.utf8_error().valid_up_to();
        refused("file", "JSON, or JSON compressed with gzip", format!("bytes that are no text at byte {at}"))
    })
}

/// Reads the value of a key.
fn value<'a, T: Deserialize<'a>>(key: &str, expected: &str, raw: &'a RawValue) -> Result<T, FlentError> {
    serde_json::from_str(raw.get()).or_else(|_| refused(key, expected, given(raw)))
}

/// Returns the beginning of a value as the file has it.
fn given(raw: &RawValue) -> String {
    shortened(&clean(raw.get()), 40).into_owned()
}

/// Returns the texts of the metadata, printable and cut.
fn metadata(raw: Option<&RawValue>) -> Result<BTreeMap<String, String>, FlentError> {
    let Some(raw) = raw else { return refused("metadata", "an object", "nothing") };
    let all: Series<'_> = value("metadata", "an object", raw)?;
    let mut words = BTreeMap::new();
    for key in ["NAME", "TITLE", "HOST", "TIME"] {
        let Some(raw) = all.get(key) else { continue };
        if let Some(text) = value::<Option<String>>(&format!("metadata: {key}"), "a text or null", raw)? {
            words.insert(key.to_string(), word(&text));
        }
    }
    Ok(words)
}

/// Returns the times of the values.
fn seconds(raw: Option<&RawValue>) -> Result<Vec<f64>, FlentError> {
    let Some(raw) = raw else { return refused("x_values", "a list of seconds", "nothing") };
    let all: Vec<f64> = value("x_values", "a list of seconds", raw)?;
    if all.is_empty() || all.len() > POINTS_MAX {
        return refused("x_values", format!("1 to {POINTS_MAX} values"), all.len());
    }
    if let Some(x) = all.iter().find(|x| !(0.0..=SECONDS_MAX).contains(*x)) {
        return refused("x_values", format!("0 to {SECONDS_MAX} s"), x);
    }
    match all.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => refused("x_values", format!("more than {} after it", pair[0]), pair[1]),
        None => Ok(all),
    }
}

/// The quantity of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Upload,
    UploadSum,
    Download,
    DownloadSum,
    Ping,
}

impl Kind {
    /// Returns the kind of a series by its name, as the tests of flent call them; `None` for those
    /// that are derived from others, or measure something else.
    fn of(name: &str) -> Option<Self> {
        let derived = |rest: &str| {
            let last = rest.rsplit(' ').next().unwrap_or(rest);
            // `--socket-stats` sets the state of a flow's socket beside it, in units of its own.
            let of_socket = rest.rsplit_once("::").is_some_and(|(_, key)| key.starts_with("tcp_"));
            of_socket || ["avg", "fairness", "sum", "total", "totals"].contains(&last)
        };
        if let Some(rest) = name.strip_prefix("TCP upload") {
            return if rest == " sum" {
                Some(Self::UploadSum)
            } else {
                (!derived(rest)).then_some(Self::Upload)
            };
        }
        if let Some(rest) = name.strip_prefix("TCP download") {
            return if rest == " sum" {
                Some(Self::DownloadSum)
            } else {
                (!derived(rest)).then_some(Self::Download)
            };
        }
        let rest = name.strip_prefix("Ping (ms)")?;
        (!derived(rest)).then_some(Self::Ping)
    }
}

struct Measured {
    name: String,
    kind: Kind,
    values: Vec<Option<f64>>,
}

/// Returns the series of known kinds.
fn results(raw: Option<&RawValue>, points: usize) -> Result<Vec<Measured>, FlentError> {
    let Some(raw) = raw else { return refused("results", "an object of series", "nothing") };
    let all: Series<'_> = value("results", "an object of series", raw)?;
    if all.len() > SERIES_MAX {
        return refused("results", format!("at most {SERIES_MAX} series"), all.len());
    }
    let mut found = Vec::new();
    for (name, raw) in all {
        let Some(kind) = Kind::of(&name) else { continue };
        let name = word(&name);
        let key = format!("results: {name}");
        let values: Vec<Option<f64>> = value(&key, "a list of numbers and null", raw)?;
        if values.len() != points {
            return refused(key, format!("{points} values, as x_values has"), values.len());
        }
        let (most, unit) = if kind == Kind::Ping { (PING_MAX, "ms") } else { (RATE_MAX, "Mbit/s") };
        if let Some(v) = values.iter().flatten().find(|v| !(0.0..=most).contains(*v)) {
            return refused(key, format!("0 to {most} {unit}"), v);
        }
        found.push(Measured { name, kind, values });
    }
    if found.is_empty() {
        return refused("results", "a series \"TCP upload…\", \"TCP download…\" or \"Ping (ms)…\"", "none");
    }
    Ok(found)
}

/// Returns the run without its metadata, of the time in which TCP sent.
fn covered(name: String, seconds: &[f64], all: &[Measured]) -> Line {
    let tcp = |at: usize| all.iter().any(|s| s.kind != Kind::Ping && s.values[at].is_some_and(|v| v > 0.0));
    let first = (0..seconds.len()).find(|at| tcp(*at)).unwrap_or(0);
    let last = (0..seconds.len()).rfind(|at| tcp(*at)).unwrap_or(seconds.len() - 1);
    // The first value stands at the end of its step.
    let step = seconds.get(first + 1).map_or(0.0, |next| next - seconds[first]);
    let begin = (seconds[first] - step).max(0.0);
    let cut = Cut { at: &seconds[first..=last], first };
    Line {
        name,
        test: String::new(),
        title: String::new(),
        host: String::new(),
        time: String::new(),
        length_ns: ns(seconds[last] - begin),
        at_ns: cut.at.chunks(cut.chunk()).map(|part| ns(part[part.len() - 1] - begin)).collect(),
        upload: cut.flows(all, Kind::UploadSum, Kind::Upload),
        download: cut.flows(all, Kind::DownloadSum, Kind::Download),
        ping: cut.pings(all),
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// The covered part of the values.
struct Cut<'a> {
    at: &'a [f64],
    first: usize,
}

impl Cut<'_> {
    /// Returns how many values are one step.
    fn chunk(&self) -> usize {
        self.at.len().div_ceil(STEPS_MAX).max(1)
    }

    fn of<'b>(&self, series: &'b Measured) -> &'b [Option<f64>] {
        &series.values[self.first..self.first + self.at.len()]
    }

    /// Returns the mean of each step, times `unit`.
    fn steps(&self, values: &[Option<f64>], unit: f64) -> Vec<Option<u64>> {
        let mean = |part: &[Option<f64>]| {
            let known = part.iter().flatten().count();
            (known > 0).then(|| (part.iter().flatten().sum::<f64>() / known as f64 * unit).round() as u64)
        };
        values.chunks(self.chunk()).map(mean).collect()
    }

    /// Combines series value by value; a value that none of them has is absent.
    fn combined(&self, of: &[&Measured], mean: bool) -> Vec<Option<f64>> {
        let at = |i: usize| {
            let known: Vec<f64> = of.iter().filter_map(|s| self.of(s)[i]).collect();
            let share = if mean { known.len() as f64 } else { 1.0 };
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / share)
        };
        (0..self.at.len()).map(at).collect()
    }

    fn flows(&self, all: &[Measured], sum: Kind, one: Kind) -> Option<Flows> {
        const MEGA: f64 = 1e6;
        let each: Vec<&Measured> = all.iter().filter(|s| s.kind == one).collect();
        let whole: Vec<&Measured> = all.iter().filter(|s| s.kind == sum).collect();
        let total = self.combined(if whole.is_empty() { &each } else { &whole }, false);
        let known: Vec<f64> = total.iter().flatten().copied().collect();
        if known.is_empty() {
            return None;
        }
        let flow = |s: &&Measured| Flow { name: s.name.clone(), series_bit_s: self.steps(self.of(s), MEGA) };
        Some(Flows {
            throughput_bit_s: (known.iter().sum::<f64>() / known.len() as f64 * MEGA).round() as u64,
            series_bit_s: self.steps(&total, MEGA),
            flows: each.iter().take(FLOWS_MAX).map(flow).collect(),
        })
    }

    fn pings(&self, all: &[Measured]) -> Option<Pings> {
        const NANO: f64 = 1e6;
        let each: Vec<&Measured> = all.iter().filter(|s| s.kind == Kind::Ping).collect();
        let mut dist = Dist::default();
        let known = each.iter().flat_map(|s| self.of(s)).flatten();
        known.for_each(|ms| dist.add(Nanos((ms * NANO).round() as u64)));
        Some(Pings {
            latency: dist.times()?,
            percents_ns: dist.percents(),
            series_ns: self.steps(&self.combined(&each, true), NANO),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_known_by_the_names_of_flents_tests() {
        let of = |name: &str| Kind::of(name);
        assert_eq!(of("TCP upload BE"), Some(Kind::Upload));
        assert_eq!(of("TCP upload::12"), Some(Kind::Upload));
        assert_eq!(of("TCP upload"), Some(Kind::Upload));
        assert_eq!(of("TCP upload sum"), Some(Kind::UploadSum));
        assert_eq!(of("TCP download CS5"), Some(Kind::Download));
        assert_eq!(of("TCP download sum"), Some(Kind::DownloadSum));
        assert_eq!(of("Ping (ms) UDP EF"), Some(Kind::Ping));
        assert_eq!(of("TCP upload Torrent::2"), Some(Kind::Upload));
        assert_eq!(of("TCP upload::3 (CS1)"), Some(Kind::Upload));
        for derived in ["TCP upload avg", "TCP download fairness", "TCP totals", "Ping (ms) avg", "qdisc", ""]
        {
            assert_eq!(of(derived), None, "{derived}");
        }
        for derived in ["TCP upload::tcp_cwnd", "TCP upload BE::tcp_rtt", "TCP upload::1::tcp_pacing_rate"] {
            assert_eq!(of(derived), None, "{derived}");
        }
        for derived in ["TCP upload Torrent sum", "TCP download Torrent avg"] {
            assert_eq!(of(derived), None, "{derived}");
        }
    }
}
