//! Linux's own line for a refusal. `tc` prints it before the diagnostic, because programs that call
//! tc look for it: chaos-mesh, tcconfig and LibreQoS decide by these lines.
//!
//! The lines are those that tc 6.1 prints on Linux 6.12. Where the kernel refuses the value of an
//! option, this module knows the general line only; ets, red, mqprio and taprio have sentences of
//! their own there.

use txweir_core::text::error::{Object, Reason};
use txweir_core::{ConfigError, ErrorKind, Handle};

use crate::ast::{ClassCommand, QdiscCommand, Verb};
use crate::lex::Word;

const INVALID: &str = "RTNETLINK answers: Invalid argument";
const NO_ENTRY: &str = "RTNETLINK answers: No such file or directory";
const NOT_SUPPORTED: &str = "RTNETLINK answers: Operation not supported";
const FILE_EXISTS: &str = "RTNETLINK answers: File exists";
const REPLACE_NEEDED: &str = "Error: NLM_F_REPLACE needed to override.";

/// A place without a qdisc that was added, in a change.
pub(crate) const NOT_THERE: &str = "Error: Qdisc not found. To create specify NLM_F_CREATE flag.";
/// A qdisc of another kind, in a change or a deletion.
pub(crate) const OTHER_KIND: &str = "Error: Invalid qdisc name: must match existing qdisc.";
/// A deletion of a qdisc that is not the one of the given handle.
pub(crate) const OTHER_HANDLE: &str = "Error: Invalid handle.";
/// A place that has a qdisc, in an addition.
pub(crate) const TAKEN: &str = "Error: Exclusivity flag on, cannot modify.";
/// A kind that the kernel does not have, or none.
pub(crate) const UNKNOWN_KIND: &str = "Error: Specified qdisc kind is unknown.";
/// A line without a device.
pub(crate) const NO_DEVICE: &str = "RTNETLINK answers: No such device";
/// A class line without a class.
pub(crate) const NO_CLASS: &str = NO_ENTRY;
/// A qdisc at the parent of hooks.
pub(crate) const RESERVED: &str = "Error: Specified parent ID is reserved for ingress and clsact Qdiscs.";
/// A block for filters of arriving packets at a qdisc that has none.
pub(crate) const NO_INGRESS_BLOCKS: &str = "Error: Ingress block sharing is not supported.";
/// A block for filters of sent packets at a qdisc that has none.
pub(crate) const NO_EGRESS_BLOCKS: &str = "Error: Egress block sharing is not supported.";
/// A block that the device has already.
pub(crate) const BLOCK_TAKEN: &str = "Error: block dev insert failed.";
/// A size table below the first qdisc that packets meet.
const STAB_BELOW: &str = "Error: STAB not supported on a non root.";
/// A deletion by the handle alone.
pub(crate) const NO_CLASSID: &str = "Error: Classid cannot be zero.";
/// A line about no place and no handle, in an addition.
pub(crate) const NO_HANDLE: &str = "Error: Handle cannot be zero.";
/// A line about no place and no handle, in a change or a deletion.
pub(crate) const NO_QDISC: &str = "Error: Failed to find qdisc with specified handle.";
/// A filter line without a device.
pub(crate) const NO_DEVICE_TALKING: &str =
    "RTNETLINK answers: No such device\nWe have an error talking to the kernel";

