//! The kinds of qdiscs as words: their list, the words that stand before one, and the error for an
//! unknown word.

use std::sync::Arc;

use txweir_core::sched::spec::Spec;

use crate::diagnostic::{Diagnostic, code};
use crate::language::{self, Object};
use crate::lex::Word;
use crate::source::Source;
use crate::suggest;

/// Words before the kind.
pub(crate) const BEFORE_KIND: [&str; 4] = ["dev", "root", "parent", "handle"];

/// Kinds that Linux had until version 6.2, and those that do their work.
const REMOVED: [(&str, &str); 3] = [
    ("cbq", "htb shares a rate between classes"),
    ("dsmark", "an action of pedit or a filter of flower takes the DS field"),
    ("atm", "stab charges packets as ATM cells"),
];

/// Kinds whose work is not that of a qdisc, each with what it needs.
const ELSEWHERE: [(&str, &str); 1] = [(
    "teql0",
    "it only feeds the kernel's device teql0, which sends by several devices in turn to the neighbours \
     behind them; txweir has neither: mq takes turns over the queues of one device",
)];

/// Returns the entry of a kind that the engine has.
pub(crate) fn spec_of(source: &Source, kind: &Word) -> Option<&'static Spec> {
    source.kinds.get(&kind.text)
}

/// Returns the names of all kinds, for "expected".
pub(crate) fn known_kinds(source: &Source) -> String {
    source.kinds.one_of()
}

/// Returns the error for a word in the place of a kind: it is unknown, or a kind of Linux that the
/// engine does not have.
pub(crate) fn unknown_kind(source: &Arc<Source>, kind: &Word) -> Diagnostic {
    if language::knows(Object::Qdisc, &kind.text) {
        let message = format!("txweir has no qdisc {}: Linux has it", kind.text);
        let err = Diagnostic::error(code::NOT_IN_ENGINE, source, kind.span.clone(), message);
        let why = ELSEWHERE.iter().find(|(name, _)| *name == kind.text).map(|(_, why)| (*why).to_string());
        return err.expected(known_kinds(source)).hint(why);
    }
    let candidates = source.kinds.iter().map(|s| s.kind).chain(BEFORE_KIND);
    let near = suggest::closest(&kind.text, candidates).map(String::from);
    let message = format!("there is no qdisc kind \"{}\"", kind.text);
    let err = Diagnostic::error(code::UNKNOWN_KIND, source, kind.span.clone(), message);
    let removed = REMOVED.iter().find(|(name, _)| *name == kind.text);
    err.expected(known_kinds(source))
        .suggest(near.filter(|_| removed.is_none()))
        .hint(removed.map(|(name, instead)| format!("Linux 6.3 removed {name}: {instead}")))
}
