//! The options of filters in messages: their kinds, the class, and the actions
//! (`linux/pkt_cls.h`).

mod bpf;
mod ematch;
mod flow;
mod flower;
mod u32;

use txweir_core::Handle;
use txweir_core::classify::filter::{Bound, Rule};

use crate::actions::{self, Links, Look};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

/// Words, or the reason for which there are none.
type Words = Result<Vec<String>, Refusal>;

/// Bits of the flags about hardware.
const SKIP_HW: u32 = 1;
const SKIP_SW: u32 = 2;
const NOT_IN_HW: u32 = 8;
const FLAGS_KNOWN: u32 = 0x1f;
/// Longest name of a link.
const NAME_MAX: usize = 15;

/// The attributes of a kind that others have too, by their numbers; 0 for those that it lacks.
#[derive(Clone, Copy, Default)]
struct Form {
    kind: &'static str,
    class: u16,
    /// A list of actions.
    actions: u16,
    /// The options of one police action, as older programs send it.
    police: u16,
    flags: u16,
    /// The name of the link that received the packet.
    indev: u16,
    ematch: u16,
    /// Attributes of the kind alone, those that only a listing has among them.
    known: &'static [u16],
}

const BASIC: Form =
    Form { kind: "basic", class: 1, ematch: 2, actions: 3, police: 4, known: &[5, 6], ..NONE };
const FW: Form = Form { kind: "fw", class: 1, police: 2, indev: 3, actions: 4, known: &[FW_MASK], ..NONE };
const MATCHALL: Form =
    Form { kind: "matchall", class: 1, actions: 2, flags: 3, known: &[MATCHALL_COUNTS, 5], ..NONE };
const NONE: Form =
    Form { kind: "", class: 0, actions: 0, police: 0, flags: 0, indev: 0, ematch: 0, known: &[] };
const FW_MASK: u16 = 5;
const MATCHALL_COUNTS: u16 = 4;

/// Returns the number of the list of actions in the options of a kind; `None` for a kind that is
/// not there.
pub(crate) fn actions_at(kind: &str) -> Option<u16> {
    FORMS.iter().find(|form| form.kind == kind).map(|form| form.actions)
}

const FORMS: [Form; 7] = [BASIC, bpf::FORM, flow::FORM, flower::FORM, FW, MATCHALL, u32::FORM];

/// Returns the handle of a filter and the words of its options, from the kind on.
pub(crate) fn read(
    kind: &str,
    handle: u32,
    protocol: u16,
    options: Option<&[u8]>,
    links: Links<'_>,
) -> Result<(Option<String>, Vec<String>), Refusal> {
    let mut handle = (handle != 0).then(|| format!("{handle:#x}"));
    let mut words = vec![kind.to_string()];
    // The engine says which kinds it has.
    let (Some(form), Some(options)) = (FORMS.iter().find(|form| form.kind == kind), options) else {
        return Ok((handle, words));
    };
    let all = Attributes::read(options, kind)?;
    let common = [form.class, form.actions, form.police, form.flags, form.indev, form.ematch];
    let known: Vec<u16> = common.into_iter().filter(|n| *n != 0).chain(form.known.iter().copied()).collect();
    all.only(&known)?;
    if let Some(mask) = all.u32(FW_MASK)?.filter(|mask| kind == "fw" && *mask != u32::MAX) {
        handle = Some(format!("{}/{mask:#x}", handle.unwrap_or_else(|| "0".into())));
    }
    let get = |number: u16| if number == 0 { None } else { all.bytes(number) };
    if get(form.indev).is_some() {
        words.extend(pair("indev", all.text(form.indev, NAME_MAX)?.unwrap_or("")));
    }
    words.extend(match kind {
        "bpf" => bpf::read(&all)?,
        "flow" => flow::read(&all)?,
        "flower" => flower::read(&all, protocol)?,
        "u32" => u32::read(&all)?,
        _ => Vec::new(),
    });
    if let Some(expression) = get(form.ematch) {
        words.extend(ematch::read(expression)?);
    }
    if get(form.class).is_some() {
        let class = all.u32(form.class)?.unwrap_or(0);
        words.extend(pair("classid", Handle(class)));
    }
    if get(form.flags).is_some() {
        words.extend(hardware(kind, all.u32(form.flags)?.unwrap_or(0))?);
    }
    if let Some(police) = get(form.police) {
        words.push("action".into());
        words.extend(actions::read_options("police", police, &mut *links)?);
    }
    if let Some(list) = get(form.actions) {
        words.extend(actions::read_list(list, links)?);
    }
    Ok((handle, words))
}

