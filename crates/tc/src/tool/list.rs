//! The output of `show`.

use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::classify::filter::BlockId;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::tree::Place as At;
use txweir_core::sched::node::{Books, Node};

use super::session::Session;
use super::{Device, Devices, Flags, Hook, actions, blocks, filters};
use crate::action::Ways;
use crate::ast::{ChainCommand, ClassCommand, Command, FilterCommand, Place, QdiscCommand, Target};
use crate::class_names::ClassNames;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::sentence::Sentence;
use crate::show::{self, Classes, Form, Seen};
use crate::source::Source;

/// The class below which Linux has both hooks.
const HOOK: Handle = Handle::new(0xffff, 0xfff1);

/// Prints the objects that a line asks for.
pub(super) fn run(session: &mut Session<'_>, source: &Arc<Source>, cmd: &Command) -> Result<(), Failure> {
    let dev = match cmd {
        Command::Filter(f) => f.target.as_ref().and_then(target),
        Command::Chain(c) => c.target.as_ref().and_then(target),
        other => other.dev(),
    };
    if let Some(dev) = dev {
        session.find(source, dev)?;
    }
    let block = match cmd {
        Command::Filter(FilterCommand { target: Some(Target::Block(block)), .. })
        | Command::Chain(ChainCommand { target: Some(Target::Block(block)), .. }) => {
            Some(shared(session, source, block)?)
        }
        _ => None,
    };
    match cmd {
        Command::Qdisc(cmd) => {
            let mut printed = Print::new(session.flags);
            for name in names(session, dev.map(|d| d.text.as_str())) {
                qdiscs(session, &name, cmd, dev.is_none(), &mut printed);
            }
            session.print(printed);
        }
        Command::Class(cmd) => {
            // Without a device tc prints nothing.
            if let Some(dev) = dev {
                // `-o` has no effect on classes.
                let mut printed = Print::new(session.flags).with_lines();
                classes(session, &dev.text, cmd, &mut printed);
                // tc prints no empty list of classes.
                if !printed.is_empty() {
                    session.print(printed);
                }
            }
        }
        // Without a device there are no filters.
        Command::Filter(cmd) => match (dev, block) {
            (Some(dev), _) => filters::list(session, cmd, &dev.text),
            (None, Some(block)) => filters::list_block(session, cmd, block),
            (None, None) => session.print(Print::new(session.flags)),
        },
        Command::Chain(cmd) => match (dev, block) {
            (Some(dev), _) => filters::list_chains(session, cmd, &dev.text),
            (None, Some(block)) => filters::list_chains_block(session, cmd, block),
            (None, None) => session.print(Print::new(session.flags)),
        },
        Command::Actions(cmd) if cmd.options.is_empty() => {}
        Command::Actions(cmd) => actions::list(session, cmd),
    }
    Ok(())
}

/// Returns the block that a listing is of.
fn shared(
    session: &Session<'_>,
    source: &Arc<Source>,
    block: &crate::ast::At<u32>,
) -> Result<BlockId, Failure> {
    if block.value == 0 {
        return Err(blocks::none(source, block));
    }
    // tc itself looks for the block.
    let missing = || {
        let failure = Failure::unparsable(blocks::missing(source, block));
        failure.linux(Sentence::NoBlock(block.value))
    };
    session.devices.filters().shared(block.value).ok_or_else(missing)
}

fn target(target: &Target) -> Option<&crate::lex::Word> {
    match target {
        Target::Dev(dev) => Some(dev),
        Target::Block(_) => None,
    }
}

fn names(session: &Session<'_>, only: Option<&str>) -> Vec<String> {
    only.map_or_else(|| session.devices.names(), |name| vec![name.to_string()])
}

/// The output of a listing, in the one form that the flags ask for.
pub(super) struct Print {
    form: As,
    out: String,
}

/// A form of output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Lines,
    /// A backslash in place of every line end.
    OneLine,
    Json,
    PrettyJson,
}