/// Returns Linux's line for a `qdisc` command that core refuses; `None` where Linux takes it.
pub(crate) fn for_qdisc(cmd: &QdiscCommand, err: &ConfigError) -> Option<&'static str> {
    let key = err.key.as_deref().unwrap_or("");
    if let (Object::Kind("gred"), Some(line)) = (err.object, for_gred(err, key)) {
        return Some(line);
    }
    Some(match (err.kind, key, err.reason) {
        (_, _, Some(Reason::SharedRate | Reason::Memory)) => return None,
        (ErrorKind::UnknownKind, ..) | (ErrorKind::Missing, "kind", _) => UNKNOWN_KIND,
        (ErrorKind::Conflict, "kind", _) => OTHER_KIND,
        (ErrorKind::Conflict, "handle", _) => match cmd.verb {
            Verb::Delete => OTHER_HANDLE,
            Verb::Link => NOT_THERE,
            _ => REPLACE_NEEDED,
        },
        (ErrorKind::Exists, "handle", _) => "Error: Cannot move an existing qdisc to a different parent.",
        (ErrorKind::Exists, _, Some(Reason::OtherHandle)) => REPLACE_NEEDED,
        (ErrorKind::Exists, ..) => TAKEN,
        (ErrorKind::NotFound, "parent", _) => match (err.reason, cmd.verb) {
            (Some(Reason::NoQdisc), Verb::Delete) => "Error: Failed to find qdisc with specified classid.",
            (Some(Reason::NoQdisc), _) => "Error: Failed to find specified qdisc.",
            (Some(Reason::Classless), _) => "Error: Parent qdisc is not classful.",
            _ => "Error: Specified class not found.",
        },
        (ErrorKind::NotFound, ..) if matches!(err.object, Object::Qdisc(_)) => {
            "Error: Specified qdisc not found."
        }
        (ErrorKind::NotFound, ..) => match cmd.verb {
            Verb::Delete if cmd.kind.is_some() => OTHER_KIND,
            Verb::Delete => "Error: Cannot delete qdisc with handle of zero.",
            _ => NOT_THERE,
        },
        (ErrorKind::Unsupported, _, Some(Reason::Unchangeable)) => {
            "Error: Change operation not supported by specified qdisc."
        }
        (ErrorKind::Unsupported, "offload", _) => match err.object {
            Object::Kind("cbs") => "Error: Specified device does not support cbs offload.",
            Object::Kind("etf") => "Error: Specified device does not support ETF offload.",
            _ => NOT_SUPPORTED,
        },
        // One at mq itself has no effect there.
        (ErrorKind::Unsupported, "stab", _) if err.object == Object::Root => return None,
        (ErrorKind::Unsupported, "stab", _) => STAB_BELOW,
        (ErrorKind::Unsupported, "fp", _) if err.object == Object::Kind("taprio") => {
            "Error: Preemption only supported with full offload."
        }
        (ErrorKind::Unsupported, ..) => NOT_SUPPORTED,
        (ErrorKind::OutOfRange, "max-sdu", _) => "Error: sch_taprio: TC max SDU exceeds device max MTU.",
        (ErrorKind::Missing, "clockid", _) if err.object == Object::Kind("taprio") => {
            "Error: Specifying a 'clockid' is mandatory."
        }
        (ErrorKind::Missing, "sched-entry", _) => {
            "Error: There should be at least one entry in the schedule."
        }
        (ErrorKind::Missing, "clockid", _) => "Error: Dynamic clockids are not supported.",
        (ErrorKind::OutOfRange, "clockid", _) => "Error: Invalid clockid. CLOCK_TAI must be used.",
        (ErrorKind::OutOfRange, "delta", _) => "Error: Delta must be positive.",
        _ => INVALID,
    })
}

/// Returns Linux's line for options of gred.
fn for_gred(err: &ConfigError, key: &str) -> Option<&'static str> {
    Some(match (err.kind, key) {
        (ErrorKind::Missing, "setup") => {
            "Error: sch_gred: virtual queue configuration can't be specified at initialization time."
        }
        (ErrorKind::OutOfRange, "vq") => "Error: sch_gred: virtual queue index above virtual queue count.",
        (ErrorKind::Conflict, "setup") => {
            "Error: sch_gred: can't set per-Qdisc RED flags when per-virtual queue flags are used."
        }
        (ErrorKind::Conflict, "vq") => {
            "Error: sch_gred: can't change per-virtual queue RED flags when per-Qdisc flags are used."
        }
        (ErrorKind::Conflict, "min" | "max") => "Error: sch_gred: invalid RED parameters.",
        _ => return None,
    })
}

