//! Kinds whose options are one C struct of plain numbers.

use super::{Words, pair, record};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Writer, u32_of};

/// `struct tc_fifo_qopt` of pfifo, `struct tc_skbprio_qopt`: a number of packets.
pub(super) fn read_packets(options: &[u8]) -> Words {
    Ok(pair("limit", record(options, 4, "pfifo")?.u32(0)).into())
}
/// `struct tc_fifo_qopt` of bfifo: a number of bytes.
pub(super) fn read_bytes(options: &[u8]) -> Words {
    Ok(pair("limit", format!("{}b", record(options, 4, "bfifo")?.u32(0))).into())
}
pub(super) fn write_limit(given: &Given, w: &mut Writer) {
    w.put_all(&[given.u32("limit")]);
}

/// `struct tc_multiq_qopt`: the kernel chooses the numbers.
pub(super) fn read_multiq(options: &[u8]) -> Words {
    record(options, 4, "multiq").map(|_| Vec::new())
}
pub(super) fn write_multiq(given: &Given, w: &mut Writer) {
    let bands = u16::try_from(given.classes).unwrap_or(u16::MAX);
    w.put(&bands.to_ne_bytes());
    w.put(&bands.to_ne_bytes());
}

/// `struct tc_plug_qopt`: an operation, or a new limit.
pub(super) fn read_plug(options: &[u8]) -> Words {
    let r = record(options, 8, "plug")?;
    Ok(match r.u32(0) {
        0 => vec!["block".into()],
        1 => vec!["release".into()],
        2 => vec!["release_indefinite".into()],
        3 => pair("limit", format!("{}b", r.u32(4))).into(),
        n => return Err(Refusal::invalid(format!("plug: expected an action of 0 to 3, given {n}"))),
    })
}
/// Writes nothing: they are not listed.
pub(super) fn write_plug(_given: &Given, _w: &mut Writer) {}

/// `struct tc_cbs_qopt`.
pub(super) fn read_cbs(options: &[u8]) -> Words {
    let attributes = crate::wire::Attributes::read(options, "cbs")?;
    attributes.only(&[1])?;
    let Some(r) = attributes.record(1, 20)? else {
        return Err(Refusal::invalid("cbs: attribute 1, its parameters, is missing"));
    };
    let mut words = Vec::new();
    for (key, at) in [("hicredit", 4), ("locredit", 8), ("idleslope", 12), ("sendslope", 16)] {
        words.extend(pair(key, r.i32(at)));
    }
    words.extend(pair("offload", r.u8(0)));
    Ok(words)
}
pub(super) fn write_cbs(given: &Given, w: &mut Writer) {
    w.nest(1, |w| {
        w.put(&[u8::from(given.number("offload") != 0), 0, 0, 0]);
        for key in ["hicredit", "locredit", "idleslope", "sendslope"] {
            w.put(&given.i32(key).to_ne_bytes());
        }
    });
}

/// The clock of launch times, `CLOCK_TAI` (clock_gettime(2)).
const CLOCK_TAI: i32 = 11;
/// Flags of etf, each with its word.
const ETF_FLAGS: [(u32, &str); 3] = [(1, "deadline_mode"), (2, "offload"), (4, "skip_sock_check")];

/// `struct tc_etf_qopt`.
pub(super) fn read_etf(options: &[u8]) -> Words {
    let attributes = crate::wire::Attributes::read(options, "etf")?;
    attributes.only(&[1])?;
    let Some(r) = attributes.record(1, 12)? else {
        return Err(Refusal::invalid("etf: attribute 1, its parameters, is missing"));
    };
    let clock = r.i32(4);
    if clock != CLOCK_TAI {
        return Err(Refusal::invalid("Invalid clockid. CLOCK_TAI must be used"));
    }
    let mut words = Vec::from(pair("clockid", "CLOCK_TAI"));
    words.extend(pair("delta", r.i32(0)));
    words
        .extend(ETF_FLAGS.iter().filter(|(bit, _)| r.u32(8) & bit != 0).map(|(_, word)| (*word).to_string()));
    Ok(words)
}
pub(super) fn write_etf(given: &Given, w: &mut Writer) {
    let flags = ETF_FLAGS.iter().filter(|(_, word)| given.on(word)).fold(0, |all, (bit, _)| all | bit);
    w.nest(1, |w| {
        w.put(&given.i32("delta").to_ne_bytes());
        w.put(&CLOCK_TAI.to_ne_bytes());
        w.put_all(&[flags]);
    });
}

/// Returns a number of bytes as a word.
pub(super) fn bytes(n: u64) -> String {
    format!("{}b", u32_of(n))
}

/// Attribute of sfb: `struct tc_sfb_qopt`.
const SFB_PARMS: u16 = 1;
/// Probability one of sfb.
const SFB_ONE: f64 = 65535.0;

/// `struct tc_sfb_qopt`.
pub(super) fn read_sfb(options: &[u8]) -> Words {
    let attributes = crate::wire::Attributes::read(options, "sfb")?;
    attributes.only(&[SFB_PARMS])?;
    let Some(r) = attributes.record(SFB_PARMS, 36)? else {
        return Err(Refusal::invalid("sfb: attribute 1, its parameters, is missing"));
    };
    let mut words = Vec::new();
    for (key, at) in [("rehash", 0), ("db", 4), ("limit", 24), ("max", 8), ("target", 12)] {
        words.extend(pair(key, r.u32(at)));
    }
    for (key, at) in [("increment", 16), ("decrement", 20)] {
        words.extend(pair(key, format!("{:.9}", f64::from(r.u32(at).min(65535)) / SFB_ONE)));
    }
    for (key, at) in [("penalty_rate", 28), ("penalty_burst", 32)] {
        words.extend(pair(key, r.u32(at)));
    }
    Ok(words)
}
pub(super) fn write_sfb(given: &Given, w: &mut Writer) {
    let whole = |key: &str| given.exact(key).parse().unwrap_or(0);
    // Rounded to a unit, at most `SFB_ONE`.
    let part = |key: &str| (given.exact(key).parse().unwrap_or(0.0f64) * SFB_ONE).round() as u32;
    w.nest(SFB_PARMS, |w| {
        w.put_all(&[whole("rehash"), whole("db"), given.u32("max"), given.u32("target")]);
        w.put_all(&[part("increment"), part("decrement"), given.u32("limit")]);
        w.put_all(&[given.u32("penalty_rate"), given.u32("penalty_burst")]);
    });
}
