//! Classes with a queue each: drr, qfq, hfsc and htb.

use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant, PathConfig, Role, TxPath};

use super::kinds::draw;
use super::path::{By, Run, Sink, bursts, bursts_by};

/// The classes of `drr_1k`.
const CLASSES: u16 = 1000;

/// Builds a path with a root of this kind and a class for each number; `class` returns the class
/// above it and its options.
pub(super) fn with_classes<'a>(
    kind: &str,
    pool: usize,
    count: u16,
    class: impl Fn(u16) -> (u16, &'a [&'a str]),
) -> TxPath<u64> {
    let config = PathConfig { pool, role: Role::Forwarder, ..PathConfig::default() };
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let made = made.and_then(|p| p.with_qdisc(kind, &[]).map_err(|e| e.to_string()));
    let mut path = made.unwrap_or_else(|e| unreachable!("a benchmark's own options are right: {e}"));
    let major = path.tree().root().handle().major();
    path.configure(Instant::ZERO, &mut Sink::default(), |tree, cx| {
        for minor in 1..=count {
            let (above, words) = class(minor);
            let (above, id) = (Handle::new(major, above), Handle::new(major, minor));
            if let Err(e) = tree.edit(cx).add_class(above, id, None, &mut Words::new(words)) {
                unreachable!("a benchmark's own classes are right: {e}");
            }
        }
    });
    path
}

pub(super) fn qfq_1k() -> Run {
    const WEIGHTS: [&[&str]; 4] = [&["weight", "1"], &["weight", "4"], &["weight", "20"], &["weight", "50"]];
    let path = with_classes("qfq", 8192, CLASSES, |minor| (0, WEIGHTS[usize::from(minor % 4)]));
    let root = path.tree().root().handle();
    let packets = draw(1 << 16, |r| (root.0 + 1 + r.below(CLASSES.into()) as u32, 0));
    bursts(path, 4 * u64::from(CLASSES), packets)
}

pub(super) fn drr_1k() -> Run {
    let path = with_classes("drr", 8192, CLASSES, |_| (0, &[]));
    let root = path.tree().root().handle();
    let classes = draw(1 << 16, |r| (root.0 + 1 + r.below(CLASSES.into()) as u32, 0));
    bursts(path, 4 * u64::from(CLASSES), classes)
}

/// Runs leaves whose deadlines are far, so that they share.
pub(super) fn hfsc_1k() -> Run {
    const LEAVES: u16 = 1000;
    const ABOVE: &[&str] = &["ls", "m2", "8gbit"];
    const LEAF: &[&str] = &["rt", "m2", "8kbit", "ls", "m2", "8mbit"];
    let path = with_classes("hfsc", 1 << 14, LEAVES + 1, |minor| match minor {
        1 => (0, ABOVE),
        _ => (1, LEAF),
    });
    let root = path.tree().root().handle();
    let packets = draw(1 << 16, |r| (root.0 + 2 + r.below(LEAVES.into()) as u32, 0));
    bursts(path, 4 * u64::from(LEAVES), packets)
}

/// Runs leaves that have used up their own rates, below one class that has not.
pub(super) fn htb(leaves: u16, by: By) -> Run {
    const ABOVE: &[&str] = &["rate", "1tbit", "burst", "1gb", "cburst", "1gb"];
    const LEAF: &[&str] =
        &["rate", "8kbit", "ceil", "1tbit", "burst", "100", "cburst", "1gb", "quantum", "1514"];
    let pool = (8 * usize::from(leaves)).max(1 << 17);
    let path = with_classes("htb", pool, leaves + 1, |minor| match minor {
        1 => (0, ABOVE),
        _ => (1, LEAF),
    });
    let root = path.tree().root().handle();
    let packets = draw(1 << 16, |r| (root.0 + 2 + r.below(leaves.into()) as u32, 0));
    bursts_by(by, path, 4 * u64::from(leaves), packets, |m| m)
}
