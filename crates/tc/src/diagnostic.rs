//! `Diagnostic`: one mistake in a text, with everything that a message, an editor or a program
//! needs to report it.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use txweir_core::text::error::Reason;

use crate::json::{self, Object};
use crate::printable::{clean, one_column, with_short_words};
use crate::sentence::INCOMPLETE;
use crate::source::Source;

/// The stable names of mistakes. Those of a tree's refusals are named after
/// [`ErrorKind`](txweir_core::ErrorKind).
pub mod code {
    /// A quote without its partner.
    pub const UNCLOSED_QUOTE: &str = "unclosed-quote";
    /// Not an object of tc, or one without commands here.
    pub const UNKNOWN_OBJECT: &str = "unknown-object";
    /// Not a verb of the object.
    pub const UNKNOWN_VERB: &str = "unknown-verb";
    /// A word after the end of the line's grammar.
    pub const UNEXPECTED_WORD: &str = "unexpected-word";
    /// No qdisc kind of that name.
    pub const UNKNOWN_KIND: &str = "unknown-kind";
    /// The kind has no such parameter.
    pub const UNKNOWN_KEY: &str = "unknown-key";
    /// Not a value of the type expected.
    pub const BAD_VALUE: &str = "bad-value";
    /// A number and its unit with a blank between them.
    pub const SPLIT_VALUE: &str = "split-value";
    /// A value outside its range.
    pub const OUT_OF_RANGE: &str = "out-of-range";
    /// A required word is missing.
    pub const MISSING: &str = "missing";
    /// Two words contradict each other.
    pub const CONFLICT: &str = "conflict";
    /// No object of that name exists.
    pub const NOT_FOUND: &str = "not-found";
    /// The place or the name is taken.
    pub const EXISTS: &str = "exists";
    /// The object cannot do this.
    pub const UNSUPPORTED: &str = "unsupported";
    /// A rate without a unit: accepted as bits per second, and probably a mistake.
    pub const BARE_RATE: &str = "bare-rate";
    /// Linux has it, and the engine does not.
    pub const NOT_IN_ENGINE: &str = "not-in-engine";
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No mistake: a fact that the reader should know.
    Note,
    /// Accepted, but probably a mistake.
    Warning,
    /// Refused.
    Error,
}

impl Severity {
    /// Returns `note`, `warning` or `error`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One mistake, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Its stable name: one of [`code`], or of those that a program adds with rules of its own.
    pub code: &'static str,
    /// The text it is about.
    pub source: Arc<Source>,
    /// The offending bytes of the text.
    pub span: Range<usize>,
    /// The mistake, in one line.
    pub message: String,
    /// The expected value; empty if the message names it.
    pub expected: String,
    /// The given value; empty if there was none.
    pub given: String,
    /// Advice that is not a replacement.
    pub hint: Option<String>,
    /// The replacement for the span.
    pub suggestion: Option<String>,
    /// Linux's own lines for the same refusal, those of the kernel or of tc itself, which `tc`
    /// prints first; without the last newline.
    pub linux: Option<Cow<'static, str>>,
    /// The engine's reason, where its refusal has one beside the code.
    pub reason: Option<Reason>,
}

