//! csum (tc-csum(8)).

use txweir_core::classify::action::{Control, Csum};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::out::Out;
use crate::said::Said;
use crate::sentence::INCOMPLETE;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Csum, Control)>, Diagnostic> {
    let s = &said.settings;
    let csum = Csum {
        iph: s.has("iph"),
        icmp: s.has("icmp"),
        igmp: s.has("igmp"),
        tcp: s.has("tcp"),
        udp: s.has("udp"),
        udplite: s.has("udplite"),
        sctp: s.has("sctp"),
    };
    if csum == Csum::default() {
        return match s.has("index") && s.iter().count() == 1 {
            true => Ok(None),
            false => {
                let err = said.error(code::MISSING, said.kind, "csum names no checksum");
                let err = err.expected("ip4h, icmp, igmp, tcp, udp, udplite, sctp");
                Err(match s.iter().next() {
                    None => err.linux(INCOMPLETE),
                    Some(_) => err.linux("Illegal csum construct, empty <UPDATE> list"),
                })
            }
        };
    }
    Ok(Some((csum, Control::Pass)))
}

/// Returns the names of the checksums, in tc's order.
fn names(csum: &Csum) -> Vec<&'static str> {
    let all = [
        (csum.iph, "iph"),
        (csum.icmp, "icmp"),
        (csum.igmp, "igmp"),
        (csum.tcp, "tcp"),
        (csum.udp, "udp"),
        (csum.udplite, "udplite"),
        (csum.sctp, "sctp"),
    ];
    all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect()
}

pub(super) fn show(csum: &Csum, shown: &Shown<'_>, out: &mut Out) {
    let names = names(csum).join(", ");
    out.word("kind", "csum", "csum ");
    out.word("csum", &names, &format!("({names}) "));
    show_control(shown.action.control, "control_action", "action ", out);
    shown.numbers("\n\t", out);
}

pub(super) fn words(csum: &Csum) -> String {
    format!("csum {}", names(csum).join(" "))
}
