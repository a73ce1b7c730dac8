//! Requests that change something, as the log has them.

use txweir_tc::tool::Flags;

use crate::effect::{self, Effect};
use crate::protocol::Ask;

/// Most bytes of a line about a request: words of a request can be very long.
const LINE_MAX: usize = 200;

/// Returns the words of a request that changes something if it is done; `None` for one that does
/// not.
pub fn change(ask: &Ask) -> Option<String> {
    (effect::of(ask) == Effect::Changes).then(|| words(ask))
}

/// Returns the word ahead of a change that was answered with this status; empty if it was done. Of
/// a batch that is not atomic, the lines ahead of the wrong one may be done.
pub fn result(ask: &Ask, status: u8) -> &'static str {
    let partly = |flags: &Flags| flags.batch.is_some() && !flags.atomic;
    match ask {
        _ if status == 0 => "",
        Ask::Tc { args, .. } if Flags::read(args).is_ok_and(|flags| partly(&flags)) => "failed: ",
        _ => "refused: ",
    }
}

/// Returns the words of a request, at most some 200 bytes.
pub fn words(ask: &Ask) -> String {
    let text = match ask {
        Ask::Save => "save".to_owned(),
        Ask::Version => "version".to_owned(),
        Ask::Link { args } => format!("link {}", args.join(" ")),
        Ask::Tc { args, batch, .. } => match batch.as_ref().filter(|_| is_batch(args)) {
            Some(batch) => format!("tc -b {}, {} lines", batch.name, batch.text.lines().count()),
            None => format!("tc {}", args.join(" ")),
        },
    };
    text[..text.floor_char_boundary(LINE_MAX)].to_owned()
}

fn is_batch(args: &[String]) -> bool {
    Flags::read(args).is_ok_and(|flags| flags.batch.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Batch;

    #[test]
    fn what_changes_something_is_told_and_what_looks_is_not() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let tc = |line: &str| change(&Ask::Tc { args: words(line), batch: None, class_names: None });
        let link = |line: &str| change(&Ask::Link { args: words(line) });
        for line in ["qdisc", "-s qdisc show dev a", "-j class ls dev a", "filter l", "qdisc sh", "-V"] {
            assert_eq!(tc(line), None, "{line}");
        }
        assert_eq!(
            (link("show -j"), change(&Ask::Save), change(&Ask::Link { args: vec![] })),
            (None, None, None)
        );
        for line in ["qdisc add dev a root pfifo", "q d dev a root", "-s class change dev a classid 1:1 drr"]
        {
            assert_eq!(tc(line), Some(format!("tc {line}")));
        }
        assert_eq!(link("del a").as_deref(), Some("link del a"));
        let batch = Some(Batch { name: "p.tc".into(), text: "a\nb\n".into(), lines_before: 0, more: false });
        let ask = |flags: &str| Ask::Tc { args: words(flags), batch: batch.clone(), class_names: None };
        assert_eq!(change(&ask("-b p.tc")).as_deref(), Some("tc -b p.tc, 2 lines"));
        assert_eq!(change(&ask("--dry-run -b p.tc")), None);
        assert_eq!((result(&ask("-b p.tc"), 0), result(&ask("-b p.tc"), 2)), ("", "failed: "));
        assert_eq!(result(&ask("--atomic -b p.tc"), 2), "refused: ");
        let long = format!("qdisc add dev a root {}", "é".repeat(500));
        assert_eq!(tc(&long).map(|line| line.len()), Some(200));
    }
}