/// Returns Linux's line for a `class` command that core refuses; `None` where Linux takes it.
pub(crate) fn for_class(cmd: &ClassCommand, err: &ConfigError) -> Option<&'static str> {
    if matches!(err.reason, Some(Reason::SharedRate | Reason::Memory)) {
        return None;
    }
    Some(match (err.kind, cmd.verb) {
        (ErrorKind::Exists, _) => FILE_EXISTS,
        (ErrorKind::Conflict, Verb::Add) if is_root(cmd) => FILE_EXISTS,
        (ErrorKind::NotFound, _) => NO_ENTRY,
        (ErrorKind::Unsupported, _) => NOT_SUPPORTED,
        (ErrorKind::Conflict, Verb::Delete) => "RTNETLINK answers: Device or resource busy",
        _ => INVALID,
    })
}

/// True if a class is to be at the root, where hfsc has the qdisc itself.
fn is_root(cmd: &ClassCommand) -> bool {
    cmd.parent.as_ref().is_some_and(|parent| parent.value == Handle::ROOT)
}

/// The lines of a refusal that tc prints for a filter: the kernel's, and its own.
macro_rules! talking {
    ($line:literal) => {
        concat!($line, "\nWe have an error talking to the kernel")
    };
}

/// Returns Linux's lines for a `filter` or `chain` command that core refuses; `None` where Linux
/// takes it. `protocol` is the word for it in the command.
pub(crate) fn for_filter(err: &ConfigError, verb: Verb, protocol: Option<&Word>) -> Option<&'static str> {
    let key = err.key.as_deref().unwrap_or("");
    let own = match err.object {
        Object::Filter(Some("u32")) => for_u32(err, key, verb),
        Object::Filter(Some("flower")) if key.is_empty() => match err.kind {
            ErrorKind::Conflict => Some(talking!("Error: cls_flower: Mask does not fit the template.")),
            ErrorKind::Exists => Some(EXISTS_TALKING),
            _ => None,
        },
        Object::Filter(Some("matchall")) if err.kind == ErrorKind::Exists => Some(EXISTS_TALKING),
        Object::Filter(Some("flow")) => match err.kind {
            ErrorKind::OutOfRange => Some(RANGE_TALKING),
            ErrorKind::Conflict => Some(INVALID_TALKING),
            _ => None,
        },
        Object::Filter(Some("fw")) if err.reason == Some(Reason::SharedBlock) => {
            Some(talking!("Error: Must specify mark when attaching fw filter to block."))
        }
        _ => None,
    };
    Some(own.unwrap_or_else(|| for_any_filter(err, key, verb, protocol)))
}

/// Returns Linux's lines for a filter or a chain, where they are not those of a kind.
fn for_any_filter(err: &ConfigError, key: &str, verb: Verb, protocol: Option<&Word>) -> &'static str {
    match (err.kind, key, err.object) {
        (ErrorKind::Conflict, "kind", Object::Chain) => {
            talking!("Error: Chain template is set to a different filter kind.")
        }
        (ErrorKind::Conflict, "kind", _) => OTHER_FILTER_KIND,
        // A new filter is made where there is none of that priority, unless the command forbids it.
        (ErrorKind::NotFound, "prio", _) if verb == Verb::Change => match protocol {
            None => NO_FILTER_KIND,
            Some(_) => CHANGE_ONLY,
        },
        (ErrorKind::Conflict, "protocol", _) | (ErrorKind::NotFound, "prio" | "protocol", _) => NO_PRIORITY,
        (ErrorKind::NotFound, "chain", _) => NO_CHAIN,
        (ErrorKind::NotFound, "handle", _) if verb == Verb::Change => CHANGE_ONLY,
        (ErrorKind::NotFound, "handle", _) => NO_FILTER,
        (ErrorKind::Missing, "prio", _) if verb == Verb::Delete => {
            talking!("Error: Cannot flush filters with protocol, handle or kind set.")
        }
        (ErrorKind::Exists, _, Object::Chain) => talking!("Error: Filter chain already exists."),
        (ErrorKind::Exists, ..) => talking!("Error: Filter already exists."),
        (ErrorKind::Unsupported, ..) => UNSUPPORTED_TALKING,
        _ => INVALID_TALKING,
    }
}

