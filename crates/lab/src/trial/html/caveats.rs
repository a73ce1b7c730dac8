//! The caveats, which a reader sees before the numbers.

use serde_json::Value;

use super::{array, escaped, is_scenario, text, whole};
use crate::fidelity::{Fidelity, Range};
use crate::trial::measure::MARKED_FROM;

/// Returns the caveats, the one of the transport first.
pub(super) fn list(report: &Value) -> String {
    let policies = array(report, "policies");
    let mut all = Vec::from([transport(report)]);
    let said = |text: String| format!("<p class=\"caveat\">{text}</p>");
    if !policies.is_empty() {
        all.push(said(
            "<b>A model:</b> virtual time, no hardware, no other traffic than the one named here. It shows which \
             policy serves whom; it is no forecast of the numbers of a line."
                .into(),
        ));
    }
    let runs = whole(&report["interval"]["runs"]).unwrap_or(0);
    if policies.len() > 1 && runs > 0 && runs < u64::from(MARKED_FROM) {
        let of = if runs == 1 { "one run".into() } else { format!("{runs} runs") };
        all.push(said(format!(
            "<b>Few runs:</b> {of} of each policy; {MARKED_FROM} at least tell policies apart, so nothing is marked."
        )));
    }
    if is_scenario(report) {
        let seed = whole(&report["seed"]).unwrap_or(0);
        all.push(said(format!("<b>One run:</b> seed {seed}; another seed gives other numbers.")));
    }
    if !array(report, "lines").is_empty() {
        all.push(said(
            "<b>Real line:</b> measured by flent elsewhere, with other hosts, another path and other traffic; only the \
             time in which its TCP sent is shown. Its pings stand beside requests over TCP."
                .into(),
        ));
    }
    format!("<div class=\"caveats\" role=\"note\">{}</div>", all.concat())
}

/// Returns the name of the hosts' TCP, and its known closeness to Linux's here.
fn transport(report: &Value) -> String {
    let tcp = match text(report, "tcp") {
        "" => return String::new(),
        some => escaped(some),
    };
    // A copy, because reading consumes it; it is small.
    let fidelity = serde_json::from_value::<Fidelity>(report["fidelity"].clone()).ok();
    let (class, said) = match &fidelity {
        None => ("", String::new()),
        Some(f) => (
            if f.range == Range::Inside { "" } else { " warn" },
            format!(" Held against Linux’s TCP: {}.", escaped(&f.to_string())),
        ),
    };
    format!("<p class=\"transport{class}\"><b>TCP:</b> {tcp}.{said}</p>")
}
