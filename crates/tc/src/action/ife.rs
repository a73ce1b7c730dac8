//! ife (tc-ife(8)).

use txweir_core::classify::action::ife::{ETHERTYPE, PARTS, Part, Use};
use txweir_core::classify::action::{Control, Ife};

use super::{Shown, mac, mac_text, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::language::{IFE_NO_WAY, Settings, ife_line};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::{INCOMPLETE, Sentence};

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Ife, Control)>, Diagnostic> {
    let s = &said.settings;
    let address = |key: &str| match s.word(key).map(|word| (word, mac(&word.text))) {
        Some((word, None)) => {
            let message = format!("ife {key}: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("six bytes: 02:00:00:00:00:01");
            Err(err.linux(Sentence::Argument(&word.text, "Invalid mac address")))
        }
        // As in Linux, zeros leave the packet's address.
        other => Ok(other.and_then(|(_, address)| address).filter(|address| *address != [0; 6])),
    };
    let (dst, src) = (address("dst")?, address("src")?);
    // The last of the two words decides.
    let encode = s.iter().filter(|(set, _)| matches!(set.key, "encode" | "decode")).last();
    let Some(encode) = encode.map(|(set, _)| set.key == "encode") else {
        if s.has("index") && !["allow", "use", "dst", "src", "type"].iter().any(|key| s.has(key)) {
            return Ok(None);
        }
        let err = said.error(code::MISSING, said.kind, "ife needs encode or decode");
        let line = match s.all_words() {
            [] => INCOMPLETE.to_string(),
            words => format!("{}{IFE_NO_WAY}", ife_line(words).unwrap_or_default()),
        };
        return Err(err.expected("encode or decode").linux(line));
    };
    if !encode {
        return Ok(Some((Ife::default(), Control::Pipe)));
    }
    let ethertype = s.word("type").and_then(|word| u16::try_from(number(&word.text)?).ok());
    let parts = PARTS.map(|part| used(part, s));
    Ok(Some((Ife { encode, ethertype: ethertype.unwrap_or(ETHERTYPE), dst, src, parts }, Control::Pipe)))
}

/// Returns the value of a part; `use` comes before `allow`, and a value of 0 is none.
fn used(part: Part, settings: &Settings) -> Option<Use> {
    let said = |key: &str| {
        let of_part =
            move |words: &&[_]| words.get(1).is_some_and(|w: &crate::lex::Word| w.text == part.name());
        settings.iter().filter(move |(set, _)| set.key == key).map(|(_, words)| words).filter(of_part).last()
    };
    match said("use") {
        Some(words) => words.get(2).and_then(|w| number(&w.text)).filter(|n| *n != 0).map(Use::Value),
        None => said("allow").map(|_| Use::Allow),
    }
}

pub(super) fn show(ife: &Ife, shown: &Shown<'_>, out: &mut Out) {
    let mode = if ife.encode { "encode" } else { "decode" };
    out.word("kind", "ife", "ife");
    out.word("mode", mode, &format!(" {mode}"));
    show_control(shown.action.control, "control_action", " action ", out);
    let number = match ife.ethertype {
        0 => "0".to_string(),
        number => format!("{number:#x}"),
    };
    out.word("type", &number, &format!(" type {} \n\t", number.to_uppercase()));
    // tc has another order than the frame, and lists all parts of decode.
    for part in [Part::Mark, Part::TcIndex, Part::Prio] {
        let key = part.name();
        match (ife.encode, ife.parts[part as usize]) {
            (false, _) | (true, Some(Use::Allow)) => out.word(key, "allow", &format!("allow {key} ")),
            (true, Some(Use::Value(value))) => out.uint(key, value, &format!("use {key} {value} ")),
            (true, None) => {}
        }
    }
    for (key, address) in [("dst", ife.dst), ("src", ife.src)] {
        if let Some(address) = address {
            let address = mac_text(&address);
            out.word(key, &address, &format!("{key} {address} "));
        }
    }
    shown.numbers("\n\t ", out);
}

pub(super) fn words(ife: &Ife) -> String {
    if !ife.encode {
        return "ife decode".into();
    }
    let mut words = "ife encode".to_string();
    for (part, way) in PARTS.into_iter().zip(ife.parts) {
        words.push_str(&match way {
            Some(Use::Allow) => format!(" allow {}", part.name()),
            Some(Use::Value(value)) => format!(" use {} {value}", part.name()),
            None => continue,
        });
    }
    for (key, address) in [("dst", ife.dst), ("src", ife.src)] {
        words.extend(address.map(|address| format!(" {key} {}", mac_text(&address))));
    }
    if ife.ethertype != ETHERTYPE {
        words.push_str(&format!(" type {:#x}", ife.ethertype));
    }
    words
}
