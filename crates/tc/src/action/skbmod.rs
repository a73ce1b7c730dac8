//! skbmod (tc-skbmod(8)). Differs from Linux (PARITY.md: broken-json).

use txweir_core::classify::action::{Control, Skbmod};

use super::{Shown, mac, mac_text, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::language::{NO_OPTION, skbmod_lines};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::INCOMPLETE;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Skbmod, Control)>, Diagnostic> {
    let s = &said.settings;
    if !["set", "swap", "ecn", "dmac", "smac", "etype"].iter().any(|key| s.has(key)) {
        return Ok(None);
    }
    let address = |key: &str, called: &str| match s.word(key).map(|word| (word, mac(&word.text))) {
        Some((word, None)) => {
            let message = format!("skbmod {key}: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("six bytes: 02:00:00:00:00:01");
            let at = s.all_words().iter().position(|one| one.span == word.span).unwrap_or(0);
            let printed = skbmod_lines(s.all_words().get(..at).unwrap_or(&[]));
            Err(err.linux(format!("{printed}Invalid {called} address {}", word.text)))
        }
        other => Ok(other.and_then(|(_, address)| address)),
    };
    let set = Skbmod {
        dmac: address("dmac", "dst mac")?,
        smac: address("smac", "smac")?,
        etype: s.number("etype").and_then(|n| u16::try_from(n.value).ok()),
        ..Skbmod::default()
    };
    // As in Linux, only the last of these is done.
    let skbmod = match (s.has("ecn"), s.has("swap")) {
        (true, _) => Skbmod { ecn: true, ..Skbmod::default() },
        (false, true) => Skbmod { swap: true, ..Skbmod::default() },
        (false, false) => set,
    };
    if skbmod == Skbmod::default() {
        let err = said.error(code::MISSING, said.at("set"), "skbmod sets nothing");
        let line = if s.all_words().len() == 1 { INCOMPLETE } else { NO_OPTION };
        return Err(err.expected("dmac, smac or etype").linux(line));
    }
    Ok(Some((skbmod, Control::Pipe)))
}

pub(super) fn show(skbmod: &Skbmod, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "skbmod", "skbmod ");
    show_control(shown.action.control, "control_action", "", out);
    out.text(" ");
    if skbmod.swap {
        out.word("swap", "mac", "swap mac ");
    }
    if skbmod.ecn {
        out.flag("ecn", "ecn ");
    }
    if let Some(etype) = skbmod.etype {
        out.word("etype", &format!("{etype:#x}"), &format!("set etype 0x{etype:X} "));
        out.text("\n\t ");
    }
    for (key, address) in [("dmac", skbmod.dmac), ("smac", skbmod.smac)] {
        if let Some(address) = address {
            let address = mac_text(&address);
            out.word(key, &address, &format!("set {key} {address} "));
        }
    }
    shown.numbers("\n\t ", out);
}

pub(super) fn words(skbmod: &Skbmod) -> String {
    let mut words = String::from("skbmod");
    if skbmod.dmac.is_some() || skbmod.smac.is_some() || skbmod.etype.is_some() {
        words.push_str(" set");
    }
    for (key, address) in [("dmac", skbmod.dmac), ("smac", skbmod.smac)] {
        words.push_str(&address.map(|a| format!(" {key} {}", mac_text(&a))).unwrap_or_default());
    }
    words.push_str(&skbmod.etype.map(|etype| format!(" etype {etype:#x}")).unwrap_or_default());
    words.push_str(if skbmod.swap { " swap mac" } else { "" });
    words.push_str(if skbmod.ecn { " ecn" } else { "" });
    words
}
