//! Warnings: `qdisc` lines that are accepted, and probably mistakes.

use std::sync::Arc;

use txweir_core::text::value::Quantity;

use crate::ast::{At, QdiscCommand, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::kinds::spec_of;
use crate::source::Source;
use crate::suggest::is_number;

/// Warns of a rate estimator, which would only add a line to the output of `-s`.
fn estimator(source: &Arc<Source>, cmd: &QdiscCommand) -> Option<Diagnostic> {
    let said = cmd.estimator.as_ref()?;
    let message = "no rates are estimated here: this changes nothing";
    let warning = Diagnostic::error(code::UNSUPPORTED, source, said.span.clone(), message).warning();
    Some(warning.hint(Some("leave it out, and divide the counts of -s by the time between".into())))
}

/// Warns of words that are taken as in Linux, and change nothing.
pub(crate) fn without_effect(source: &Arc<Source>, cmd: &QdiscCommand) -> Vec<Diagnostic> {
    estimator(source, cmd).into_iter().chain(multiqueue(source, cmd)).collect()
}

/// Warns of prio's `multiqueue`, which had an effect before Linux 2.6.27.
pub fn multiqueue(source: &Arc<Source>, cmd: &QdiscCommand) -> Option<Diagnostic> {
    cmd.kind.as_ref().filter(|kind| kind.text == "prio")?;
    let word = cmd.options.iter().find(|word| word.text == "multiqueue")?;
    let message = "multiqueue changes nothing";
    let warning = Diagnostic::error(code::UNSUPPORTED, source, word.span.clone(), message).warning();
    Some(warning.hint(Some("leave it out; multiq has a band for each queue of the device".into())))
}

/// Warns of rates without a unit: tc reads `rate 10` as ten bits per second.
pub(crate) fn bare_rates(source: &Arc<Source>, cmd: &QdiscCommand) -> Vec<Diagnostic> {
    let Some(spec) = cmd.kind.as_ref().and_then(|kind| spec_of(source, kind)) else { return Vec::new() };
    let is_rate =
        |key: &str| spec.params.iter().any(|p| p.quantity == Quantity::Rate && p.words.contains(&key));
    let pairs = cmd.options.windows(2).filter(|pair| is_rate(&pair[0].text) && is_number(&pair[1].text));
    pairs
        .map(|pair| {
            let (key, given) = (&pair[0].text, &pair[1].text);
            let message = format!("{} {key} {given} means {given} bit/s", spec.kind);
            let hint = format!("write {given}bit if it is meant, or {given}kbit, {given}mbit");
            Diagnostic::error(code::BARE_RATE, source, pair[1].span.clone(), message)
                .hint(Some(hint))
                .warning()
        })
        .collect()
}

/// Warns of words that tc accepts without a message and ignores.
pub(crate) fn ignored_words(source: &Arc<Source>, cmd: &QdiscCommand) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(At { value, span }) = cmd.handle.as_ref().filter(|h| h.value.minor() != 0) {
        let message = format!("a qdisc's handle has no minor number: {value} is read as {}", value.qdisc());
        let err = Diagnostic::error(code::BAD_VALUE, source, span.clone(), message).warning();
        found.push(err.suggest(Some(value.qdisc().to_string())));
    }
    if let (Verb::Delete, [first, .., last] | [first @ last]) = (cmd.verb, cmd.options.as_slice()) {
        let span = first.span.start..last.span.end;
        let message = "del takes no notice of options";
        found.push(Diagnostic::error(code::UNEXPECTED_WORD, source, span, message).warning());
    }
    found
}
