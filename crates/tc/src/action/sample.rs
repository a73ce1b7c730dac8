//! sample (tc-sample(8)).

use txweir_core::classify::action::{Control, Sample};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Sample, Control)>, Diagnostic> {
    let (rate, group) = match (said.u32("rate"), said.u32("group")) {
        (None, None) => return Ok(None),
        (Some(rate), Some(group)) => (rate, group),
        (rate, _) => {
            let missing = if rate.is_none() { "rate" } else { "group" };
            let err = said.error(code::MISSING, said.kind, "action sample needs rate and group");
            return Err(err.linux(format!("param \"{missing}\" not set")));
        }
    };
    match Sample::new(rate, group, said.u32("trunc")) {
        Ok(sample) => Ok(Some((sample, Control::Pipe))),
        Err(err) => {
            let err = said.error(code::OUT_OF_RANGE, said.at("rate"), err.to_string());
            Err(err.linux(kernel::NO_SAMPLE_RATE))
        }
    }
}

pub(super) fn show(sample: &Sample, shown: &Shown<'_>, out: &mut Out) {
    let (rate, group) = (sample.rate(), sample.group());
    out.word("kind", "sample", "sample ");
    out.uint("rate", rate, &format!("rate 1/{rate}"));
    out.uint("group", group, &format!(" group {group}"));
    if let Some(trunc) = sample.trunc() {
        out.uint("trunc_size", trunc, &format!(" trunc_size {trunc}"));
    }
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t ", out);
}

pub(super) fn words(sample: &Sample) -> String {
    let trunc = sample.trunc().map(|n| format!(" trunc {n}")).unwrap_or_default();
    format!("sample rate {} group {}{trunc}", sample.rate(), sample.group())
}
