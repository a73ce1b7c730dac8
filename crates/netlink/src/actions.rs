//! Actions in messages: lists of them in a filter or in a message of their own, each with its kind,
//! its parameters and its counters (`linux/pkt_cls.h`, `linux/tc_act`).

mod bpf;
mod edit;
mod gact;
mod gate;
mod ife;
mod mirred;
mod mpls;
mod nat;
mod pedit;
mod police;
mod small;
mod vlan;

use txweir_core::Instant;
use txweir_core::classify::action::{ACTIONS_MAX, ActionId, Actions, Control, Entry, Kind, Memory, State};
use txweir_core::classify::counters::Counters;
use txweir_tc::parts;

use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer, u32_of};

/// Words, or the reason for which there are none.
type Words = Result<Vec<String>, Refusal>;
/// The same; none if the options name an action that is there, by its index.
type Found = Result<Option<Vec<String>>, Refusal>;
/// Returns the name of the link with a number.
pub(crate) type Links<'a> = &'a mut dyn FnMut(u32) -> Option<String>;

/// Attributes of an action in a list.
pub(crate) const KIND: u16 = 1;
const OPTIONS: u16 = 2;
pub(crate) const INDEX: u16 = 3;
const STATS: u16 = 4;
const PAD: u16 = 5;
const COOKIE: u16 = 6;
const FLAGS: u16 = 7;
const HW_STATS: u16 = 8;
const USED_HW_STATS: u16 = 9;
const IN_HW_COUNT: u16 = 10;
/// Longest name of a kind, as of a qdisc.
pub(crate) const KIND_MAX: usize = 15;
/// Bits of [`FLAGS`].
const NO_PERCPU: u32 = 1;
const SKIP_HW: u32 = 2;
const SKIP_SW: u32 = 4;
/// Bits of [`HW_STATS`], each with its word.
const COUNTED: [(u32, &str); 2] = [(1, "immediate"), (2, "delayed")];
/// Longest cookie, bytes.
const COOKIE_MAX: usize = 16;

/// The parts of a kind's options that all kinds have alike.
struct Form {
    kind: &'static str,
    /// Number and length of the C struct.
    parms: (u16, usize),
    /// Number of the times.
    times: u16,
    /// All other attributes that a request may have.
    known: &'static [u16],
    /// Returns the words; `None` if the options name an action that is there, by its index.
    read: fn(&Asked<'_>, Links<'_>) -> Found,
}

const FORMS: [Form; 15] = [
    bpf::FORM,
    small::CSUM,
    gact::FORM,
    gate::FORM,
    ife::FORM,
    mirred::FORM,
    mpls::FORM,
    nat::FORM,
    pedit::FORM,
    police::FORM,
    small::SAMPLE,
    small::SIMPLE,
    edit::SKBEDIT,
    edit::SKBMOD,
    vlan::FORM,
];

impl Form {
    /// Returns the C struct in a kind's options.
    fn parms<'a>(&self, all: &Attributes<'a>) -> Result<Option<Record<'a>>, Refusal> {
        let (number, len) = self.parms;
        match (all.record(number, len)?, self.kind) {
            // The longer form of pedit has its struct in another attribute.
            (None, "pedit") => all.record(pedit::PARMS_EX, len),
            (parms, _) => Ok(parms),
        }
    }
}

/// The options of an action in a request.
struct Asked<'a> {
    all: Attributes<'a>,
    parms: Record<'a>,
    /// The offset of the control in the C struct.
    control_at: usize,
}

impl Asked<'_> {
    fn control(&self) -> Words {
        control_words(self.parms.i32(self.control_at))
    }
}

/// Controls by their numbers in Linux; jumps and chains have theirs in the low 28 bits.
const CONTROLS: [(i32, &str, Control); 6] = [
    (-1, "continue", Control::Continue),
    (0, "pass", Control::Pass),
    (1, "reclassify", Control::Reclassify),
    (2, "drop", Control::Drop),
    (3, "pipe", Control::Pipe),
    (8, "trap", Control::Trap),
];
const JUMP: u32 = 1;
const GOTO: u32 = 2;
const OPERAND: u32 = 0x0fff_ffff;

