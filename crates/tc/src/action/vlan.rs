//! vlan (tc-vlan(8)).

use txweir_core::classify::action::{Control, Vlan};

use super::{Shown, mac, mac_text, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::out::Out;
use crate::protocol;
use crate::said::Said;
use crate::sentence::Sentence;

const MODES: [&str; 5] = ["pop", "push", "modify", "pop_eth", "push_eth"];
/// Tags: 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Vlan, Control)>, Diagnostic> {
    let s = &said.settings;
    let mut modes = MODES.iter().filter(|mode| s.has(mode));
    let Some(mode) = modes.next() else { return Ok(None) };
    if let Some(other) = modes.next() {
        let message = format!("vlan does one thing: {mode} or {other}");
        let at = said.at(mode).span.start.max(said.at(other).span.start);
        let second = if said.at(other).span.start == at { other } else { mode };
        let err = said.error(code::CONFLICT, said.at(second), message);
        return Err(err.linux(format!("unexpected \"{second}\" - action already specified")));
    }
    let tag = matches!(*mode, "push" | "modify");
    for (key, goes) in [("id", tag), ("protocol", tag), ("priority", tag)] {
        if s.has(key) && !goes {
            let message = format!("vlan {key} goes with push and modify");
            let err = said.error(code::CONFLICT, said.at(key), message);
            return Err(err.linux(Sentence::Argument(key, "only valid for push/modify")));
        }
    }
    let address = |key: &str| match s.word(key).map(|word| (word, mac(&word.text))) {
        Some((_, Some(address))) => Ok(address),
        Some((word, None)) => {
            let message = format!("vlan {key}: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("six bytes: 02:00:00:00:00:01");
            Err(err.linux(format!("\"{}\" is invalid lladdr.", word.text)))
        }
        None => Err(missing(said, mode, key)),
    };
    let priority = s.word("priority").and_then(|w| u8::try_from(number(&w.text)?).ok());
    let vlan = match *mode {
        "pop" => Vlan::Pop,
        "pop_eth" => Vlan::PopEth,
        "push_eth" => Vlan::PushEth { dst: address("dst_mac")?, src: address("src_mac")? },
        "push" => {
            let (id, protocol) = (id(said, mode)?, tag_type(said)?);
            Vlan::Push { id, protocol, priority: priority.unwrap_or(0) }
        }
        _ => Vlan::Modify { id: id(said, mode)?, protocol: tag_type(said)?, priority },
    };
    Ok(Some((vlan, Control::Pipe)))
}

/// Returns the error for a key that a mode needs.
fn missing(said: &Said<'_>, mode: &str, key: &str) -> Diagnostic {
    let err = said.error(code::MISSING, said.at(mode), format!("vlan {mode} needs {key}"));
    err.linux(format!("{key} needs to be set for {mode}"))
}

fn id(said: &Said<'_>, mode: &str) -> Result<u16, Diagnostic> {
    let Some(word) = said.settings.word("id") else {
        return Err(missing(said, mode, "id"));
    };
    // 4095 is reserved (IEEE 802.1Q table 9-2).
    match number(&word.text).and_then(|id| u16::try_from(id).ok()).filter(|id| *id < 4095) {
        Some(id) => Ok(id),
        None => {
            let message = format!("vlan id: {} is out of range", word.text);
            let err = said.error(code::OUT_OF_RANGE, word, message).expected("0 to 4094");
            Err(err.linux(kernel::RANGE_TALKING))
        }
    }
}

fn tag_type(said: &Said<'_>) -> Result<u16, Diagnostic> {
    let Some(word) = said.settings.word("protocol") else { return Ok(TAGS[0]) };
    match protocol::number(&word.text).filter(|number| TAGS.contains(number)) {
        Some(number) => Ok(number),
        None => {
            let message = format!("vlan protocol: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("802.1Q or 802.1ad");
            Err(match protocol::number(&word.text) {
                Some(_) => err.linux("protocol not supported"),
                None => err.linux(Sentence::Argument(&word.text, "protocol is invalid")),
            })
        }
    }
}

pub(super) fn show(vlan: &Vlan, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "vlan", "vlan ");
    out.word("vlan_action", mode(vlan), &format!(" {}", mode(vlan)));
    match *vlan {
        Vlan::Pop | Vlan::PopEth => {}
        Vlan::Push { id, protocol, priority } => tag(id, protocol, Some(priority), out),
        Vlan::Modify { id, protocol, priority } => tag(id, protocol, priority, out),
        Vlan::PushEth { dst, src } => {
            for (key, address) in [("dst_mac", mac_text(&dst)), ("src_mac", mac_text(&src))] {
                out.word(key, &address, &format!(" {key} {address}"));
            }
        }
    }
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t ", out);
}

fn tag(id: u16, number: u16, priority: Option<u8>, out: &mut Out) {
    let name = protocol::name(number);
    out.uint("id", id, &format!(" id {id}"));
    out.word("protocol", &name, &format!(" protocol {name}"));
    if let Some(priority) = priority {
        out.uint("priority", priority, &format!(" priority {priority}"));
    }
}

const fn mode(vlan: &Vlan) -> &'static str {
    match vlan {
        Vlan::Pop => "pop",
        Vlan::Push { .. } => "push",
        Vlan::Modify { .. } => "modify",
        Vlan::PopEth => "pop_eth",
        Vlan::PushEth { .. } => "push_eth",
    }
}

pub(super) fn words(vlan: &Vlan) -> String {
    let mode = mode(vlan);
    match *vlan {
        Vlan::Pop | Vlan::PopEth => format!("vlan {mode}"),
        Vlan::Push { id, protocol, priority } => {
            format!("vlan {mode} id {id} protocol {} priority {priority}", protocol::name(protocol))
        }
        Vlan::Modify { id, protocol, priority } => {
            let priority = priority.map(|p| format!(" priority {p}")).unwrap_or_default();
            format!("vlan {mode} id {id} protocol {}{priority}", protocol::name(protocol))
        }
        Vlan::PushEth { dst, src } => {
            format!("vlan {mode} dst_mac {} src_mac {}", mac_text(&dst), mac_text(&src))
        }
    }
}
