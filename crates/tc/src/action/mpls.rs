//! mpls (tc-mpls(8)).

use txweir_core::classify::action::mpls::{IMPLICIT_NULL, Label, TTL};
use txweir_core::classify::action::{Control, Mpls};
use txweir_core::packet::headers::ethertype;

use super::{Shown, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::out::Out;
use crate::protocol;
use crate::said::Said;
use crate::sentence::Sentence;

const MODES: [&str; 5] = ["pop", "push", "mac_push", "modify", "dec_ttl"];
/// The smallest number that is an ethertype, and not a length (IEEE 802.3).
const ETHERTYPE_MIN: u16 = 0x600;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Mpls, Control)>, Diagnostic> {
    let s = &said.settings;
    let Some(mode) = MODES.iter().find(|mode| s.has(mode)) else { return Ok(None) };
    let byte = |key: &str| s.word(key).and_then(|w| u8::try_from(number(&w.text)?).ok());
    let label = Label {
        label: said.u32("label"),
        tc: byte("tc"),
        ttl: byte("ttl"),
        bos: byte("bos").map(|bit| bit == 1),
    };
    if label.label == Some(IMPLICIT_NULL) {
        let message = format!("mpls label: no packet carries the label {IMPLICIT_NULL} (RFC 3032)");
        let err = said.error(code::OUT_OF_RANGE, said.at("label"), message);
        return Err(err.expected("another label").linux(kernel::MPLS_LABEL));
    }
    let pushed = Label { ttl: Some(label.ttl.unwrap_or(TTL)), ..label };
    let mpls = match *mode {
        "pop" => Mpls::Pop { protocol: behind(said)? },
        "push" => Mpls::Push { label: pushed, protocol: unit(said, mode)? },
        "mac_push" => Mpls::MacPush { label: pushed, protocol: unit(said, mode)? },
        "modify" => Mpls::Modify(label),
        _ => Mpls::DecTtl,
    };
    Ok(Some((mpls, Control::Pipe)))
}

/// Reads the type of the packet behind the label.
fn behind(said: &Said<'_>) -> Result<u16, Diagnostic> {
    let Some(word) = said.settings.word("protocol") else { return Err(missing(said, "pop", "protocol")) };
    match type_of(said)? {
        Some(number) if number >= ETHERTYPE_MIN => Ok(number),
        _ => {
            let message = format!("mpls protocol: \"{}\" is no ethertype", word.text);
            Err(said.error(code::OUT_OF_RANGE, word, message).linux(kernel::MPLS_PROTOCOL))
        }
    }
}

/// Reads the type of a packet with a label, for a mode that pushes one.
fn unit(said: &Said<'_>, mode: &str) -> Result<u16, Diagnostic> {
    if !said.settings.has("label") {
        let err = missing(said, mode, "label");
        return Err(if mode == "push" { err } else { err.linux(kernel::MPLS_NO_LABEL) });
    }
    match type_of(said)? {
        None => Ok(ethertype::MPLS),
        Some(number @ (ethertype::MPLS | ethertype::MPLS_MULTICAST)) => Ok(number),
        Some(number) => {
            let word = said.at("protocol");
            let message = format!("mpls protocol: {number:#06x} is not that of a label");
            let err = said.error(code::BAD_VALUE, word, message).expected("mpls_uc or mpls_mc");
            Err(err.linux(format!("invalid {mode} protocol \"{number:#06x}\" - use mpls_(uc|mc)")))
        }
    }
}

fn type_of(said: &Said<'_>) -> Result<Option<u16>, Diagnostic> {
    let Some(word) = said.settings.word("protocol") else { return Ok(None) };
    match protocol::number(&word.text) {
        Some(number) => Ok(Some(number)),
        None => {
            let message = format!("mpls protocol: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("a protocol (ip, mpls_uc)");
            Err(err.linux(Sentence::Argument(&word.text, "protocol is invalid")))
        }
    }
}

/// Returns the error for a key that a mode needs.
fn missing(said: &Said<'_>, mode: &str, key: &str) -> Diagnostic {
    let err = said.error(code::MISSING, said.at(mode), format!("mpls {mode} needs {key}"));
    err.linux(Sentence::Required(key))
}

pub(super) fn show(mpls: &Mpls, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "mpls", "mpls ");
    out.word("mpls_action", mode(mpls), &format!(" {}", mode(mpls)));
    let (protocol, label) = parts(mpls);
    if let Some(protocol) = protocol {
        let name = protocol::name(protocol);
        out.word("protocol", &name, &format!(" protocol {name}"));
    }
    for (key, value) in label {
        out.uint(key, value, &format!(" {key} {value}"));
    }
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t ", out);
}

const fn mode(mpls: &Mpls) -> &'static str {
    match mpls {
        Mpls::Pop { .. } => "pop",
        Mpls::Push { .. } => "push",
        Mpls::MacPush { .. } => "mac_push",
        Mpls::Modify(_) => "modify",
        Mpls::DecTtl => "dec_ttl",
    }
}

/// Returns the protocol, and the parts of the label with their keys, in the order of tc.
fn parts(mpls: &Mpls) -> (Option<u16>, impl Iterator<Item = (&'static str, u32)>) {
    let (protocol, label) = match *mpls {
        Mpls::Pop { protocol } => (Some(protocol), Label::default()),
        Mpls::Push { label, protocol } | Mpls::MacPush { label, protocol } => (Some(protocol), label),
        Mpls::Modify(label) => (None, label),
        Mpls::DecTtl => (None, Label::default()),
    };
    let parts = [
        ("label", label.label),
        ("tc", label.tc.map(u32::from)),
        ("bos", label.bos.map(u32::from)),
        ("ttl", label.ttl.map(u32::from)),
    ];
    (protocol, parts.into_iter().filter_map(|(key, value)| Some((key, value?))))
}

/// True if Linux would offer it to hardware.
pub(super) const fn offloads(mpls: &Mpls) -> bool {
    matches!(mpls, Mpls::Pop { .. } | Mpls::Push { .. } | Mpls::Modify(_))
}

pub(super) fn words(mpls: &Mpls) -> String {
    let (protocol, label) = parts(mpls);
    let protocol = protocol.map(|number| format!(" protocol {}", protocol_word(number)));
    let label: String = label.map(|(key, value)| format!(" {key} {value}")).collect();
    format!("mpls {}{}{label}", mode(mpls), protocol.unwrap_or_default())
}

/// Returns a protocol as a line names it.
fn protocol_word(number: u16) -> String {
    let name = protocol::name(number);
    if name.starts_with('[') { format!("{number:#x}") } else { name }
}
