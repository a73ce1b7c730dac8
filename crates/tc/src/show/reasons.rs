//! The reasons of drops and marks in the JSON of a qdisc, which Linux does not print.

use std::collections::BTreeMap;

use txweir_core::{DropReason, Reasons};

use crate::json::Object;

/// Adds the reasons behind Linux's members, and only reasons with a count: txweir's own, and those
/// of drops once more by Linux's names.
pub(super) fn members(o: Object, reasons: &Reasons) -> Object {
    let o = counts(o, "drop_reasons", reasons.each_drop().map(|(reason, n)| (reason.name(), n)));
    let o = counts(o, "mark_reasons", reasons.each_mark().map(|(reason, n)| (reason.name(), n)));
    let mut by_linux = BTreeMap::new();
    for (reason, n) in reasons.each_drop() {
        *by_linux.entry(linux_name(reason)).or_insert(0) += n;
    }
    counts(o, "linux_drop_reasons", by_linux.into_iter())
}

/// Returns the name of the reason of Linux 7 (`QDISC_DROP_...`, as its tracepoints print it) with
/// this meaning; `GENERIC` where Linux has none. Kinds of Linux may tell less or more
/// (docs/qdisc/README.md).
const fn linux_name(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overlimit | DropReason::FlowOverlimit | DropReason::Overmemory => "OVERLIMIT",
        DropReason::Congested | DropReason::Matched => "CONGESTED",
        DropReason::FlowLimit => "FLOW_LIMIT",
        DropReason::Horizon => "HORIZON_LIMIT",
        _ => "GENERIC",
    }
}

/// Adds an object of counts, if there are any.
fn counts(o: Object, key: &str, all: impl Iterator<Item = (&'static str, u64)>) -> Object {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return o;
    }
    o.raw(key, &all.fold(Object::new(), |inner, (name, n)| inner.uint(name, n)).finish())
}
