//! Linux's own line for a refusal. `tc` prints it before the diagnostic, because programs that call
//! tc look for it: chaos-mesh, tcconfig and LibreQoS decide by these lines.
//!
//! The lines are those that tc 6.1 prints on Linux 6.12. Where the kernel refuses the value of an
//! option, this module knows the general line only; ets, red, mqprio and taprio have sentences of
//! their own there.

use txweir_core::text::error::{Object, Reason};
use txweir_core::{ConfigError, ErrorKind, Handle};

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

/// Returns Linux's lines for a `filter` or `chain` command that core refuses.
pub(crate) fn for_filter(err: &ConfigError, verb: Verb) -> &'static str {
    let key = err.key.as_deref().unwrap_or("");
    let own = match err.object {
        Object::Filter(Some("u32")) => for_u32(err, key),
        Object::Filter(Some("flower")) if err.kind == ErrorKind::Conflict && key.is_empty() => {
            Some(talking!("Error: cls_flower: Mask does not fit the template."))
        }
        Object::Filter(Some("matchall")) if err.kind == ErrorKind::Exists => {
            Some(talking!("RTNETLINK answers: File exists"))
        }
        Object::Filter(Some("flow")) if err.kind == ErrorKind::OutOfRange => {
            Some(talking!("RTNETLINK answers: Numerical result out of range"))
        }
        _ => None,
    };
    if let Some(own) = own {
        return own;
    }
    match (err.kind, key, err.object) {
        (ErrorKind::Conflict, "protocol", _) => {
            talking!("Error: Protocol mismatch for filter with specified priority.")
        }
        (ErrorKind::Conflict, "kind", _) => {
            talking!("Error: Specified filter kind does not match existing one.")
        }
        (ErrorKind::NotFound, "prio" | "protocol", _) => {
            talking!("Error: Filter with specified priority/protocol not found.")
        }
        (ErrorKind::NotFound, "chain", _) => NO_CHAIN,
        (ErrorKind::NotFound, "handle", _) if verb == Verb::Change => {
            talking!("Error: Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter.")
        }
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
fn for_u32(err: &ConfigError, key: &str) -> Option<&'static str> {
    Some(match (err.kind, key) {
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

/// Linux's lines for a filter that is not there.
pub(crate) const NO_FILTER: &str = talking!("Error: Specified filter handle not found.");
/// Linux's lines where its general answer is that the words make no sense.
pub(crate) const INVALID_TALKING: &str = talking!("RTNETLINK answers: Invalid argument");
/// Linux's lines for hardware that is not there.
pub(crate) const UNSUPPORTED_TALKING: &str = talking!("RTNETLINK answers: Operation not supported");
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
