//! skbedit (tc-skbedit(8)).

use txweir_core::Handle;
use txweir_core::classify::action::skbedit::PacketType;
use txweir_core::classify::action::{Control, Skbedit};

use super::{Shown, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;

const TYPES: [(&str, PacketType); 4] = [
    ("host", PacketType::Host),
    ("broadcast", PacketType::Broadcast),
    ("multicast", PacketType::Multicast),
    ("otherhost", PacketType::OtherHost),
];

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Skbedit, Control)>, Diagnostic> {
    let s = &said.settings;
    if !["queue_mapping", "priority", "mark", "ptype", "inheritdsfield"].iter().any(|key| s.has(key)) {
        return Ok(None);
    }
    let queue =
        |at: usize| s.list("queue_mapping").get(at).and_then(|w| u16::try_from(number(&w.text)?).ok());
    let (queue_mapping, queue_mapping_max) = match s.word("queue_mapping") {
        Some(word) if word.text == "skbhash" => (queue(1), queue(2)),
        _ => (queue(0), None),
    };
    if let (Some(first), Some(last)) = (queue_mapping, queue_mapping_max)
        && last < first
    {
        let message = format!("queue_mapping skbhash: the last queue, {last}, is before the first, {first}");
        let err = said.error(code::OUT_OF_RANGE, said.at("queue_mapping"), message);
        return Err(err.linux("Illegal queue_mapping"));
    }
    let mark = s.word("mark").map(|word| match word.text.split_once('/') {
        Some((value, mask)) => (number(value).unwrap_or(0), number(mask).unwrap_or(0)),
        None => (number(&word.text).unwrap_or(0), u32::MAX),
    });
    let ptype = s.word("ptype").and_then(|w| TYPES.iter().find(|(name, _)| name.starts_with(&w.text)));
    let skbedit = Skbedit {
        priority: s.handle("priority").map(|class| class.value.0),
        inherit_dsfield: s.has("inheritdsfield"),
        queue_mapping,
        queue_mapping_max,
        mark,
        packet_type: ptype.map(|(_, ptype)| *ptype),
    };
    Ok(Some((skbedit, Control::Pipe)))
}

pub(super) fn show(edit: &Skbedit, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "skbedit", "skbedit ");
    if let Some(first) = edit.queue_mapping {
        out.uint("queue_mapping", first, &format!("queue_mapping {first}"));
    }
    if let Some(last) = edit.queue_mapping_max {
        out.uint("queue_mapping_max", last, &format!(" {last}"));
    }
    if let Some(priority) = edit.priority {
        let class = Handle(priority).to_string();
        out.word("priority", &class, &format!(" priority {class}"));
    }
    if let Some((mark, mask)) = edit.mark {
        out.uint("mark", mark, &format!(" mark {mark}"));
        if mask != u32::MAX {
            let text = if mask == 0 { "/0".to_string() } else { format!("/{mask:#x}") };
            out.word("mask", &format!("{mask:x}"), &text);
        }
    }
    if let Some((name, _)) = TYPES.iter().find(|(_, ptype)| edit.packet_type == Some(*ptype)) {
        out.word("ptype", name, &format!(" ptype {name}"));
    }
    if edit.inherit_dsfield {
        out.raw("inheritdsfield", "null", " inheritdsfield");
    }
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t ", out);
}

pub(super) fn words(edit: &Skbedit) -> String {
    let mut words = String::from("skbedit");
    match (edit.queue_mapping, edit.queue_mapping_max) {
        (Some(first), Some(last)) => words.push_str(&format!(" queue_mapping skbhash {first} {last}")),
        (Some(first), None) => words.push_str(&format!(" queue_mapping {first}")),
        (None, _) => {}
    }
    if let Some(priority) = edit.priority {
        words.push_str(&format!(" priority {}", Handle(priority)));
    }
    match edit.mark {
        Some((mark, u32::MAX)) => words.push_str(&format!(" mark {mark}")),
        Some((mark, mask)) => words.push_str(&format!(" mark {mark}/{mask:#x}")),
        None => {}
    }
    if let Some((name, _)) = TYPES.iter().find(|(_, ptype)| edit.packet_type == Some(*ptype)) {
        words.push_str(&format!(" ptype {name}"));
    }
    words.push_str(if edit.inherit_dsfield { " inheritdsfield" } else { "" });
    words
}

/// True if Linux would offer it to hardware: it changes one value, as a whole.
pub(super) fn offloads(edit: &Skbedit) -> bool {
    let whole_mark = matches!(edit.mark, Some((_, u32::MAX)));
    let changes =
        [edit.priority.is_some(), edit.mark.is_some(), edit.packet_type.is_some(), edit.inherit_dsfield];
    let one = changes.iter().filter(|changed| **changed).count() == 1;
    one && edit.queue_mapping.is_none() && !edit.inherit_dsfield && (edit.mark.is_none() || whole_mark)
}
