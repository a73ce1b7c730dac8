//! fw (tc-fw(8)): the handle is the mark, and may have a mask behind a slash.

use std::borrow::Cow;

use txweir_core::classify::filter::Fw;
use txweir_core::classify::packet::PortId;

use super::Shown;
use crate::action::{self, Ways};
use crate::diagnostic::Diagnostic;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::Sentence;

/// Returns the mark of a handle: `5`, `5/0xff`.
pub(super) fn handle(word: &str) -> Option<u32> {
    let (mark, mask) = word.split_once('/').unwrap_or((word, "0"));
    action::number(mask).and_then(|_| action::number(mark))
}

/// Returns tc's sentence for a word that is no handle.
pub(super) fn illegal_handle(word: &str) -> Cow<'static, str> {
    let mark = word.split_once('/').map_or(word, |(mark, _)| mark);
    match action::number(mark) {
        None => Sentence::Illegal("handle").into(),
        Some(_) => format!("{} mask", Sentence::Illegal("handle")).into(),
    }
}

/// Returns the handle that makes it again.
pub(super) fn handle_text(rule: &Fw, handle: u32) -> String {
    match rule.mask {
        u32::MAX => format!("{handle:#x}"),
        mask => format!("{handle:#x}/{mask:#x}"),
    }
}

pub(super) fn read(said: &Said<'_>, ports: &mut dyn FnMut(&str) -> Option<PortId>) -> Result<Fw, Diagnostic> {
    let mask = said.handle.and_then(|word| word.text.split_once('/'));
    let mask = mask.and_then(|(_, mask)| action::number(mask)).unwrap_or(u32::MAX);
    Ok(Fw { mask, indev: super::indev(said, ports)? })
}

pub(super) fn show(rule: &Fw, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    let handle = shown.handle;
    out.word("handle", &format!("{handle:#x}"), &format!("handle {handle:#x}"));
    if rule.mask != u32::MAX {
        out.word("mask", &format!("{:#x}", rule.mask), &format!("/{:#x}", rule.mask));
    }
    out.text(" ");
    shown.class("classid", ways, out);
    if let Some(device) = &rule.indev {
        out.word("input_dev", &device.name, &format!("input dev {} ", device.name));
    }
    if !shown.goal.actions.is_empty() {
        out.text("\n");
    }
}

pub(super) fn words(rule: &Fw) -> String {
    rule.indev.as_ref().map_or_else(String::new, |device| format!(" indev {}", device.name))
}
