//! police (tc-police(8)).

use std::borrow::Cow;

use txweir_core::base::link::LinkLayer;
use txweir_core::classify::action::police::{Average, Config, Police};
use txweir_core::classify::action::{Control, Kind};
use txweir_core::law::bucket::{self, Sizing};
use txweir_core::text::value::text_of;
use txweir_core::{Bytes, ConfigError, ErrorKind, Nanos, Rate};

use super::{CONTROLS, Shown, control_of, control_words, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::language::NO_RATE;
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::INCOMPLETE;

/// Reads the parameters, and the control for a packet that exceeds the rate.
pub(super) fn read(said: &Said<'_>) -> Result<Option<(Kind, Control)>, Diagnostic> {
    let s = &said.settings;
    if !["rate", "avrate", "pkts_rate", "mtu", "burst", "peakrate"].iter().any(|key| s.has(key)) {
        return match s.has("index") {
            true => Ok(None),
            false => {
                let err = said.error(code::MISSING, said.kind, "police names no rate");
                let err = err.expected("rate, avrate, pkts_rate or mtu");
                Err(if s.iter().next().is_none() { err.linux(INCOMPLETE) } else { err.linux(NO_RATE) })
            }
        };
    }
    let (exceed, conform) = controls(said)?;
    let size = |key: &str| match s.bytes(key).map(|at| (u32::try_from(at.value.0), said.at(key))) {
        Some((Err(_), at)) => {
            let message = format!("police {key} is out of range");
            Err(said.error(code::OUT_OF_RANGE, at, message).expected("at most 4294967295 bytes"))
        }
        Some((Ok(size), _)) => Ok(Some(size)),
        None => Ok(None),
    };
    let rate = s.rate("rate").map(|at| at.value).unwrap_or_default();
    let layer = match s.word("linklayer").map(|w| w.text.as_str()) {
        Some("atm" | "adsl") => LinkLayer::Atm,
        _ => LinkLayer::Ethernet,
    };
    let packets = match (said.u32("pkts_rate"), said.u32("pkts_burst")) {
        (None, None) => None,
        (rate, burst) => Some((u64::from(rate.unwrap_or(0)), u64::from(burst.unwrap_or(0)))),
    };
    let config = Config {
        rate,
        burst: Bytes(size("burst")?.unwrap_or(0).into()),
        peakrate: s.rate("peakrate").map(|at| at.value),
        mtu: size("mtu")?,
        sizing: Sizing {
            // The overhead has an effect only with a rate.
            overhead: said.u32("overhead").filter(|_| rate.0 > 0).unwrap_or(0),
            mpu: said.u32("mpu").unwrap_or(0),
            layer,
        },
        packets,
        average: average(said)?,
        conform,
    };
    match Police::new(config) {
        Ok(police) => Ok(Some((Kind::Police(police), exceed))),
        Err(err) => {
            let at = said.at(err.key.as_deref().unwrap_or(""));
            let linux = refused(&err);
            Err(Diagnostic { linux, ..said.error(code::MISSING, at, err.to_string()) })
        }
    }
}

/// Returns tc's line for parameters that core refuses.
fn refused(err: &ConfigError) -> Option<Cow<'static, str>> {
    let line = match (err.kind, err.key.as_deref().unwrap_or("")) {
        (ErrorKind::Conflict, "pkts_rate") => "'rate' and 'pkts_rate' are not allowed in same action.",
        (_, "pkts_burst") => "'pkts_burst' requires 'pkts_rate'.",
        (_, "rate" | "pkts_rate") => NO_RATE,
        (_, "burst") => "'burst' requires 'rate'.",
        (_, "peakrate") => "'peakrate' requires 'rate'.",
        (_, "mtu") => "'mtu' is required, if 'peakrate' is requested.",
        _ => return None,
    };
    Some(line.into())
}

/// Reads the bound of the average, measured by the filter's estimator.
fn average(said: &Said<'_>) -> Result<Option<Average>, Diagnostic> {
    let Some(rate) = said.settings.rate("avrate").map(|at| at.value).filter(|rate| rate.0 > 0) else {
        return Ok(None);
    };
    match said.estimator {
        Some((interval_log, weight_log)) => Ok(Some(Average { rate, interval_log, weight_log })),
        None => {
            let message = "police avrate needs an estimator of its filter";
            let err = said.error(code::MISSING, said.at("avrate"), message);
            let err = err.expected("estimator INTERVAL AVERAGE before the kind of the filter");
            Err(err.linux(kernel::INVALID_TALKING))
        }
    }
}

/// Returns the words of the estimator that measures such an average.
pub(super) fn estimator_words(average: Average) -> String {
    let interval = Nanos(250_000_000 << average.interval_log);
    let time = Nanos(interval.0 << average.weight_log);
    format!(" estimator {} {}", text_of(&interval), text_of(&time))
}