/// Returns Linux's lines for a `u32` filter, where they are its own.
fn for_u32(err: &ConfigError, key: &str, verb: Verb) -> Option<&'static str> {
    Some(match (err.kind, key) {
        (_, "ht" | "handle") if err.reason == Some(Reason::NumberTaken) => NO_SPACE,
        (ErrorKind::Conflict, "handle") => match err.reason {
            Some(Reason::InUse) => talking!("Error: cls_u32: Can not delete in-use filter."),
            Some(Reason::OfParent) => talking!("Error: cls_u32: Not allowed to delete root node."),
            _ => talking!("Error: cls_u32: Handle specified hash table address mismatch."),
        },
        (ErrorKind::Conflict, "divisor") => {
            talking!("Error: cls_u32: Divisor can only be used on a hash table.")
        }
        // The handle is that of a table, which no filter replaces.
        (ErrorKind::Exists, "handle") if verb != Verb::Add => {
            talking!("Error: cls_u32: Key node id cannot be zero.")
        }
        (ErrorKind::NotFound, "ht") => talking!("Error: cls_u32: Specified hash table not found."),
        (ErrorKind::OutOfRange, "ht") => {
            talking!("Error: cls_u32: Specified hash table buckets exceed configured value.")
        }
        (ErrorKind::NotFound, "link") => talking!("Error: cls_u32: Link hash table not found."),
        (ErrorKind::BadValue, "link") => talking!("Error: cls_u32: u32 Link handle must be a hash table."),
        (ErrorKind::Conflict, "link") => talking!("Error: cls_u32: Not linking to root node."),
        (ErrorKind::Missing, "match") => talking!("Error: cls_u32: Selector not specified."),
        (ErrorKind::OutOfRange, "offset") => talking!("Error: cls_u32: offshift must be less than 16."),
        _ => return None,
    })
}

/// Returns Linux's lines for an action that core refuses.
pub(crate) fn for_action(err: &ConfigError) -> &'static str {
    match err.kind {
        ErrorKind::Exists => EXISTS_TALKING,
        ErrorKind::NotFound => NO_ACTION,
        ErrorKind::Conflict => ACTION_HELD,
        _ => INVALID_TALKING,
    }
}

/// Linux's lines for a filter that is not there.
pub(crate) const NO_FILTER: &str = talking!("Error: Specified filter handle not found.");
/// Linux's lines where its general answer is that the words make no sense.
pub(crate) const INVALID_TALKING: &str = talking!("RTNETLINK answers: Invalid argument");
/// Linux's lines for a part that the kernel does not have.
pub(crate) const NO_ENTRY_TALKING: &str = talking!("RTNETLINK answers: No such file or directory");
/// Linux's lines for hardware that is not there.
pub(crate) const UNSUPPORTED_TALKING: &str = talking!("RTNETLINK answers: Operation not supported");
/// Linux's lines for a value that does not fit.
pub(crate) const RANGE_TALKING: &str = talking!("RTNETLINK answers: Numerical result out of range");
/// Linux's lines for an object that is there already.
pub(crate) const EXISTS_TALKING: &str = talking!("RTNETLINK answers: File exists");
/// Linux's lines for a number that is not free.
const NO_SPACE: &str = talking!("RTNETLINK answers: No space left on device");
/// Linux's lines for an action that hardware is not to do, of a filter that it may do.
pub(crate) const OFFLOAD_FLAGS: &str = talking!("Error: Mismatch between action and filter offload flags.");
/// Linux's lines for a label too far down in a stack.
pub(crate) const MPLS_DEPTH: &str = talking!("Error: Invalid MPLS depth.");
/// Linux's lines for an entry of a gate's schedule without a duration.
pub(crate) const GATE_INTERVAL: &str = talking!("Error: Invalid interval for schedule entry.");
/// Linux's lines for a label that no packet may carry.
pub(crate) const MPLS_LABEL: &str = talking!("Error: act_mpls: MPLS label out of range.");
/// Linux's lines for a push without a label.
pub(crate) const MPLS_NO_LABEL: &str = talking!("Error: act_mpls: Label is required for MPLS push.");
/// Linux's lines for a number behind a label that is no ethertype.
pub(crate) const MPLS_PROTOCOL: &str = talking!("Error: act_mpls: Invalid protocol type for MPLS pop.");
/// Linux's lines for a device that a filter names.
pub(crate) const NO_INDEV: &str = talking!("Error: Network device not found.");
/// Linux's lines for filters of a device that shares them by a block.
pub(crate) const SHARED_BLOCK: &str =
    talking!("Error: This filter block is shared. Please use the block index to manipulate the filters.");
