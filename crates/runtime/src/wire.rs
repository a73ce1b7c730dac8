//! `WireSpec`: a wire and its byte queue limit as a user writes them,
//! `rate=1gbit,ring=1024,bql=off`.

use std::fmt;
use std::str::FromStr;

use txweir_core::model::wire::{Completion, DescriptorCost, Latency, Wire, WireConfig};
use txweir_core::path::dql::{Dql, DqlConfig};
use txweir_core::text::error::Object;
use txweir_core::text::value::{self, Value, Words, exact_of, text_of};
use txweir_core::{Bytes, ConfigError, ErrorKind, Instant, Nanos, Rate};

/// Descriptors per packet of a card that splits buffers at 4 KiB and adds a context descriptor, in
/// hundredths: 3.4 for a full Ethernet frame, 21.5 for a super-frame of 64 KiB. Fitted on the e1000
/// of the published byte queue limit measurements (Herbert, "bql: Byte Queue Limits", netdev,
/// November 2011): its 1024 descriptors held 300 full frames, or 47 super-frames.
pub const E1000_DESCRIPTORS: [(u32, u32); 2] = [(1514, 340), (65_226, 2150)];

/// A wire, and the limit of the bytes in its ring.
///
/// Keys, separated by commas, in any order, each at most once:
///
/// | key | value | default |
/// |---|---|---|
/// | `rate` | line rate, `1gbit` | must be given |
/// | `ring` | descriptors | 1024 |
/// | `bql` | `on` or `off` | `on` |
/// | `bql-min`, `bql-max` | bounds of the byte limit, `64kb` | 0, none |
/// | `bql-hold` | how long slack persists before the limit shrinks | `1s` |
/// | `completion` | `250us` (at every multiple), `immediate`, or `64p/1ms` (so many, or so late) | `250us` |
/// | `latency` | from interrupt to handler, `5us` or `5us/20us` (uniform) | none |
/// | `doorbell` | from doorbell to first look | none |
/// | `descriptors` | per packet, `1`, or by length, `1514:3.4/65226:21.5` | [`E1000_DESCRIPTORS`] |
/// | `overhead` | bytes on the wire beyond each segment's frame | 24 |
/// | `min-frame` | shortest frame, bytes without FCS | 60 |
///
/// Sizes and times are those of tc(8): `kb` is 1024 bytes.
///
/// ```
/// use txweir_core::Rate;
/// use txweir_runtime::WireSpec;
/// let spec: WireSpec = "rate=1gbit,ring=1024,bql=off".parse()?;
/// assert_eq!((spec.wire.rate, spec.wire.ring, spec.bql), (Rate(125_000_000), 1024, None));
/// let wrong = "rate=1gbit,rnig=1024".parse::<WireSpec>().unwrap_err();
/// assert_eq!(wrong.hint.as_deref(), Some("did you mean \"ring\"?"));
/// # Ok::<(), txweir_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireSpec {
    /// The wire.
    pub wire: WireConfig,
    /// The byte queue limit; `None` leaves only the ring.
    pub bql: Option<DqlConfig>,
}

/// The keys, in the order in which messages name them.
const KEYS: [&str; 12] = [
    "rate",
    "ring",
    "bql",
    "bql-min",
    "bql-max",
    "bql-hold",
    "completion",
    "latency",
    "doorbell",
    "descriptors",
    "overhead",
    "min-frame",
];

impl FromStr for WireSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut reader = Reader::new()?;
        let mut seen: Vec<&str> = Vec::new();
        for (index, item) in text.split(',').enumerate() {
            let (key, value) = item.split_once('=').ok_or_else(|| no_value(item))?;
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) {
                let err = ConfigError::new(ErrorKind::Conflict, Object::Wire, "each key once", value);
                return Err(err.key(key).word(index));
            }
            seen.push(key);
            reader.take(key, value).map_err(|err| err.word(index))?;
        }
        if !seen.contains(&"rate") {
            let err = ConfigError::new(ErrorKind::Missing, Object::Wire, Rate::EXPECTED, "");
            return Err(err.key("rate").hint("as in rate=1gbit,ring=1024"));
        }
        reader.finish()
    }
}