impl Print {
    /// Returns one without objects.
    pub(super) fn new(flags: &Flags) -> Self {
        let form = match flags {
            Flags { json: true, pretty: true, .. } => As::PrettyJson,
            Flags { json: true, .. } => As::Json,
            Flags { oneline: true, .. } => As::OneLine,
            _ => As::Lines,
        };
        Self { form, out: String::new() }
    }
    /// Keeps the line ends of a text.
    fn with_lines(self) -> Self {
        let form = if self.form == As::OneLine { As::Lines } else { self.form };
        Self { form, ..self }
    }
    fn is_json(&self) -> bool {
        matches!(self.form, As::Json | As::PrettyJson)
    }
    /// True if no object was added.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
    /// Adds one object, of which the caller has made both forms.
    pub(super) fn push(&mut self, (text, object): (String, String)) {
        self.push_one(if self.is_json() { &object } else { &text });
    }
    /// Adds one object in the form of this output.
    fn push_one(&mut self, one: &str) {
        if self.is_json() { self.push_object(one) } else { self.push_text(one) }
    }
    fn push_text(&mut self, text: &str) {
        match self.form {
            As::OneLine => self.out.push_str(&text.replace('\n', "\\")),
            _ => self.out.push_str(text),
        }
    }
    fn push_object(&mut self, object: &str) {
        if !self.out.is_empty() {
            self.out.push(',');
        }
        match self.form {
            // An object is broken into the same lines, whatever is beside it in the list.
            As::PrettyJson => self.out.push_str(pretty_item(&json::pretty(&format!("[{object}]")))),
            _ => self.out.push_str(object),
        }
    }
    /// Returns the whole output.
    fn finish(self) -> String {
        match self.form {
            As::Lines | As::OneLine => self.out,
            As::Json => format!("[{}]\n", self.out),
            As::PrettyJson if self.is_empty() => "[ ]\n".to_string(),
            As::PrettyJson => format!("[ {} ]\n", self.out),
        }
    }
}

/// Returns the item of a list of one item.
fn pretty_item(list: &str) -> &str {
    list.strip_prefix("[ ").and_then(|rest| rest.strip_suffix(" ]")).unwrap_or(list)
}

impl Session<'_> {
    /// Prints in the requested form.
    pub(super) fn print(&mut self, printed: Print) {
        let out = printed.finish();
        match self.stdout.is_empty() {
            true => self.stdout = out,
            false => self.stdout.push_str(&out),
        }
    }

    /// Returns the options for printing filters and actions.
    pub(super) fn ways(&self) -> Ways<'_> {
        ways(self.devices, self.flags, self.class_names)
    }
}

/// Returns the options for printing filters and actions of devices.
pub(super) fn ways<'a>(devices: &'a dyn Devices, flags: &Flags, class_names: &'a ClassNames) -> Ways<'a> {
    Ways {
        actions: &devices.filters().actions,
        counters: &devices.filters().counters,
        state: devices.state(),
        now: devices.now(),
        statistics: flags.statistics,
        names: class_names,
    }
}

fn form(flags: &Flags, class_names: &ClassNames, device: &dyn Device, named: bool) -> Form {
    Form {
        dev: named.then(|| device.name().to_string()),
        refcnt: device.queues().saturating_add(1),
        statistics: flags.statistics,
        details: flags.details,
        raw: flags.raw,
        iec: flags.iec,
        invisible: false,
        names: class_names.clone(),
    }
}

/// Prints the qdiscs of a device that a line asks for, with its name if several devices are listed.
fn qdiscs(session: &mut Session<'_>, name: &str, cmd: &QdiscCommand, named: bool, printed: &mut Print) {
    let hooks = session.devices.device(name).map(|device| blocks::at_hooks(device.tree()));
    let shared = blocks::numbers(session.devices.filters(), hooks.unwrap_or_default());
    let Some(device) = session.devices.device(name) else { return };
    let form = form(session.flags, session.class_names, device, named);
    let form = Form { invisible: cmd.invisible, ..form };
    let asked = cmd.place.as_ref().map(|p| p.value);
    let wanted = |at: At, node: &Node| match asked {
        None => true,
        Some(Place::Below(parent)) => at.parent == parent,
        Some(Place::Handle(handle)) => node.handle() == handle.qdisc(),
        Some(Place::Ingress | Place::Clsact | Place::Egress) => false,
    };
    let as_json = printed.is_json();
    // The counters of a root that stands for queues are those of all qdiscs below it.
    let is_root = |at: At, node: &Node| at.depth == 0 && wanted(at, node);
    let root = match as_json {
        true => show::qdisc_objects(device.tree(), &form, &is_root).concat(),
        false => show::qdiscs(device.tree(), &form, &is_root),
    };
    let make = |at: At, node: &Node, _: &Books| match at.depth {
        0 => Some(root.clone()).filter(|root| !root.is_empty()),
        _ => wanted(at, node).then(|| show::one_qdisc(at, node, &form, as_json)),
    };
    let mut take = |made: Option<String>| made.iter().for_each(|made| printed.push_one(made));
    session.devices.each_qdisc(name, cmd.invisible, &make, &mut take);
    let Some(device) = session.devices.device(name) else { return };
    let Some(hook) = device.hook() else { return };
    let asked_for = match asked {
        None | Some(Place::Ingress | Place::Clsact | Place::Below(HOOK)) => true,
        Some(Place::Handle(handle)) => handle.qdisc() == HOOK.qdisc(),
        _ => false,
    };
    if asked_for {
        write_hook(hook, &shared, device.hook_counts(), &form, printed);
    }
}