/// Linux's lines for a block that no device has.
pub(crate) const NO_SUCH_BLOCK: &str = talking!("Error: Block of given index was not found.");
/// Linux's lines for a template of a kind that has none.
pub(crate) const NO_TEMPLATE: &str =
    talking!("Error: Chain templates are not supported with specified classifier.");
/// Linux's lines for a filter line without a kind.
pub(crate) const NO_FILTER_KIND: &str = talking!("Error: Filter kind and protocol must be specified.");
/// Linux's lines for a number that no chain may have.
pub(crate) const CHAIN_ABOVE: &str = talking!("Error: Specified chain index exceeds upper limit.");
/// Linux's lines where no filter was ever added, or none in that chain.
pub(crate) const NO_CHAIN: &str = talking!("Error: Cannot find specified filter chain.");
/// Linux's lines for filters of a qdisc that does not exist.
pub(crate) const NO_PARENT: &str = talking!("Error: Parent Qdisc doesn't exists.");
/// Linux's lines for filters of a qdisc that asks none.
pub(crate) const NOT_CLASSFUL: &str = talking!("Error: Qdisc not classful.");
/// Linux's lines for filters of a qdisc that has classes and asks no filters.
pub(crate) const NO_CLASS_BLOCKS: &str = talking!("Error: Class doesn't support blocks.");
/// Linux's lines for filters of a class that does not exist.
pub(crate) const NO_SUCH_CLASS: &str = talking!("Error: Specified class doesn't exist.");
/// Linux's lines for a priority or a protocol that no filter has.
pub(crate) const NO_PRIORITY: &str = talking!("Error: Filter with specified priority/protocol not found.");
/// Linux's lines for a kind that is not that of the filters of a priority.
pub(crate) const OTHER_FILTER_KIND: &str =
    talking!("Error: Specified filter kind does not match existing one.");
/// Linux's lines for a change of a filter that is not there.
const CHANGE_ONLY: &str =
    talking!("Error: Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter.");
/// Linux's lines for a kind of filter that the kernel does not have.
pub(crate) const NO_CLASSIFIER: &str = talking!("Error: TC classifier not found.");
/// Linux's lines for the goal of an action outside of a filter.
pub(crate) const NO_CHAINS: &str = talking!("Error: can't goto NULL proto/chain.");
/// Linux's lines for an action that does not exist.
pub(crate) const NO_ACTION: &str = talking!("Error: TC action with specified index not found.");
/// Linux's lines for a deletion of an action that filters hold.
pub(crate) const ACTION_HELD: &str = talking!("Error: Failed to delete TC action.");
/// An action mirred that says nothing of itself.
pub(crate) const NO_MIRRED: &str = talking!("Error: act_mirred: Unknown mirred option.");
/// Linux's lines for a sample of every packet in none.
pub(crate) const NO_SAMPLE_RATE: &str = talking!("Error: invalid sample rate.");
/// Linux's lines for actions of an unknown kind, where all are to go.
pub(crate) const CANNOT_FLUSH: &str = "Error: Cannot flush unknown TC action.\nWe have an error flushing";
/// Linux's lines for actions that filters hold, where all are to go.
pub(crate) const FLUSH_HELD: &str = "RTNETLINK answers: Operation not permitted\nWe have an error flushing";
