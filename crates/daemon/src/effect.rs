//! The effect of a request, known before it is performed: a socket for readers refuses those that
//! could change something, and the log has them.

use txweir_tc::tool::{self, Flags};

use crate::grammar::{self, Verb};
use crate::protocol::Ask;

/// The effect that a request has if it is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It prints something, and changes nothing.
    Looks,
    /// It tries changes on copies, and changes nothing.
    Rehearses,
    /// It changes something, or sends packets.
    Changes,
    /// It cannot be read, or asks for help: it has no effect, and a text for its reply.
    Unread,
}

/// Returns the effect of a request. It is read as for its performance; every verb is named here or
/// in [`txweir_tc::Verb::looks`], so that the compiler refuses a new one that is not.
pub fn of(ask: &Ask) -> Effect {
    match ask {
        Ask::Save | Ask::Version => Effect::Looks,
        Ask::Link { args } => match grammar::read(args) {
            Ok(Verb::Show(_)) => Effect::Looks,
            Ok(Verb::Add(_) | Verb::Set(_) | Verb::Replace(_) | Verb::Del(_) | Verb::Send(_)) => {
                Effect::Changes
            }
            Err(_) => Effect::Unread,
        },
        Ask::Tc { args, .. } => of_tc(args),
    }
}

fn of_tc(args: &[String]) -> Effect {
    let Ok(flags) = Flags::read(args) else { return Effect::Unread };
    // The lines of a batch are not looked at: it may have any.
    let looks = tool::operation(args).map(txweir_tc::Verb::looks);
    match (looks, flags.batch.is_some() && !flags.version) {
        (Some(true), _) => Effect::Looks,
        (None, false) => Effect::Unread,
        (Some(false), _) | (None, true) if flags.dry_run => Effect::Rehearses,
        (Some(false), _) | (None, true) => Effect::Changes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_tc::command::VERBS;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    fn tc(line: &str) -> Effect {
        of(&Ask::Tc { args: words(line), batch: None, class_names: None })
    }

    /// Every verb of every object, as tc declares them, and as tc lets them be cut short.
    #[test]
    fn of_tc_only_show_list_and_get_look() {
        let looks = ["show", "list", "get", "lst", "ls", "sh", "l", "g"];
        let mut seen = 0;
        for (object, verbs) in VERBS {
            for (verb, _) in verbs {
                let expected = if looks.contains(verb) { Effect::Looks } else { Effect::Changes };
                for line in [format!("{object} {verb} dev a"), format!("-s -j {} {verb}", &object[..3])] {
                    assert_eq!(tc(&line), expected, "{line}");
                }
                assert_eq!(
                    tc(&format!("--dry-run {object} {verb} dev a")) == Effect::Looks,
                    looks.contains(verb)
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 33);
        for line in ["qdisc", "class ls dev a", "qdisc lst", "qdisc sh", "filter l", "filter g dev a"] {
            assert_eq!(tc(line), Effect::Looks, "{line}");
        }
        for line in
            ["q d dev a root", "qdisc a dev a root pfifo", "-b p.tc", "-force -b -", "--atomic -b p.tc"]
        {
            assert_eq!(tc(line), Effect::Changes, "{line}");
        }
        for line in ["--dry-run -b p.tc", "qdisc del dev a root --dry-run"] {
            assert_eq!(tc(line), Effect::Rehearses, "{line}");
        }
        for line in ["-V", "-V -b p.tc", "help", "qdisc help", "qdisc fly", "fly", "monitor", "-q", ""] {
            assert_eq!(tc(line), Effect::Unread, "{line:?}");
        }
    }

    /// Every verb of `link`, as its grammar declares them.
    #[test]
    fn of_link_only_show_looks() {
        let link = |line: &str| of(&Ask::Link { args: words(line) });
        let verbs = grammar::verbs();
        assert_eq!(verbs, ["add", "set", "replace", "del", "show", "send"]);
        for verb in verbs {
            let expected = if verb == "show" { Effect::Looks } else { Effect::Changes };
            assert_eq!(link(&format!("{verb} a")), expected, "{verb}");
            assert_eq!(link(&format!("{verb} --help")), Effect::Unread);
        }
        assert_eq!((link(""), link("fly a"), link("del")), (Effect::Looks, Effect::Unread, Effect::Unread));
    }
}
