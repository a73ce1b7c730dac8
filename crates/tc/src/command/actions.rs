//! `actions` lines.

use super::{Part, options};
use crate::ast::{ActionsCommand, Verb};
use crate::diagnostic::code;
use crate::failure::Failure;
use crate::language::{self, Object};
use crate::lex::Word;
use crate::sentence::Sentence;

pub(super) fn read(part: &Part<'_>) -> Result<ActionsCommand, Failure> {
    let cmd = ActionsCommand { verb: part.verb, options: part.words.to_vec(), span: part.span.clone() };
    match part.verb {
        Verb::Add | Verb::Replace | Verb::Change => {
            let mut specs = part.words.split(is_action).peekable();
            // Before the first "action" there is no word, or an action whose word was left out.
            if specs.peek().is_some_and(|first| first.is_empty()) {
                specs.next();
            }
            let mut some = false;
            for spec in specs {
                some = true;
                check(part, spec)?;
            }
            if !some {
                return Err(missing(part).linux(Sentence::Illegal("action")));
            }
        }
        // `actions` alone prints nothing.
        Verb::Show if part.words.is_empty() && part.verb_span == part.span => {}
        _ => {
            let words = part.words.iter().filter(|w| !is_action(w)).count();
            let named = part.words.first().is_some_and(is_action);
            if words == 0 || matches!(part.verb, Verb::Show | Verb::Flush) && !named {
                return Err(match part.verb {
                    Verb::Show | Verb::Flush => missing(part).linux(USAGE_LINE),
                    _ => missing(part),
                });
            }
        }
    }
    Ok(cmd)
}

fn is_action(word: &Word) -> bool {
    matches!(word.text.as_str(), "action" | "actions")
}

fn missing(part: &Part<'_>) -> Failure {
    let err = part.error(code::MISSING, &part.verb_span, "this does not say which action");
    Failure::usage(err.expected("action KIND ..."))
}

/// The first line of tc's usage, which it prints for a listing of no kind.
const USAGE_LINE: &str = "usage: tc actions <ACTSPECOP>*";

fn check(part: &Part<'_>, spec: &[Word]) -> Result<(), Failure> {
    let [kind, words @ ..] = spec else { return Err(missing(part).linux(Sentence::Incomplete)) };
    let (name, words) = match language::knows(Object::Action, &kind.text) {
        true => (kind.text.as_str(), words),
        false => {
            let message = format!("there is no action \"{}\"", kind.text);
            let err = part.error(code::UNKNOWN_KIND, &kind.span, message);
            return Err(Failure::usage(err.linux(format!("Bad action type {}", kind.text))));
        }
    };
    // `actions` has one exit status for every mistake.
    options::check_foreign(part.source, Object::Action, name, words)
        .map_err(|failure| Failure::usage(failure.diagnostic))
}