impl Diagnostic {
    /// Returns an error about a span; `given` is the text of the span.
    pub fn error(
        code: &'static str,
        source: &Arc<Source>,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Self {
        let given = source.text.get(span.clone()).unwrap_or("").to_string();
        Self {
            severity: Severity::Error,
            code,
            source: Arc::clone(source),
            span,
            message: message.into(),
            expected: String::new(),
            given,
            hint: None,
            suggestion: None,
            linux: None,
            reason: None,
        }
    }
    /// Sets the expected value.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }
    /// Sets the advice, if there is any.
    #[must_use]
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
    /// Sets the replacement for the span, if there is one.
    #[must_use]
    pub fn suggest(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
    /// Sets Linux's own lines for the same refusal.
    #[must_use]
    pub(crate) fn linux(mut self, lines: impl Into<Cow<'static, str>>) -> Self {
        self.linux = Some(lines.into());
        self
    }
    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Makes it a note, which does not count as a mistake.
    #[must_use]
    pub fn note(mut self) -> Self {
        self.severity = Severity::Note;
        self
    }

    /// Returns the line it begins in, from 1.
    pub fn line(&self) -> usize {
        self.source.locate(self.span.start).0
    }
    /// Returns the column it begins at, from 1, in characters.
    pub fn column(&self) -> usize {
        self.source.locate(self.span.start).1
    }

    /// True if the line that it is about is short enough to be shown whole.
    pub fn shows_whole_line(&self) -> bool {
        self.source.line_at(self.span.start).len() <= LINE_MAX
    }

    /// True if tc refuses the line because it ends too early, whatever its part.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.linux.as_deref().and_then(|lines| lines.lines().last()) == Some(INCOMPLETE)
    }

    /// Returns Linux's own lines as they are printed, each with its end; nothing where there are
    /// none. No character commands a terminal, and long words are shortened.
    pub(crate) fn linux_lines(&self) -> String {
        let lines = self.linux.as_ref().map(|lines| format!("{lines}\n")).unwrap_or_default();
        clean(&with_short_words(&lines)).into_owned()
    }

    /// Returns the advice to print: the replacement if there is one, else the hint.
    pub fn advice(&self) -> Option<String> {
        match (&self.suggestion, &self.hint) {
            (Some(s), None) => Some(format!("did you mean \"{s}\"?")),
            (Some(s), Some(hint)) => Some(format!("{hint}: \"{s}\"")),
            (None, hint) => hint.clone(),
        }
    }

    /// Returns it in one line: `policy.tc:3:25: fq_codel has no parameter "limt" (did you mean
    /// "limit"?)`. No character commands a terminal, and long words are shortened.
    pub fn brief(&self) -> String {
        let (line, column) = self.source.locate(self.span.start);
        let mut s = format!("{}:{line}:{column}: {}", self.source.name, self.message);
        if let Some(advice) = self.advice() {
            s.push_str(&format!(" ({advice})"));
        } else if !self.expected.is_empty() {
            s.push_str(&format!(" (expected {})", self.expected));
        }
        clean(&with_short_words(&s)).into_owned()
    }

    /// Returns a JSON object: `severity, code, source, line, column, span, message`, then
    /// `expected`, `given`, `hint` and `suggestion` where there are any.
    pub fn json(&self) -> String {
        let (line, column) = self.source.locate(self.span.start);
        let mut o = Object::new()
            .text("severity", self.severity.name())
            .text("code", self.code)
            .text("source", &self.source.name)
            .uint("line", line as u64)
            .uint("column", column as u64)
            .raw("span", &json::list([self.span.start.to_string(), self.span.end.to_string()]))
            .text("message", &self.message);
        let optional = [("expected", Some(&self.expected)), ("given", Some(&self.given))];
        let optional = optional.map(|(key, value)| (key, value.filter(|v| !v.is_empty())));
        for (key, value) in optional
            .into_iter()
            .chain([("hint", self.hint.as_ref()), ("suggestion", self.suggestion.as_ref())])
        {
            if let Some(value) = value {
                o = o.text(key, value);
            }
        }
        o.finish()
    }
}

/// Longest part of a line that is shown, in characters, and the number of them before the span
/// where the line is longer.
const LINE_MAX: usize = 500;
const BEFORE_SPAN: usize = 100;

impl fmt::Display for Diagnostic {
    /// Writes the message, the line with a caret under the span, the expected value and the advice,
    /// in plain text. Of a line of more than 500 characters only the part about the span is
    /// written, and long words of the message are shortened; no character commands a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.span.start;
        let (line, column) = self.source.locate(start);
        let whole = self.source.line_at(start);
        // A line has no more characters than bytes.
        let (from, part) = match whole.len() > LINE_MAX {
            true => ((column - 1).saturating_sub(BEFORE_SPAN), self.source.line_around(start, BEFORE_SPAN)),
            false => (0, whole),
        };
        let mut rest = part.chars().map(one_column);
        let shown: String = rest.by_ref().take(LINE_MAX).collect();
        let (front, back) = (dots(from > 0), dots(rest.next().is_some()));
        let indent = front.len() + column - 1 - from;
        let spanned = self.source.text.get(self.span.clone()).unwrap_or("");
        let spanned = spanned.lines().next().unwrap_or("");
        let carets = spanned.chars().take(LINE_MAX - BEFORE_SPAN).count().max(1);
        let margin = " ".repeat(line.to_string().len());
        let said = |text: &str| clean(&with_short_words(text)).into_owned();
        let name = said(&self.source.name);
        writeln!(f, "{}[{}]: {}", self.severity.name(), self.code, said(&self.message))?;
        writeln!(f, "{margin}--> {name}:{line}:{column}")?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{line} | {front}{shown}{back}")?;
        write!(f, "{margin} | {}{}", " ".repeat(indent), "^".repeat(carets))?;
        if !self.expected.is_empty() {
            write!(f, " expected {}", said(&self.expected))?;
        }
        match self.advice() {
            Some(advice) => write!(f, "\n{margin} = help: {}", said(&advice)),
            None => Ok(()),
        }
    }
}

