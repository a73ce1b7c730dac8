//! The kinds of qdiscs as words: which there are, which words stand before one, and what is said of a word that is none.

use std::sync::Arc;

use txweir_core::sched::spec::Spec;

use crate::diagnostic::{Diagnostic, code};
use crate::language::{self, Object};
use crate::lex::Word;
use crate::source::Source;
use crate::suggest;

/// Words before the kind.
pub(crate) const BEFORE_KIND: [&str; 4] = ["dev", "root", "parent", "handle"];

/// The entry of a kind that the engine has.
pub(crate) fn spec_of(source: &Source, kind: &Word) -> Option<&'static Spec> {
    source.kinds.get(&kind.text)
}

/// Every kind, for "expected".
pub(crate) fn known_kinds(source: &Source) -> String {
    source.kinds.one_of()
}

/// A word that stands where a kind must, and is none; or one of Linux's that is not here, which is no misspelling.
pub(crate) fn unknown_kind(source: &Arc<Source>, kind: &Word) -> Diagnostic {
    if language::knows(Object::Qdisc, &kind.text) {
        let message = format!("txweir has no qdisc {}: Linux has it", kind.text);
        let err = Diagnostic::error(code::NOT_IN_ENGINE, source, kind.span.clone(), message);
        return err.expected(known_kinds(source));
    }
    let candidates = source.kinds.iter().map(|s| s.kind).chain(BEFORE_KIND);
    let near = suggest::closest(&kind.text, candidates).map(String::from);
    let message = format!("there is no qdisc kind \"{}\"", kind.text);
    Diagnostic::error(code::UNKNOWN_KIND, source, kind.span.clone(), message)
        .expected(known_kinds(source))
        .suggest(near)
}