/// Returns the control for a packet that exceeds the rate, and that for one that conforms.
fn controls(said: &Said<'_>) -> Result<(Control, Control), Diagnostic> {
    let (mut exceed, mut conform) = (Control::Reclassify, Control::Pass);
    for key in ["action", "conform-exceed"] {
        let Some([_, words @ ..]) = said.settings.words(key) else { continue };
        let Some(first) = words.first() else { continue };
        match first.text.split_once('/') {
            None => exceed = one(said, &first.text, words)?,
            Some((before, after)) => {
                exceed = one(said, before, &words[..1])?;
                conform = one(said, after, words)?;
            }
        }
    }
    Ok((exceed, conform))
}

/// The controls that have numbers in Linux's interface (`linux/pkt_cls.h`), as far as they exist
/// here.
const NUMBERED: [(i32, Control); 6] = [
    (-1, Control::Continue),
    (0, Control::Pass),
    (1, Control::Reclassify),
    (2, Control::Drop),
    (3, Control::Pipe),
    (8, Control::Trap),
];

/// Reads a control by its number, or its word, which may be cut short; a number that belongs to the
/// word is the last of the words.
fn one(said: &Said<'_>, text: &str, words: &[Word]) -> Result<Control, Diagnostic> {
    if let Ok(given) = text.parse::<i32>() {
        let control = NUMBERED.iter().find(|(number, _)| *number == given).map(|(_, control)| *control);
        return control.ok_or_else(|| {
            let at = words.first().unwrap_or(said.kind);
            let message = format!("police conform-exceed: there is no control {given}");
            said.error(code::UNSUPPORTED, at, message).expected("-1, 0, 1, 2, 3 or 8, or a word")
        });
    }
    let known = CONTROLS.iter().map(|(word, _)| *word).find(|word| word.starts_with(text));
    control_of(said, known.unwrap_or("pass"), words)
}

pub(super) fn show(police: &Police, shown: &Shown<'_>, out: &mut Out) {
    let config = police.config();
    let index = shown.entry.index;
    out.word("kind", "police", " police ");
    out.uint("index", index, &format!("{index:#x} "));
    let burst = bucket::shown_size(config.rate, bucket::ticks(config.rate, config.burst).into());
    let burst = if config.rate.0 == 0 { Bytes(0) } else { burst };
    let mtu = Bytes(police.mtu().into());
    out.text(&format!("rate {} burst {} mtu {} ", text_of(&config.rate), text_of(&burst), text_of(&mtu)));
    if let Some(peak) = config.peakrate.filter(|rate| *rate != Rate(0)) {
        out.text(&format!("peakrate {} ", text_of(&peak)));
    }
    if let Some(average) = config.average {
        out.text(&format!("avrate {} ", text_of(&average.rate)));
    }
    if let Some((rate, burst)) = config.packets {
        out.uint("pkts_rate", rate, &format!("pkts_rate {rate} "));
        out.uint("pkts_burst", burst, &format!("pkts_burst {burst} "));
    }
    show_control(shown.action.control, "control_action", "action ", out);
    if config.conform != Control::Pass {
        show_control(config.conform, "control_action", "/", out);
    }
    let overhead = config.sizing.overhead;
    out.uint("overhead", overhead, &format!(" overhead {overhead}b "));
    if config.sizing.layer == LinkLayer::Atm {
        out.word("linklayer", "atm", "linklayer atm ");
    }
    let (refs, binds) = (shown.entry.refs, shown.entry.binds);
    out.uint("ref", refs, &format!("\n\tref {refs}"));
    out.uint("bind", binds, &format!(" bind {binds} "));
    shown.times(out);
}

pub(super) fn words(police: &Police, control: &str) -> String {
    let config = police.config();
    let mut words = String::from("police");
    let exact = |rate: Rate| format!("{}bps", rate.0);
    if config.rate.0 > 0 {
        words.push_str(&format!(" rate {} burst {}b", exact(config.rate), config.burst.0));
    }
    if let Some((rate, burst)) = config.packets {
        words.push_str(&format!(" pkts_rate {rate} pkts_burst {burst}"));
    }
    if let Some(average) = config.average {
        words.push_str(&format!(" avrate {}", exact(average.rate)));
    }
    if let Some(mtu) = config.mtu {
        words.push_str(&format!(" mtu {mtu}b"));
    }
    if let Some(peak) = config.peakrate {
        words.push_str(&format!(" peakrate {}", exact(peak)));
    }
    let Sizing { overhead, mpu, layer } = config.sizing;
    for (key, value) in [("overhead", overhead), ("mpu", mpu)] {
        if value > 0 {
            words.push_str(&format!(" {key} {value}"));
        }
    }
    words.push_str(if layer == LinkLayer::Atm { " linklayer atm" } else { "" });
    let conform = match config.conform {
        Control::Pass => String::new(),
        other => format!("/{}", control_words(other)),
    };
    format!("{words} conform-exceed {control}{conform}")
}