/// Returns the sign for the part of a line that is left out.
const fn dots(left_out: bool) -> &'static str {
    if left_out { "[..]" } else { "" }
}

impl std::error::Error for Diagnostic {}

/// At least one diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    first: Box<Diagnostic>,
    rest: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Returns all of `found`, or `None` if there is none.
    pub(crate) fn of(found: impl IntoIterator<Item = Diagnostic>) -> Option<Self> {
        let mut found = found.into_iter();
        Some(Self { first: Box::new(found.next()?), rest: found.collect() })
    }
    /// Returns the first one.
    pub fn first(&self) -> &Diagnostic {
        &self.first
    }
    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        std::iter::once(&*self.first).chain(&self.rest)
    }
    /// Returns a JSON list.
    pub fn json(&self) -> String {
        json::list(self.iter().map(Diagnostic::json))
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Self {
        Self { first: Box::new(d), rest: Vec::new() }
    }
}

impl fmt::Display for Diagnostics {
    /// Writes one after the other, with a blank line between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{d}")?;
        }
        f.write_char('\n')
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Diagnostic {
        let source = Arc::new(Source::new("p.tc", "\nqdisc\tadd root fq_codel limt 100\n"));
        Diagnostic::error(code::UNKNOWN_KEY, &source, 25..29, "fq_codel has no parameter \"limt\"")
            .expected("one of limit, flows")
            .suggest(Some("limit".into()))
    }

    #[test]
    fn plain_text_points_at_the_word() {
        assert_eq!(
            sample().to_string(),
            "error[unknown-key]: fq_codel has no parameter \"limt\"\n \
             --> p.tc:2:25\n  \
               |\n\
             2 | qdisc add root fq_codel limt 100\n  \
               |                         ^^^^ expected one of limit, flows\n  \
               = help: did you mean \"limit\"?"
        );
        assert_eq!(
            sample().brief(),
            "p.tc:2:25: fq_codel has no parameter \"limt\" (did you mean \"limit\"?)"
        );
    }

    #[test]
    fn json_has_every_member_in_order() {
        assert_eq!(
            sample().json(),
            concat!(
                r#"{"severity":"error","code":"unknown-key","source":"p.tc","line":2,"column":25,"span":[25,29],"#,
                r#""message":"fq_codel has no parameter \"limt\"","expected":"one of limit, flows","given":"limt","#,
                r#""suggestion":"limit"}"#
            )
        );
    }

    #[test]
    fn a_span_past_the_end_still_prints() {
        let source = Arc::new(Source::new("p", "ab"));
        let d = Diagnostic::error(code::MISSING, &source, 7..9, "more is needed");
        assert_eq!(d.to_string(), "error[missing]: more is needed\n --> p:1:3\n  |\n1 | ab\n  |   ^");
    }
}