/// Returns the words of a control.
fn control_words(code: i32) -> Words {
    if let Some((_, word, _)) = CONTROLS.iter().find(|(number, ..)| *number == code) {
        return Ok(vec![(*word).into()]);
    }
    let operand = (code.cast_unsigned() & OPERAND).to_string();
    match code.cast_unsigned() >> 28 {
        JUMP => Ok(vec!["jump".into(), operand]),
        GOTO => Ok(vec!["goto".into(), "chain".into(), operand]),
        _ => {
            let text =
                format!("action: there is no control {code} here: expected -1 to 3, 8, a jump or a chain");
            Err(Refusal::invalid(text))
        }
    }
}

/// Returns the number of a control.
fn control_code(control: Control) -> i32 {
    let operand = |kind: u32, n: u32| (kind << 28 | n & OPERAND).cast_signed();
    match control {
        Control::Jump(n) => operand(JUMP, n),
        Control::Goto(n) => operand(GOTO, n),
        Control::Stolen => 4,
        Control::Queued => 5,
        Control::Repeat => 6,
        plain => CONTROLS.iter().find(|(.., known)| *known == plain).map_or(0, |(code, ..)| *code),
    }
}

/// Returns the words of a list of actions, `action KIND ...` for each.
pub(crate) fn read_list(list: &[u8], links: Links<'_>) -> Words {
    let all = Attributes::read(list, "actions")?;
    let mut words = Vec::new();
    for one in in_order(&all)? {
        words.push("action".into());
        words.extend(read_one(one, links)?);
    }
    Ok(words)
}

/// An action in the list of a filter that was listed.
pub(crate) struct Held {
    pub(crate) kind: String,
    pub(crate) index: u32,
    /// True if others than filters hold it: a command of its own has made it.
    pub(crate) is_own: bool,
    /// The words that make it, from the kind on.
    pub(crate) words: Vec<String>,
}

/// Returns the actions of a filter that was listed.
///
/// # Errors
/// The list is malformed, or an action has no words, or its kind is not there.
pub(crate) fn held(list: &[u8], links: Links<'_>) -> Result<Vec<Held>, Refusal> {
    let all = Attributes::read(list, "actions")?;
    let one = |value| {
        let all = Attributes::read(value, "action")?;
        let kind = all.text(KIND, KIND_MAX)?.unwrap_or("").to_string();
        let Some(form) = FORMS.iter().find(|form| form.kind == kind) else {
            return Err(Refusal::unsupported(format!("there is no action {kind} here")));
        };
        let options = all.nested(OPTIONS)?;
        let Some(parms) = form.parms(&options)? else {
            return Err(Refusal::invalid(format!("action {kind}: its parameters are missing")));
        };
        let at = if kind == "police" { police::HOLDERS } else { HOLDERS };
        let is_own = parms.i32(at) > parms.i32(at + 4);
        Ok(Held { index: parms.u32(0), is_own, words: read_one(value, &mut *links)?, kind })
    };
    in_order(&all)?.into_iter().map(one).collect()
}

/// Returns the entries of a list, which are in the order of their numbers.
pub(crate) fn in_order<'a>(all: &Attributes<'a>) -> Result<Vec<&'a [u8]>, Refusal> {
    if let Some(beyond) = all.iter().find(|a| !(1..=ACTIONS_MAX).contains(&usize::from(a.number))) {
        let text = format!("actions: expected numbers from 1 to {ACTIONS_MAX}, given {}", beyond.number);
        return Err(Refusal::invalid(text));
    }
    Ok((1..=ACTIONS_MAX).filter_map(|at| all.bytes(u16::try_from(at).ok()?)).collect())
}