impl fmt::Display for WireSpec {
    /// Prints the text form, exact to the unit, without the keys that have their default value. The
    /// printed text reads back as the same wire.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wire, usual) = (&self.wire, WireConfig::default());
        write!(f, "rate={}", said(&wire.rate))?;
        if wire.ring != usual.ring {
            write!(f, ",ring={}", wire.ring)?;
        }
        match &self.bql {
            None => write!(f, ",bql=off")?,
            Some(limit) => write_limit(f, limit)?,
        }
        if wire.completion != usual.completion {
            match wire.completion {
                Completion::Immediate => write!(f, ",completion=immediate")?,
                Completion::Periodic(time) => write!(f, ",completion={}", said(&time))?,
                Completion::Every { packets, within } => {
                    write!(f, ",completion={packets}p/{}", said(&within))?;
                }
            }
        }
        if wire.latency != usual.latency {
            write!(f, ",latency={}/{}", said(&wire.latency.min), said(&wire.latency.max))?;
        }
        if wire.doorbell != usual.doorbell {
            write!(f, ",doorbell={}", said(&wire.doorbell))?;
        }
        write_descriptors(f, &wire.descriptors)?;
        for (key, value, usual) in
            [("overhead", wire.overhead, usual.overhead), ("min-frame", wire.min_frame, usual.min_frame)]
        {
            if value != usual {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, limit: &DqlConfig) -> fmt::Result {
    let usual = DqlConfig::default();
    for (key, value, usual) in
        [("bql-min", limit.limit_min, usual.limit_min), ("bql-max", limit.limit_max, usual.limit_max)]
    {
        if value != usual {
            write!(f, ",{key}={value}b")?;
        }
    }
    if limit.hold_time != usual.hold_time {
        write!(f, ",bql-hold={}", said(&limit.hold_time))?;
    }
    Ok(())
}

fn write_descriptors(f: &mut fmt::Formatter<'_>, cost: &DescriptorCost) -> fmt::Result {
    if cost.points() == E1000_DESCRIPTORS {
        return Ok(());
    }
    for (i, (len, hundredths)) in cost.points().iter().enumerate() {
        f.write_str(if i == 0 { ",descriptors=" } else { "/" })?;
        write!(f, "{len}:{}.{:02}", hundredths / 100, hundredths % 100)?;
    }
    Ok(())
}

/// Returns the text that tc prints if that loses nothing, else an exact one.
fn said<T: Value + PartialEq>(value: &T) -> String {
    let short = text_of(value);
    match T::take(&mut Words::new(&[&short])) {
        Ok(read) if read == *value => short,
        _ => exact_of(value),
    }
}

/// The part of the spec that was read so far.
struct Reader {
    wire: WireConfig,
    limit: DqlConfig,
    bql: bool,
}

impl Reader {
    fn new() -> Result<Self, ConfigError> {
        let descriptors = DescriptorCost::from_points(&E1000_DESCRIPTORS)?;
        let wire = WireConfig { descriptors, ..WireConfig::default() };
        Ok(Self { wire, limit: DqlConfig::default(), bql: true })
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        match key {
            "rate" => {
                self.wire.rate = value::with_unit(value)
                    .map_err(|_| bad(key, "a rate with its unit (10mbit, 1.5gbit)", value))?;
            }
            "ring" => self.wire.ring = read(key, value)?,
            "bql" => self.bql = read(key, value)?,
            "bql-min" => self.limit.limit_min = size(key, value)?,
            "bql-max" => self.limit.limit_max = size(key, value)?,
            "bql-hold" => self.limit.hold_time = read(key, value)?,
            "completion" => self.wire.completion = completion(value)?,
            "latency" => self.wire.latency = latency(value)?,
            "doorbell" => self.wire.doorbell = read(key, value)?,
            "descriptors" => self.wire.descriptors = descriptors(value)?,
            "overhead" => self.wire.overhead = small(key, value)?,
            "min-frame" => self.wire.min_frame = small(key, value)?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn finish(self) -> Result<WireSpec, ConfigError> {
        // Checks that need the whole spec: building a wire runs the checks at their single place.
        Wire::<()>::new(self.wire.clone())?;
        if self.limit.limit_min > self.limit.limit_max {
            let expected = format!("at most bql-max, {}", self.limit.limit_max);
            let err = ConfigError::new(ErrorKind::Conflict, Object::Wire, expected, self.limit.limit_min);
            return Err(err.key("bql-min"));
        }
        if let Err(e) = Dql::new(&self.limit, Instant::ZERO) {
            return Err(ConfigError::new(ErrorKind::OutOfRange, Object::Wire, e, "").key("bql"));
        }
        Ok(WireSpec { wire: self.wire, bql: self.bql.then_some(self.limit) })
    }
}

fn bad(key: &str, expected: &str, given: &str) -> ConfigError {
    ConfigError::new(ErrorKind::BadValue, Object::Wire, expected, given).key(key)
}

fn no_value(item: &str) -> ConfigError {
    let given = item.trim();
    let err = ConfigError::new(ErrorKind::BadValue, Object::Wire, "key=value pairs between commas", given);
    if KEYS.contains(&given) { err.hint(format!("write {given}=...")) } else { err }
}

fn unknown(key: &str) -> ConfigError {
    let expected = format!("one of {}", KEYS.join(", "));
    let err = ConfigError::new(ErrorKind::UnknownKey, Object::Wire, expected, key);
    // No key is half as long; a comparison takes the product of the lengths.
    let nearest = KEYS
        .into_iter()
        .filter(|_| key.len() <= 64)
        .map(|known| (strsim::damerau_levenshtein(&key.to_ascii_lowercase(), known), known))
        .min();
    match nearest {
        // A hint may differ from the given key in one letter of three.
        Some((distance, known)) if distance <= (known.len() / 3).max(1) => {
            err.hint(format!("did you mean \"{known}\"?"))
        }
        _ => err,
    }
}

/// Reads one value of a type that tc knows.
fn read<T: Value>(key: &str, value: &str) -> Result<T, ConfigError> {
    T::take(&mut Words::new(&[value])).map_err(|_| bad(key, T::EXPECTED, value))
}

/// Reads a size in the range of a limit.
fn size(key: &str, value: &str) -> Result<u32, ConfigError> {
    let Bytes(bytes) = read(key, value)?;
    u32::try_from(bytes)
        .ok()
        .filter(|n| *n <= txweir_core::path::dql::LIMIT_MAX)
        .ok_or_else(|| bad(key, &format!("at most {} bytes", txweir_core::path::dql::LIMIT_MAX), value))
}

/// Reads bytes per frame: no link has more than 64 KiB of them.
fn small(key: &str, value: &str) -> Result<u32, ConfigError> {
    let bytes: u32 = read(key, value)?;
    if bytes > 65_535 { Err(bad(key, "0 to 65535 bytes", value)) } else { Ok(bytes) }
}

fn completion(value: &str) -> Result<Completion, ConfigError> {
    let expected = "a period (250us), `immediate`, or packets/time (64p/1ms)";
    let wrong = || bad("completion", expected, value);
    if value == "immediate" {
        return Ok(Completion::Immediate);
    }
    match value.split_once('/') {
        None => read("completion", value).map(Completion::Periodic).map_err(|_| wrong()),
        Some((packets, within)) => {
            let packets = packets.strip_suffix('p').unwrap_or(packets).parse().map_err(|_| wrong())?;
            let within = read("completion", within).map_err(|_| wrong())?;
            Ok(Completion::Every { packets, within })
        }
    }
}

fn latency(value: &str) -> Result<Latency, ConfigError> {
    let time =
        |text| read::<Nanos>("latency", text).map_err(|_| bad("latency", "a time, or two (5us/20us)", value));
    let (min, max) = value.split_once('/').unwrap_or((value, value));
    Ok(Latency { min: time(min)?, max: time(max)? })
}

fn descriptors(value: &str) -> Result<DescriptorCost, ConfigError> {
    let expected = "descriptors per packet (1), or by length (1514:3.4/65226:21.5)";
    let wrong = || bad("descriptors", expected, value);
    let point = |text: &str| {
        let (len, cost) = match text.split_once(':') {
            Some((len, cost)) => (len.parse().ok()?, cost),
            None if text == value => (0, text),
            None => return None,
        };
        Some((len, hundredths(cost)?))
    };
    let points: Option<Vec<_>> = value.split('/').map(point).collect();
    DescriptorCost::from_points(&points.ok_or_else(wrong)?)
}

/// Reads a number in hundredths, `21.5` as 2150, with at most two decimal places.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return None;
    }
    let tens = if part.len() == 1 { 10 } else { 1 };
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part.parse::<u32>().ok()? * tens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> WireSpec {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn what_is_printed_reads_back() {
        for (text, printed) in [
            ("rate=1gbit", "rate=1Gbit"),
            ("rate=10mbit,ring=1024,bql=on,overhead=24,completion=250us", "rate=10Mbit"),
            ("rate=1gbit,bql=off,ring=64", "rate=1Gbit,ring=64,bql=off"),
        ] {
            assert_eq!(spec(text).to_string(), printed);
        }
        for text in [
            "rate=12345678bit,bql-min=3kb,bql-max=64kb,bql-hold=1234567ns,completion=64p/1ms,latency=5us/20us",
            "rate=300mbit,doorbell=1us,descriptors=60:1/1514:1.25,overhead=0,min-frame=46,latency=7ns",
            "rate=1gbit,descriptors=2.05,completion=immediate",
            "rate=1gbit,completion=125us",
        ] {
            assert_eq!(spec(&spec(text).to_string()), spec(text), "{}", spec(text));
        }
    }

    fn message(text: &str) -> String {
        text.parse::<WireSpec>().unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_those_of_the_published_card() {
        let WireSpec { wire, bql } = spec("rate=1gbit");
        assert_eq!((wire.rate, wire.ring, wire.overhead, wire.min_frame), (Rate(125_000_000), 1024, 24, 60));
        assert_eq!(wire.completion, Completion::Periodic(Nanos(250_000)));
        assert_eq!([60, 1514, 65_226].map(|len| wire.descriptors.hundredths(len)), [340, 340, 2150]);
        assert_eq!(bql, Some(DqlConfig::default()));
    }

    #[test]
    fn every_key_arrives() {
        let WireSpec { wire, bql } = spec(
            "rate=300mbit, ring=256, bql=on, bql-min=3kb, bql-max=64kb, bql-hold=2s, completion=64p/1ms, \
             latency=5us/20us, doorbell=1us, descriptors=60:1/1514:1.25, overhead=0, min-frame=46",
        );
        assert_eq!((wire.rate, wire.ring, wire.overhead, wire.min_frame), (Rate(37_500_000), 256, 0, 46));
        assert_eq!(wire.completion, Completion::Every { packets: 64, within: Nanos(1_000_000) });
        assert_eq!(wire.latency, Latency { min: Nanos(5_000), max: Nanos(20_000) });
        assert_eq!((wire.doorbell, wire.descriptors.hundredths(9000)), (Nanos(1_000), 125));
        let bql = bql.unwrap();
        assert_eq!((bql.limit_min, bql.limit_max, bql.hold_time), (3072, 65_536, Nanos(2_000_000_000)));
        assert_eq!(spec("rate=1gbit,bql=off,bql-max=1mb").bql, None);
        assert_eq!(spec("rate=1gbit,completion=immediate").wire.completion, Completion::Immediate);
        assert_eq!(spec("rate=1gbit,descriptors=2.5").wire.descriptors.hundredths(60), 250);
        assert_eq!(
            spec("rate=1gbit,latency=5us").wire.latency,
            Latency { min: Nanos(5_000), max: Nanos(5_000) }
        );
    }

    #[test]
    fn refusals_name_the_key_and_what_was_expected() {
        assert_eq!(
            message("rate=1gbit,rnig=64"),
            "wire: expected one of rate, ring, bql, bql-min, bql-max, bql-hold, completion, latency, doorbell, \
             descriptors, overhead, min-frame, given \"rnig\" (did you mean \"ring\"?)"
        );
        assert_eq!(
            message("rate=fast"),
            "wire rate: expected a rate with its unit (10mbit, 1.5gbit), given \"fast\""
        );
        assert_eq!(
            message("ring=64"),
            "wire rate: expected a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s), given nothing \
             (as in rate=1gbit,ring=1024)"
        );
        assert_eq!(message("rate=1gbit,bql=maybe"), "wire bql: expected on or off, given \"maybe\"");
        assert_eq!(message("rate=1gbit,rate=2gbit"), "wire rate: expected each key once, given \"2gbit\"");
        assert_eq!(
            message("rate=1gbit,ring"),
            "wire: expected key=value pairs between commas, given \"ring\" (write ring=...)"
        );
        assert_eq!(message(""), "wire: expected key=value pairs between commas, given nothing");
        assert_eq!(
            message("rate=1gbit,ring=8"),
            "wire ring: expected 22 (the largest packet's descriptors) to 1048576, given \"8\""
        );
        assert_eq!(message("rate=0"), "wire rate: expected at least 8 bit/s, given \"0\"");
        assert_eq!(
            message("rate=100"),
            "wire rate: expected a rate with its unit (10mbit, 1.5gbit), given \"100\""
        );
        assert_eq!(
            message("rate=1gbit,bql-min=2kb,bql-max=1kb"),
            "wire bql-min: expected at most bql-max, 1024, given \"2048\""
        );
        assert_eq!(
            message("rate=1gbit,bql-max=2gb"),
            "wire bql-max: expected at most 1879048192 bytes, given \"2gb\""
        );
        assert_eq!(
            message("rate=1gbit,completion=often"),
            "wire completion: expected a period (250us), `immediate`, or packets/time (64p/1ms), given \"often\""
        );
        for descriptors in ["1/2", "1514:x", "3.456", "0.5", "", "1514:3.4/1514:3.4", ".5", "99999999999"] {
            let message = message(&format!("rate=1gbit,descriptors={descriptors}"));
            assert!(message.starts_with("wire descriptors: expected "), "{message}");
        }
        assert_eq!("rate=1gbit,ring=x".parse::<WireSpec>().unwrap_err().word, Some(1));
    }
}
