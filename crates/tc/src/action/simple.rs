//! simple (tc-simple(8)). Differs from Linux (PARITY.md: broken-json).

use txweir_core::classify::action::simple::TEXT_MAX;
use txweir_core::classify::action::{Control, Simple};

use super::Shown;
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Simple, Control)>, Diagnostic> {
    let Some(word) = said.settings.word("sdata") else { return Ok(None) };
    match Simple::new(word.text.clone()) {
        Ok(simple) => Ok(Some((simple, Control::Pipe))),
        Err(_) => {
            let message = format!("simple sdata: a line of {} bytes is too long", word.text.len());
            let err = said.error(code::OUT_OF_RANGE, word, message);
            let line = format!("simple: Illegal string len {} <{}>", word.text.len(), word.text);
            Err(err.expected(format!("at most {TEXT_MAX} bytes")).linux(line))
        }
    }
}

pub(super) fn show(simple: &Simple, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "simple", "Simple ");
    out.word("sdata", simple.text(), &format!("<{}>", simple.text()));
    shown.numbers("\n\t ", out);
}

pub(super) fn words(simple: &Simple) -> String {
    let text = simple.text().replace('\\', "\\\\").replace('"', "\\\"");
    format!("simple sdata \"{text}\"")
}