/// Returns the words of the flags about hardware; those that report are not asked for.
fn hardware(kind: &str, flags: u32) -> Words {
    if flags & !FLAGS_KNOWN != 0 {
        return Err(Refusal::invalid(format!("{kind}: expected flags of 0 to {FLAGS_KNOWN}, given {flags}")));
    }
    let said = [(SKIP_HW, "skip_hw"), (SKIP_SW, "skip_sw")];
    Ok(said.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| (*word).to_string()).collect())
}

/// A filter to be written.
pub(crate) struct Shown<'a> {
    pub(crate) handle: u32,
    pub(crate) rule: &'a Rule,
    pub(crate) goal: &'a Bound,
    /// The first of the numbers of its counters.
    pub(crate) hits: u32,
    pub(crate) look: &'a Look<'a>,
}

impl Shown<'_> {
    /// Returns one of its counts.
    fn hits(&self, number: u32) -> u64 {
        self.look.hits(self.hits.saturating_add(number))
    }
}

/// Writes the options of a filter.
pub(crate) fn write(shown: &Shown<'_>, w: &mut Writer) {
    let Some(form) = FORMS.iter().find(|form| form.kind == shown.rule.kind()) else { return };
    let flags = |skip_hw: bool, w: &mut Writer| {
        w.u32(form.flags, NOT_IN_HW | if skip_hw { SKIP_HW } else { 0 });
    };
    match shown.rule {
        Rule::Basic(rule) => {
            rule.expr.iter().for_each(|expr| ematch::write(expr, form.ematch, w));
        }
        Rule::Bpf(rule) => {
            bpf::write(rule, w);
            flags(rule.skip_hw, w);
        }
        Rule::Flow(rule) => {
            flow::write(rule, w);
            rule.expr.iter().for_each(|expr| ematch::write(expr, form.ematch, w));
        }
        Rule::Flower(rule) => {
            flower::write(rule, w);
            flags(rule.skip_hw, w);
        }
        Rule::Fw(rule) => {
            rule.indev.iter().for_each(|device| w.text(form.indev, &device.name));
            if rule.mask != u32::MAX {
                w.u32(FW_MASK, rule.mask);
            }
        }
        Rule::Matchall(rule) => {
            flags(rule.skip_hw, w);
            w.u64(MATCHALL_COUNTS, shown.hits(0));
        }
        // It is txweir's own, and has no options.
        Rule::Tcpctl(_) => {}
        Rule::U32(rule) => {
            if u32::write(rule, shown, w) {
                let skip_hw =
                    matches!(rule, txweir_core::classify::filter::U32::Filter(rule) if rule.skip_hw);
                flags(skip_hw, w);
            }
        }
    }
    if !shown.goal.class.is_none() && form.class != 0 {
        w.u32(form.class, shown.goal.class.0);
    }
    if !shown.goal.actions.is_empty() {
        w.nest(form.actions, |w| actions::write_list(&shown.goal.actions, shown.look, false, w));
    }
}

/// Writes the fields that the filters of a chain may look at.
pub(crate) fn write_template(rule: &Rule, w: &mut Writer) {
    if let Rule::Flower(rule) = rule {
        flower::write(rule, w);
    }
}

/// Returns a key and its value as words.
fn pair(key: &str, value: impl ToString) -> [String; 2] {
    [key.to_string(), value.to_string()]
}
