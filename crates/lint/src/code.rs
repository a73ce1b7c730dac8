//! The stable names of the linter's findings. `docs/check.md` has an example of each rule. A line
//! that cannot be read has a name of [`txweir_tc::diagnostic::code`], as it has without the linter.

pub use txweir_tc::diagnostic::code::{BARE_RATE, CONFLICT, EXISTS, NOT_FOUND, NOT_IN_ENGINE, UNKNOWN_KIND};

/// A parent that no line makes.
pub const DANGLING_PARENT: &str = "dangling-parent";
/// A filter at a qdisc that asks none.
pub const NO_FILTERS: &str = "no-filters";
/// A class whose name is not under its parent's.
pub const WRONG_MAJOR: &str = "wrong-major";
/// The class for unclassified packets is not a leaf that exists.
pub const UNKNOWN_DEFAULT: &str = "unknown-default";
/// Unclassified packets are not shaped.
pub const NO_DEFAULT: &str = "no-default";
/// A filter leads to a class that no line makes.
pub const DANGLING_FLOWID: &str = "dangling-flowid";
/// A filter leads to a class that holds no packets: it has classes below.
pub const INNER_CLASS: &str = "inner-class";
/// A class that no filter leads to.
pub const UNREACHABLE_CLASS: &str = "unreachable-class";
/// A filter whose packets an earlier one takes.
pub const SHADOWED_FILTER: &str = "shadowed-filter";
/// A time without a unit.
pub const BARE_TIME: &str = "bare-time";
/// A rate in bytes per second, by a unit that looks like bits.
pub const BYTE_RATE: &str = "byte-rate";
/// Classes are promised more than is available.
pub const OVERSUBSCRIBED: &str = "oversubscribed";
/// A rate above that of the link.
pub const ABOVE_LINK: &str = "above-link";
/// A ceiling below the rate.
pub const CEIL_BELOW_RATE: &str = "ceil-below-rate";
/// A bucket smaller than one packet, or than the bytes of one tick of the clock.
pub const SMALL_BURST: &str = "small-burst";
/// A bucket of more than a second.
pub const LARGE_BURST: &str = "large-burst";
/// A quantum that the kernel warns about.
pub const QUANTUM: &str = "quantum";
/// Traffic classes and queues that do not fit together.
pub const MQPRIO: &str = "mqprio";
/// The queue of a class of mq or mqprio.
pub const QUEUE_NUMBER: &str = "queue-number";
/// The hardware is to schedule, because no option says otherwise.
pub const HW_DEFAULT: &str = "hw-default";
/// Priorities are mapped the wrong way round.
pub const PRIORITY_INVERSION: &str = "priority-inversion";
/// The kind takes no changes.
pub const CANNOT_CHANGE: &str = "cannot-change";
/// An object is removed with all below it.
pub const REPLACES: &str = "replaces";
/// The engine has it, and Linux does not.
pub const NOT_IN_LINUX: &str = "not-in-linux";
/// A part of a script whose effect only a run can tell.
pub const NOT_EVALUATED: &str = "not-evaluated";
/// A FIFO in which packets wait for seconds.
pub const LONG_WAIT: &str = "long-wait";
/// A netem whose limit is smaller than what its delay holds.
pub const NETEM_LIMIT: &str = "netem-limit";
/// A line of a script's run that tc refused.
pub const REFUSED: &str = "refused";
/// A script that did not end by itself, or ended with a failure.
pub const SCRIPT_FAILED: &str = "script-failed";
/// A filter for a mark that no rule of the firewall sets.
pub const UNSET_MARK: &str = "unset-mark";
/// A word that changes nothing in Linux.
pub const NO_EFFECT: &str = "no-effect";

/// The names of the rules that `docs/check.md` explains.
pub const RULES: [&str; 36] = [
    BARE_RATE,
    CONFLICT,
    EXISTS,
    NOT_FOUND,
    NOT_IN_ENGINE,
    DANGLING_PARENT,
    NO_FILTERS,
    WRONG_MAJOR,
    UNKNOWN_DEFAULT,
    NO_DEFAULT,
    DANGLING_FLOWID,
    INNER_CLASS,
    UNREACHABLE_CLASS,
    SHADOWED_FILTER,
    BARE_TIME,
    BYTE_RATE,
    OVERSUBSCRIBED,
    ABOVE_LINK,
    CEIL_BELOW_RATE,
    SMALL_BURST,
    LARGE_BURST,
    QUANTUM,
    MQPRIO,
    QUEUE_NUMBER,
    HW_DEFAULT,
    PRIORITY_INVERSION,
    CANNOT_CHANGE,
    REPLACES,
    NOT_IN_LINUX,
    NOT_EVALUATED,
    REFUSED,
    SCRIPT_FAILED,
    UNSET_MARK,
    LONG_WAIT,
    NETEM_LIMIT,
    NO_EFFECT,
];
