//! The output of `show`.

use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::classify::filter::BlockId;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::tree::Place as At;
use txweir_core::sched::node::Node;

use super::session::Session;
use super::{Device, Flags, Hook, actions, blocks, filters};
use crate::action::Ways;
use crate::ast::{ChainCommand, ClassCommand, Command, FilterCommand, Place, QdiscCommand, Target};
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::sentence::Sentence;
use crate::show::{self, Classes, Form};
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
            let mut printed = Print::default();
            for name in names(session, dev.map(|d| d.text.as_str())) {
                let hooks = session.devices.device(&name).map(|device| blocks::at_hooks(device.tree()));
                let shared = blocks::numbers(session.devices.filters(), hooks.unwrap_or_default());
                if let Some(device) = session.devices.device(&name) {
                    qdiscs(
                        device,
                        &shared,
                        cmd,
                        &form(session.flags, session.class_names, device, dev.is_none()),
                        &mut printed,
                    );
                }
            }
            session.print(printed);
        }
        Command::Class(cmd) => {
            // Without a device tc prints nothing.
            if let Some(device) = dev.and_then(|dev| session.devices.device(&dev.text)) {
                let mut printed = Print::default();
                classes(device, cmd, &form(session.flags, session.class_names, device, false), &mut printed);
                // tc prints no empty list of classes.
                if !printed.objects.is_empty() {
                    let lines = std::mem::take(&mut printed.text);
                    // `-o` has no effect on classes.
                    if session.flags.json { session.print(printed) } else { session.stdout.push_str(&lines) }
                }
            }
        }
        // Without a device there are no filters.
        Command::Filter(cmd) => match (dev, block) {
            (Some(dev), _) => filters::list(session, cmd, &dev.text),
            (None, Some(block)) => filters::list_block(session, cmd, block),
            (None, None) => session.print(Print::default()),
        },
        Command::Chain(cmd) => match (dev, block) {
            (Some(dev), _) => filters::list_chains(session, cmd, &dev.text),
            (None, Some(block)) => filters::list_chains_block(session, cmd, block),
            (None, None) => session.print(Print::default()),
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

/// Text and JSON of an output.
#[derive(Default)]
pub(super) struct Print {
    pub(super) text: String,
    pub(super) objects: Vec<String>,
}

impl Print {
    /// Adds one object, in both forms.
    pub(super) fn push(&mut self, (text, object): (String, String)) {
        self.text.push_str(&text);
        self.objects.push(object);
    }
}

impl Session<'_> {
    /// Prints in the requested form.
    pub(super) fn print(&mut self, printed: Print) {
        let flags = self.flags;
        if flags.json {
            let list = json::list(printed.objects);
            self.stdout.push_str(&if flags.pretty { json::pretty(&list) } else { list });
            self.stdout.push('\n');
        } else if flags.oneline {
            self.stdout.push_str(&printed.text.replace('\n', "\\"));
        } else {
            self.stdout.push_str(&printed.text);
        }
    }

    /// Returns the options for printing filters and actions.
    pub(super) fn ways(&self) -> Ways<'_> {
        Ways {
            actions: &self.devices.filters().actions,
            counters: &self.devices.filters().counters,
            state: self.devices.state(),
            now: self.devices.now(),
            statistics: self.flags.statistics,
            names: self.class_names,
        }
    }
}

fn form(flags: &Flags, class_names: &[(Handle, String)], device: &dyn Device, named: bool) -> Form {
    Form {
        dev: named.then(|| device.name().to_string()),
        refcnt: device.queues().saturating_add(1),
        statistics: flags.statistics,
        details: flags.details,
        raw: flags.raw,
        iec: flags.iec,
        invisible: false,
        names: class_names.to_vec(),
    }
}

fn qdiscs(
    device: &dyn Device,
    shared: &[(&'static str, u32)],
    cmd: &QdiscCommand,
    form: &Form,
    printed: &mut Print,
) {
    let form = &Form { invisible: cmd.invisible, ..form.clone() };
    let asked = cmd.place.as_ref().map(|p| p.value);
    let wanted = |at: At, node: &Node| match asked {
        None => true,
        Some(Place::Below(parent)) => at.parent == parent,
        Some(Place::Handle(handle)) => node.handle() == handle.qdisc(),
        Some(Place::Ingress | Place::Clsact | Place::Egress) => false,
    };
    printed.text.push_str(&show::qdiscs(device.tree(), form, &wanted));
    printed.objects.extend(show::qdisc_objects(device.tree(), form, &wanted));
    let Some(hook) = device.hook() else { return };
    let asked_for = match asked {
        None | Some(Place::Ingress | Place::Clsact | Place::Below(HOOK)) => true,
        Some(Place::Handle(handle)) => handle.qdisc() == HOOK.qdisc(),
        _ => false,
    };
    if asked_for {
        write_hook(hook, shared, device.hook_counts(), form, printed);
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
    printed.text.push_str(&format!("qdisc {} ffff:{raw}{dev} parent {HOOK} {words}{dashes}\n", hook.name()));
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
        printed.text.push_str(&format!(
            " Sent {bytes} bytes {packets} pkt (dropped {drops}, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n"
        ));
        o = o.uint("bytes", bytes).uint("packets", packets).uint("drops", drops);
        o = ["overlimits", "requeues", "backlog", "qlen"].into_iter().fold(o, |o, key| o.uint(key, 0));
    }
    printed.objects.push(o.finish());
}

fn classes(device: &dyn Device, cmd: &ClassCommand, form: &Form, printed: &mut Print) {
    let value = |at: &Option<crate::ast::At<Handle>>| at.as_ref().map(|at| at.value);
    let asked =
        Classes { parent: value(&cmd.parent), classid: value(&cmd.classid), qdisc: value(&cmd.qdisc) };
    let (text, objects) = show::classes(&device.tree(), form, &asked);
    printed.text.push_str(&text);
    printed.objects.extend(objects);
}
