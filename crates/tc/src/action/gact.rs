//! gact (tc-actions(8), "generic actions").

use txweir_core::classify::action::gact::Chance;
use txweir_core::classify::action::{Control, Gact};

use super::{Shown, control_of, control_words, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Gact, Control)>, Diagnostic> {
    if said.settings.iter().next().is_none() {
        return Ok(None);
    }
    let Some(words) = said.settings.words("random") else {
        return Ok(Some((Gact::default(), Control::Pass)));
    };
    // `random TYPE CONTROL N`: the walker has checked that all are present.
    let (how, control, one_in) = match words {
        [_, how, control @ .., one_in] if !control.is_empty() => (how, control, one_in),
        _ => {
            return Err(said.error(
                code::MISSING,
                said.at("random"),
                "random needs a type, a control and a number",
            ));
        }
    };
    let word = super::CONTROLS.iter().map(|(word, _)| *word).find(|word| word.starts_with(&control[0].text));
    let other = control_of(said, word.unwrap_or("pass"), control)?;
    if let Control::Goto(_) = other {
        let err = said.error(code::UNSUPPORTED, &control[0], "goto cannot be the random control");
        return Err(err.expected("another control"));
    }
    let n = number(&one_in.text).and_then(|n| u16::try_from(n).ok()).unwrap_or(0);
    // Linux treats 0 like 1.
    let n = n.max(1);
    let chance = if how.text == "determ" { Chance::Every(n) } else { Chance::Random(n) };
    Ok(Some((Gact { instead: Some((chance, other)) }, Control::Pass)))
}

pub(super) fn show(gact: &Gact, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "gact", "gact ");
    show_control(shown.action.control, "control_action", "action ", out);
    let (how, control, n) = match gact.instead {
        None => ("none", Control::Pass, 0),
        Some((Chance::Random(n), control)) => ("netrand", control, n),
        Some((Chance::Every(n), control)) => ("determ", control, n),
    };
    out.open("prob");
    out.word("random_type", how, &format!("\n\t random type {how}"));
    show_control(control, "control_action", " ", out);
    out.uint("val", n, &format!(" val {n}"));
    out.close();
    shown.numbers("\n\t ", out);
}

/// Returns `control` and, if there is one, the random alternative.
pub(super) fn words(gact: &Gact, control: &str) -> String {
    let instead = match gact.instead {
        None => return format!("gact {control}"),
        Some((Chance::Random(n), other)) => format!("netrand {} {n}", control_words(other)),
        Some((Chance::Every(n), other)) => format!("determ {} {n}", control_words(other)),
    };
    format!("gact {control} random {instead}")
}

pub(super) const fn offloads(control: Control) -> bool {
    matches!(control, Control::Pass | Control::Drop | Control::Trap | Control::Goto(_))
}