fn read_one(value: &[u8], links: Links<'_>) -> Words {
    let all = Attributes::read(value, "action")?;
    all.only(&[KIND, OPTIONS, INDEX, STATS, PAD, COOKIE, FLAGS, HW_STATS, USED_HW_STATS, IN_HW_COUNT])?;
    let Some(kind) = all.text(KIND, KIND_MAX)? else {
        return Err(Refusal::invalid("action: attribute 1, its kind, is missing"));
    };
    let mut words = read_options(kind, all.bytes(OPTIONS).unwrap_or(&[]), links)?;
    if let Some(cookie) = all.bytes(COOKIE) {
        if cookie.len() > COOKIE_MAX {
            let text = format!("action: cookie: expected at most {COOKIE_MAX} bytes, given {}", cookie.len());
            return Err(Refusal::invalid(text));
        }
        words.extend(["cookie".into(), cookie.iter().map(|byte| format!("{byte:02x}")).collect()]);
    }
    // The bits and those that count, which matter for the last one only.
    if let Some(stats) = all.record(HW_STATS, 8)? {
        let word = match stats.u32(0) {
            0 => Some("disabled"),
            // Both together are the default.
            3 => None,
            bits => Some(COUNTED.iter().find(|(bit, _)| *bit == bits).map(|(_, word)| *word).ok_or_else(
                || {
                    Refusal::invalid(format!(
                        "action: counters of hardware: expected bits 0 to 3, given {bits}"
                    ))
                },
            )?),
        };
        words.extend(word.into_iter().flat_map(|word| ["hw_stats".into(), word.into()]));
    }
    if let Some(flags) = all.record(FLAGS, 8)? {
        let flags = flags.u32(0);
        if flags & !(NO_PERCPU | SKIP_HW | SKIP_SW) != 0 {
            return Err(Refusal::invalid(format!("action: expected flags of 0 to 7, given {flags}")));
        }
        for (bit, word) in [(NO_PERCPU, "no_percpu"), (SKIP_HW, "skip_hw"), (SKIP_SW, "skip_sw")] {
            words.extend((flags & bit != 0).then(|| word.to_string()));
        }
    }
    Ok(words)
}

/// Returns the kind and the words of its options, the index among them.
pub(crate) fn read_options(kind: &str, options: &[u8], links: Links<'_>) -> Words {
    let Some(form) = FORMS.iter().find(|form| form.kind == kind) else {
        // The engine says which kinds it has.
        return Ok(vec![kind.into()]);
    };
    let name = format!("action {kind}");
    let all = Attributes::read(options, &name)?;
    let known: Vec<u16> = form.known.iter().copied().chain([form.parms.0, form.times]).collect();
    all.only(&known)?;
    let Some(parms) = form.parms(&all)? else {
        let number = form.parms.0;
        return Err(Refusal::invalid(format!("{name}: attribute {number}, its parameters, is missing")));
    };
    let control_at = if kind == "police" { police::CONTROL } else { CONTROL };
    let index = parms.u32(0);
    let asked = Asked { all, parms, control_at };
    let mut words = vec![kind.to_string()];
    words.extend((form.read)(&asked, links)?.unwrap_or_default());
    if index > 0 {
        words.extend(["index".into(), index.to_string()]);
    }
    Ok(words)
}

/// The offsets of the control and of the holders in the fields that begin most C structs.
const CONTROL: usize = 8;
const HOLDERS: usize = 12;

/// The tables that the messages of filters and actions are made of.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) actions: &'a Actions,
    pub(crate) counters: &'a Counters,
    pub(crate) state: &'a State,
    pub(crate) now: Instant,
    /// True with everything that counts, holders and times too; false for what a filter is.
    pub(crate) counts: bool,
}

impl Look<'_> {
    /// Returns a count of a filter.
    pub(crate) fn hits(&self, number: u32) -> u64 {
        if self.counts { self.state.hits(self.counters, number) } else { 0 }
    }
}

/// An action and its counters.
struct Shown<'a> {
    entry: &'a Entry,
    memory: &'a Memory,
    look: &'a Look<'a>,
}

impl Shown<'_> {
    /// Returns the holders: all, and the filters among them.
    const fn holders(&self) -> [u32; 2] {
        if self.look.counts { [self.entry.refs, self.entry.binds] } else { [0; 2] }
    }
    /// Writes the fields that begin most C structs.
    fn begin(&self, w: &mut Writer) {
        let [refs, binds] = self.holders();
        let control = control_code(self.entry.action.control).cast_unsigned();
        w.put_all(&[self.entry.index, 0, control, refs, binds]);
    }
    /// Writes a C struct that begins with these fields, and has the rest.
    fn parms(&self, number: u16, rest: &[u32], w: &mut Writer) {
        w.nest(number, |w| {
            self.begin(w);
            w.put_all(rest);
        });
    }
    /// Writes the times since the action was made, last used and first used, in ticks of 10 ms.
    fn times(&self, number: u16, w: &mut Writer) {
        const TICK: u64 = 10_000_000;
        let (now, made) = (self.look.now, self.entry.made);
        let since = |at: Instant| if self.look.counts { now.saturating_since(at).0 / TICK } else { 0 };
        let used = since(self.memory.used.unwrap_or(made));
        w.nest(number, |w| {
            for ticks in [since(made), used, 0, self.memory.first.map_or(0, since)] {
                w.put(&ticks.to_ne_bytes());
            }
        });
    }
}

