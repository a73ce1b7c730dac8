//! Linux's own line for a refusal. `tc` prints it before the diagnostic, because programs that call
//! tc look for it: chaos-mesh, tcconfig and LibreQoS decide by these lines.
//!
//! The lines are those that tc 6.1 prints on Linux 6.12. Where the kernel refuses the value of an
//! option, this module knows the general line only; ets, red, mqprio and taprio have sentences of
//! their own there.

use txweir_core::text::error::{Object, Reason};
use txweir_core::{ConfigError, ErrorKind};

use crate::ast::{ClassCommand, QdiscCommand, Verb};

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
/// A block for filters at a qdisc that is no hook.
pub(crate) const NO_BLOCKS: &str = "Error: Ingress block sharing is not supported.";
/// A size table below the root.
pub(crate) const STAB_BELOW: &str = "Error: STAB not supported on a non root.";
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
        (ErrorKind::Unsupported, ..) => NOT_SUPPORTED,
        _ => INVALID,
    })
}

/// Returns Linux's line for a `class` command that core refuses; `None` where Linux takes it.
pub(crate) fn for_class(cmd: &ClassCommand, err: &ConfigError) -> Option<&'static str> {
    if matches!(err.reason, Some(Reason::SharedRate | Reason::Memory)) {
        return None;
    }
    Some(match (err.kind, cmd.verb) {
        (ErrorKind::Exists, _) => FILE_EXISTS,
        (ErrorKind::NotFound, _) => NO_ENTRY,
        (ErrorKind::Unsupported, _) => NOT_SUPPORTED,
        (ErrorKind::Conflict, Verb::Delete) => "RTNETLINK answers: Device or resource busy",
        _ => INVALID,
    })
}

/// Returns Linux's lines for a `filter` or `chain` command that core refuses.
pub(crate) fn for_filter(err: &ConfigError) -> &'static str {
    match (err.kind, err.key.as_deref().unwrap_or(""), err.object) {
        (ErrorKind::Conflict, "protocol", _) => {
            "Error: Protocol mismatch for filter with specified priority.\n\
             We have an error talking to the kernel"
        }
        (ErrorKind::Conflict, "kind", _) => {
            "Error: Specified filter kind does not match existing one.\n\
             We have an error talking to the kernel"
        }
        (ErrorKind::NotFound, "prio" | "protocol", _) => {
            "Error: Filter with specified priority/protocol not found.\n\
             We have an error talking to the kernel"
        }
        (ErrorKind::NotFound, "chain", _) => NO_CHAIN,
        (ErrorKind::NotFound, "handle", _) => {
            "Error: Specified filter handle not found.\nWe have an error talking to the kernel"
        }
        (ErrorKind::Exists, _, Object::Chain) => {
            "Error: Filter chain already exists.\nWe have an error talking to the kernel"
        }
        (ErrorKind::Exists, ..) => "Error: Filter already exists.\nWe have an error talking to the kernel",
        (ErrorKind::Unsupported, ..) => {
            "RTNETLINK answers: Operation not supported\nWe have an error talking to the kernel"
        }
        _ => "RTNETLINK answers: Invalid argument\nWe have an error talking to the kernel",
    }
}

/// Linux's lines where no filter was ever added, or none in that chain.
pub(crate) const NO_CHAIN: &str =
    "Error: Cannot find specified filter chain.\nWe have an error talking to the kernel";
/// Linux's lines for filters of a qdisc that does not exist.
pub(crate) const NO_PARENT: &str =
    "Error: Parent Qdisc doesn't exists.\nWe have an error talking to the kernel";