/// Prints a hook. It has no queue: its counters are those of the packets that its filters were
/// asked about.
fn write_hook(
    hook: Hook,
    shared: &[(&'static str, u32)],
    counts: HookCounts,
    form: &Form,
    printed: &mut Print,
) {
    let raw = if form.raw { format!("[{:08x}]", HOOK.qdisc().0) } else { String::new() };
    let dev = form.dev.as_ref().map(|dev| format!(" dev {dev}")).unwrap_or_default();
    let words = blocks::words(shared);
    let dashes = if hook == Hook::Ingress { "---------------- " } else { "" };
    let mut text = format!("qdisc {} ffff:{raw}{dev} parent {HOOK} {words}{dashes}\n", hook.name());
    let mut o = Object::new().text("kind", hook.name()).text("handle", "ffff:");
    if let Some(dev) = &form.dev {
        o = o.text("dev", dev);
    }
    o = o.text("parent", &HOOK.to_string());
    o = shared.iter().fold(o, |o, (word, number)| o.uint(word, (*number).into()));
    o = o.raw("options", "{}");
    if form.statistics {
        let HookCounts { seen, drops } = counts;
        let (bytes, packets) = (seen.bytes, seen.packets);
        text.push_str(&format!(
            " Sent {bytes} bytes {packets} pkt (dropped {drops}, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n"
        ));
        o = o.uint("bytes", bytes).uint("packets", packets).uint("drops", drops);
        o = ["overlimits", "requeues", "backlog", "qlen"].into_iter().fold(o, |o, key| o.uint(key, 0));
    }
    printed.push((text, o.finish()));
}

/// Prints the classes of a device that a line asks for.
fn classes(session: &mut Session<'_>, name: &str, cmd: &ClassCommand, printed: &mut Print) {
    let Some(device) = session.devices.device(name) else { return };
    let form = form(session.flags, session.class_names, device, false);
    let value = |at: &Option<crate::ast::At<Handle>>| at.as_ref().map(|at| at.value);
    let asked =
        Classes { parent: value(&cmd.parent), classid: value(&cmd.classid), qdisc: value(&cmd.qdisc) };
    let as_json = printed.is_json();
    let make = |seen: &Seen<'_>| show::one_class(seen, &form, &asked, as_json);
    let mut take = |made: Option<String>| made.iter().for_each(|made| printed.push_one(made));
    session.devices.each_class(name, true, &make, &mut take);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that grows object by object is the one that is made of all objects.
    #[test]
    fn an_output_grows_object_by_object() {
        let objects = [r#"{"a":1,"o":{},"l":[1,2]}"#, "{}", r#"{"t":"x,]\n"}"#];
        for n in 0..=objects.len() {
            let list = json::list(objects[..n].iter().map(|o| (*o).to_string()));
            let print = |flags: Flags| {
                let mut printed = Print::new(&flags);
                objects[..n].iter().for_each(|o| printed.push(("a\nb\n".into(), (*o).into())));
                assert_eq!(printed.is_empty(), n == 0);
                printed.finish()
            };
            let json = Flags { json: true, oneline: true, ..Flags::default() };
            assert_eq!(print(json.clone()), format!("{list}\n"));
            let pretty = format!("{}\n", json::pretty(&list));
            assert_eq!(print(Flags { pretty: true, ..json }), pretty);
            assert_eq!(print(Flags { oneline: true, ..Flags::default() }), "a\\b\\".repeat(n));
            assert_eq!(print(Flags::default()), "a\nb\n".repeat(n));
        }
    }
}