/// Writes a list of actions; `listed` for one of all actions, which says whether hardware would
/// count them.
pub(crate) fn write_list(ids: &[ActionId], look: &Look<'_>, listed: bool, w: &mut Writer) {
    // As in Linux, a listing of all counts from 0.
    let first = u16::from(!listed);
    for (order, id) in (first..).zip(ids) {
        w.nest(order, |w| write_one(*id, look, listed, w));
    }
}

fn write_one(id: ActionId, look: &Look<'_>, listed: bool, w: &mut Writer) {
    let Some(entry) = look.actions.entry(id) else { return };
    let memory = if look.counts { look.state.counted(look.actions, id) } else { Memory::default() };
    let (action, shown) = (&entry.action, Shown { entry, memory: &memory, look });
    w.text(KIND, action.kind.name());
    write_counters(&memory, w);
    if !action.cookie.is_empty() {
        w.bytes(COOKIE, &action.cookie);
    }
    // The bits, and those of them that count.
    let bits = |number: u16, value: u32, counts: u32, w: &mut Writer| {
        w.nest(number, |w| w.put_all(&[value, counts]));
    };
    if let Some(stats) = action.hw_stats {
        bits(HW_STATS, stats.into(), 3, w);
    }
    if listed && parts::is_offloaded(action) {
        bits(USED_HW_STATS, 0, 3, w);
    }
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags = flag(action.no_percpu, NO_PERCPU) | flag(action.skip_hw, SKIP_HW);
    if flags != 0 {
        bits(FLAGS, flags, flags, w);
    }
    w.u32(IN_HW_COUNT, 0);
    w.nest(OPTIONS, |w| write_options(&action.kind, &shown, w));
}

/// Attributes of the counters.
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const PKT64: u16 = 8;

fn write_counters(memory: &Memory, w: &mut Writer) {
    let Memory { bytes, packets, drops, overlimits, .. } = *memory;
    // Numbers of 32 bits begin again at 0, as those of the kernel.
    let wrapped = packets as u32;
    w.nest(STATS, |w| {
        w.nest(BASIC, |w| {
            w.put(&bytes.to_ne_bytes());
            w.put_all(&[wrapped, 0]);
        });
        if u64::from(wrapped) != packets {
            w.u64(PKT64, packets);
        }
        w.nest(QUEUE, |w| w.put_all(&[0, 0, u32_of(drops), 0, u32_of(overlimits)]));
    });
}

fn write_options(kind: &Kind, shown: &Shown<'_>, w: &mut Writer) {
    match kind {
        Kind::Bpf(bpf) => bpf::write(bpf, shown, w),
        Kind::Gate(gate) => gate::write(gate, shown, w),
        Kind::Ife(ife) => ife::write(ife, shown, w),
        Kind::Csum(csum) => small::write_csum(csum, shown, w),
        Kind::Gact(gact) => gact::write(gact, shown, w),
        Kind::Mirred(mirred) => mirred::write(mirred, shown, w),
        Kind::Mpls(mpls) => mpls::write(mpls, shown, w),
        Kind::Nat(nat) => nat::write(nat, shown, w),
        Kind::Pedit(pedit) => pedit::write(pedit, shown, w),
        Kind::Police(police) => police::write(police, shown, w),
        Kind::Sample(sample) => small::write_sample(*sample, shown, w),
        Kind::Simple(simple) => small::write_simple(simple, shown, w),
        Kind::Skbedit(skbedit) => edit::write_skbedit(skbedit, shown, w),
        Kind::Skbmod(skbmod) => edit::write_skbmod(skbmod, shown, w),
        Kind::Vlan(vlan) => vlan::write(vlan, shown, w),
    }
    if let Some(form) = FORMS.iter().find(|form| form.kind == kind.name()) {
        shown.times(form.times, w);
    }
}

/// Returns a key and its value as words.
fn pair(key: &str, value: impl ToString) -> [String; 2] {
    [key.to_string(), value.to_string()]
}

/// Returns six bytes as an Ethernet address.
fn mac(all: &Attributes<'_>, number: u16) -> Result<Option<String>, Refusal> {
    let Some(r) = all.record(number, 6)? else { return Ok(None) };
    Ok(Some([0, 1, 2, 3, 4, 5].map(|at| format!("{:02x}", r.u8(at))).join(":")))
}
