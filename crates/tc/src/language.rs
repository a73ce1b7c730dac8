//! Grammars of the words after a kind, for every kind that tc knows and the engine does not have:
//! qdiscs, classes, filters and actions of Linux. Checking a policy needs them; running one needs
//! the engine.
//!
//! Each kind is a static table of keys; one walker reads words by any of them. Where a page of
//! tc(8) leaves the form of a word open, any word is accepted, even if the kernel may refuse it.

mod action_refusals;
mod actions;
mod ematch;
mod engine;
mod filters;
pub(crate) mod match_sentence;
mod qdiscs;
mod settings;
mod table;
mod u32_match;
mod value;
mod walk;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use action_refusals::{BAD_PEDIT, IFE_NO_WAY, NO_OPTION, NO_RATE, ife_line};
pub(crate) use actions::skbmod_lines;
pub(crate) use ematch::{Token, match_tokens};
pub(crate) use filters::range_lines;
pub use settings::{Action, Settings};
pub use table::Setting;
pub(crate) use value::{hex, int, ipv4_masked, one, uint};

use crate::diagnostic::Diagnostic;
use crate::lex::Word;
use crate::source::Source;
use table::Grammar;
use walk::{Walk, called};

/// The object of a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The words after the kind of a qdisc.
    Qdisc,
    /// The words after the kind of a class.
    Class,
    /// The words after the kind of a filter.
    Filter,
    /// The words after the kind of an action.
    Action,
}

fn grammars(object: Object) -> impl Iterator<Item = &'static Grammar> {
    let table: &[Grammar] = match object {
        Object::Qdisc => qdiscs::TABLE,
        Object::Class => &[],
        Object::Filter => filters::TABLE,
        Object::Action => actions::TABLE,
    };
    table.iter()
}

/// Returns the kinds of an object that tc has and the engine does not; for filters and actions all
/// that tc has.
pub fn kinds(object: Object) -> impl Iterator<Item = &'static str> {
    grammars(object).flat_map(|g| g.kinds.iter().copied())
}

/// Returns the keys that may follow one of [`kinds`], each by the first of its words.
pub fn keys(object: Object, kind: &str) -> impl Iterator<Item = &'static str> {
    let grammar = grammars(object).find(|grammar| grammar.kinds.contains(&kind));
    grammar.into_iter().flat_map(|grammar| grammar.keys.iter().map(table::Key::name))
}

/// True if it is one of [`kinds`].
pub fn knows(object: Object, kind: &str) -> bool {
    kinds(object).any(|k| k == kind)
}

/// Reads the words after a kind. An error is a line that tc would not parse (exit status 1); an
/// unknown kind is no error here.
pub fn read(
    object: Object,
    kind: &str,
    source: &Arc<Source>,
    words: &[Word],
) -> Result<Vec<Setting>, Diagnostic> {
    walk(object, kind, source, words).map(|(settings, _)| settings)
}

/// The kinds and the words of the actions of a list, by their indexes.
type Listed = Vec<(usize, Range<usize>)>;

/// Reads like `read`, and returns the actions among the words too.
fn walk(
    object: Object,
    kind: &str,
    source: &Arc<Source>,
    words: &[Word],
) -> Result<(Vec<Setting>, Listed), Diagnostic> {
    let Some(grammar) = grammars(object).find(|g| g.kinds.contains(&kind)) else {
        return Ok((engine::settings(object, kind, source, words).unwrap_or_default(), Vec::new()));
    };
    let mut walk = Walk::new(source, called(object, kind), words);
    if object == Object::Action {
        actions::single(&mut walk, kind)?;
        return Ok((walk.settings, walk.actions));
    }
    walk.keys(grammar, false)?;
    match object {
        Object::Filter => filters::finish(&walk, kind)?,
        Object::Qdisc | Object::Class | Object::Action => {}
    }
    Ok((walk.settings, walk.actions))
}

/// Reads a list of actions, as it follows `tc actions add`: `action KIND ... [action KIND ...]`.
fn walk_actions(source: &Arc<Source>, words: &[Word]) -> Result<Listed, Diagnostic> {
    let mut walk = Walk::new(source, "actions".into(), words);
    walk.eat(&["action", "actions"]);
    actions::list(&mut walk)?;
    match walk.peek() {
        None => Ok(walk.actions),
        Some(_) => Err(walk.unknown(&actions::COMMON)),
    }
}
