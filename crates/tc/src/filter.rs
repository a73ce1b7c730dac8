//! Filters as words and as printed text: a line's words become the arguments of core, and core's
//! filters become the output of `tc filter show` and the words that make them again. A file for
//! each kind, with three functions:
//!
//! - `read`: the words of a line, already checked, to the parameters of the kind;
//! - `show`: the text and the JSON between the chain and the actions;
//! - `words`: the words that make the filter again, between the kind and the actions.

mod basic;
mod bpf;
mod ematch;
mod flow;
pub(crate) mod flower;
mod fw;
mod matchall;
mod tcpctl;
mod u32;

use std::borrow::Cow;

use txweir_core::Handle;
use txweir_core::classify::action::{ACTIONS_MAX, Wanted};
use txweir_core::classify::filter::u32::{Device, U32};
use txweir_core::classify::filter::{Bound, Goal, Rule};
use txweir_core::classify::packet::PortId;

use crate::action::{self, In, Ways};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::kernel;
use crate::language::{self, Object};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::Sentence;

/// The place of a filter, as far as its words depend on it.
pub(crate) struct Where {
    /// Ethertype that it is asked about; 0 if the line names none.
    pub(crate) protocol: u16,
    /// The qdisc that asks.
    pub(crate) qdisc: Handle,
}

/// Returns the status of a mistake: tc finds wrong words, the kernel finds impossible ones, and
/// their statuses differ.
pub(crate) fn failed(err: Diagnostic) -> Failure {
    match err.code {
        code::BAD_VALUE => Failure::unparsable(err),
        _ => Failure::refused(err),
    }
}

/// Reads the words of a filter. `ports` returns the number of a device.
pub(crate) fn read(
    said: &Said<'_>,
    at: &Where,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Rule, Failure> {
    if said.settings.has("skip_sw") {
        let err = said.error(code::UNSUPPORTED, said.at("skip_sw"), "there is no hardware to do it");
        let err = err.hint(Some("leave skip_sw out".into()));
        return Err(Failure::refused(err.linux(kernel::UNSUPPORTED_TALKING)));
    }
    match said.kind.text.as_str() {
        "basic" => basic::read(said).map(Rule::Basic),
        "bpf" => bpf::read(said).map(Rule::Bpf).map_err(failed),
        "flow" => flow::read(said, at).map(Rule::Flow),
        "flower" => flower::read(said, at, ports).map(Rule::Flower),
        "fw" => fw::read(said, ports).map(Rule::Fw).map_err(failed),
        "matchall" => matchall::read(said).map(Rule::Matchall).map_err(Failure::refused),
        "tcpctl" => tcpctl::read(said).map(Rule::Tcpctl).map_err(Failure::refused),
        "u32" => u32::read(said, ports).map(Rule::U32).map_err(failed),
        kind => {
            let message = match WITHOUT.iter().find(|(name, _)| *name == kind) {
                Some((_, why)) => format!("there is no {kind} filter in the engine: {why}"),
                None => format!("there is no {kind} filter in the engine"),
            };
            let known = txweir_core::classify::filter::KINDS.join(", ");
            let err = said.error(code::UNSUPPORTED, said.kind, message).expected(format!("one of {known}"));
            Err(Failure::refused(match language::knows(Object::Filter, kind) {
                true => err,
                false => err.linux(kernel::NO_CLASSIFIER),
            }))
        }
    }
}

/// Filters of Linux that the engine does not have, and the reasons.
const WITHOUT: [(&str, &str); 2] = [
    ("cgroup", "no process here has sent the packet, whose group would be its class; fw matches its mark"),
    ("route", "no table of routes here has given the packet a realm; flower and u32 match its addresses"),
];

/// Reads the fields that the filters of a chain may look at. Its other words have no effect there.
pub(crate) fn template(
    said: &Said<'_>,
    at: &Where,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Rule, Failure> {
    match said.kind.text.as_str() {
        "flower" => flower::template(said, at, ports).map(Rule::Flower),
        kind => {
            let message = format!("a chain cannot have a template for its filters if they are {kind}");
            let err = said.error(code::UNSUPPORTED, said.kind, message);
            let err = err.expected("flower, or no kind");
            Err(Failure::refused(err.linux(match language::knows(Object::Filter, kind) {
                true => kernel::NO_TEMPLATE,
                false => kernel::NO_CLASSIFIER,
            })))
        }
    }
}

/// Returns the device that `indev` names.
fn indev(
    said: &Said<'_>,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Option<Device>, Diagnostic> {
    let Some(word) = said.settings.word("indev") else { return Ok(None) };
    match ports(&word.text) {
        Some(port) => Ok(Some(Device { port, name: word.text.clone() })),
        None => {
            let err = said.error(code::NOT_FOUND, word, format!("there is no device {}", word.text));
            Err(err.linux(kernel::NO_INDEV))
        }
    }
}

/// Reads the goal of a filter: `classid`, and its actions. `ports` returns the number of a device.
pub(crate) fn goal(
    said: &Said<'_>,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Goal, Diagnostic> {
    let class = said.settings.handle("classid").map_or(Handle::NONE, |class| class.value);
    let class = flower::hw_class(said).unwrap_or(class);
    let listed = said.settings.actions();
    if let Some(beyond) = listed.get(ACTIONS_MAX) {
        let message = format!("a filter has at most {ACTIONS_MAX} actions");
        return Err(said.error(code::OUT_OF_RANGE, beyond.kind, message));
    }
    let read = |one| {
        let mut wanted = action::read(said.source, one, said.estimator, ports)?;
        // The filter's flags for hardware are those of its new actions.
        if let Wanted::New(_, action) = &mut wanted {
            action.skip_hw |= said.settings.has("skip_hw");
        }
        Ok(wanted)
    };
    let actions: Result<Vec<Wanted>, Diagnostic> = listed.iter().map(read).collect();
    Ok(Goal { class, actions: actions? })
}

/// Reads the handle of a filter as its kind writes it: a number by default.
pub(crate) fn handle(kind: &str, word: &str) -> Option<u32> {
    match kind {
        "fw" => fw::handle(word),
        "u32" => u32::handle(word),
        _ => action::number(word),
    }
}

/// Returns tc's sentence for a word that is no handle of a kind; `None` where it takes any word.
pub(crate) fn illegal_handle(kind: &str, word: &str) -> Option<Cow<'static, str>> {
    match kind {
        "basic" | "matchall" | "tcpctl" => None,
        "fw" => Some(fw::illegal_handle(word)),
        "u32" => Some("Illegal filter ID".into()),
        _ => Some(Sentence::Illegal("handle").into()),
    }
}

/// Returns the handle that the words after the kind name, if they do.
pub(crate) fn own_handle(said: &Said<'_>) -> Result<Option<u32>, Diagnostic> {
    match said.kind.text.as_str() {
        "u32" => u32::order(said),
        _ => Ok(None),
    }
}

/// Returns the handle of a filter in the form of its kind.
pub(crate) fn handle_text(rule: &Rule, handle: u32) -> String {
    match rule {
        Rule::Basic(_)
        | Rule::Bpf(_)
        | Rule::Flow(_)
        | Rule::Flower(_)
        | Rule::Matchall(_)
        | Rule::Tcpctl(_) => format!("{handle:#x}"),
        Rule::Fw(rule) => fw::handle_text(rule, handle),
        Rule::U32(rule) => u32::handle_text(rule, handle),
    }
}

/// A filter to be printed.
pub(crate) struct Shown<'a> {
    pub(crate) handle: u32,
    pub(crate) rule: &'a Rule,
    pub(crate) goal: &'a Bound,
    /// The ethertype that it is asked about.
    #[allow(dead_code, reason = "some kinds print by it how they read addresses")]
    pub(crate) protocol: u16,
    /// The first of the numbers of its counters.
    pub(crate) hits: u32,
}

