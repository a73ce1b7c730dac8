//! What the words after a kind may be, for everything that tc knows and the engine has no kind for (yet): qdiscs, classes,
//! filters and actions of Linux. Checking a policy needs them; running one needs the engine.

use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::lex::Word;
use crate::source::Source;

/// What a grammar is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The words after the kind of a qdisc.
    Qdisc,
    /// Those of a class.
    Class,
    /// Those of a filter.
    Filter,
    /// Those of an action.
    Action,
}

/// One key of a line and the words given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key, written out: the tc word.
    pub key: &'static str,
    /// The indexes of its words among those that were read, the key first.
    pub words: Range<usize>,
}

/// Whether tc has such a kind.
pub fn knows(_object: Object, _kind: &str) -> bool {
    false
}

/// Reads the words after a kind. An error is what tc would refuse to parse (exit status 1); a kind that is not known is
/// nobody's error here.
pub fn read(
    _object: Object,
    _kind: &str,
    _source: &Arc<Source>,
    _words: &[Word],
) -> Result<Vec<Setting>, Diagnostic> {
    Ok(Vec::new())
}