impl Shown<'_> {
    /// Prints ` flowid 1:10`, in the words of its kind, if it has a class.
    pub(crate) fn class(&self, key: &str, ways: &Ways<'_>, out: &mut Out) {
        if !self.goal.class.is_none() {
            let class = ways.class(self.goal.class);
            out.word(key, &class, &format!("{key} {class} "));
        }
    }
}

/// Prints the part of the kind, and the actions.
pub(crate) fn show(shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    match shown.rule {
        Rule::Bpf(rule) => bpf::show(rule, shown, ways, out),
        Rule::Fw(rule) => fw::show(rule, shown, ways, out),
        Rule::Basic(rule) => basic::show(rule, shown, ways, out),
        Rule::Flow(rule) => flow::show(rule, shown, out),
        Rule::Flower(rule) => flower::show(rule, shown, ways, out),
        Rule::Matchall(rule) => matchall::show(rule, shown, ways, out),
        Rule::Tcpctl(_) => tcpctl::show(shown, ways, out),
        Rule::U32(rule) => u32::show(rule, shown, ways, out),
    }
    if !shown.goal.actions.is_empty() {
        out.open_list("actions");
        for (order, id) in (1u32..).zip(shown.goal.actions.iter()) {
            action::show(*id, order, ways, In::Filter, out);
        }
        out.close_list();
    }
}

/// Prints the fields that the filters of a chain may look at.
pub(crate) fn show_template(rule: &Rule, out: &mut Out) {
    if let Rule::Flower(rule) = rule {
        flower::show_template(rule, out);
    }
}

/// Returns the words after the kind that make it again, but for its actions.
pub(crate) fn words(rule: &Rule, goal: &Bound) -> String {
    let mut words = match rule {
        Rule::Bpf(rule) => bpf::words(rule),
        Rule::Fw(rule) => fw::words(rule),
        Rule::Basic(rule) => basic::words(rule),
        Rule::Flow(rule) => flow::words(rule),
        Rule::Flower(rule) => flower::words(rule),
        Rule::Matchall(rule) => matchall::words(rule),
        Rule::Tcpctl(_) => String::new(),
        Rule::U32(rule) => u32::words(rule),
    };
    let needs_one = match rule {
        // These kinds are refused without an option.
        Rule::Basic(_) | Rule::Matchall(_) | Rule::Tcpctl(_) => words.is_empty() && goal.actions.is_empty(),
        Rule::U32(U32::Filter(rule)) => rule.decides && goal.actions.is_empty(),
        Rule::U32(_) | Rule::Bpf(_) | Rule::Flow(_) | Rule::Flower(_) | Rule::Fw(_) => false,
    };
    if !goal.class.is_none() || needs_one {
        words.push_str(&format!(" classid {}", goal.class));
    }
    words
}
