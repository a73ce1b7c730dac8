//! nat (tc-nat(8)). Differs from Linux (PARITY.md: nat-prefix).

use std::net::Ipv4Addr;

use txweir_core::classify::action::nat::Side;
use txweir_core::classify::action::{Control, Nat};

use super::{Shown, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::language::ipv4_masked;
use crate::out::Out;
use crate::said::Said;

const SIDES: [(&str, Side); 2] = [("ingress", Side::Destination), ("egress", Side::Source)];

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Nat, Control)>, Diagnostic> {
    let Some((key, side)) = SIDES.iter().find(|(key, _)| said.settings.has(key)) else { return Ok(None) };
    let [from, to] = said.settings.list(key) else { return Ok(None) };
    // tc takes these words for the address 0.0.0.0.
    let any = |word: &str| matches!(word, "any" | "all" | "default");
    let (old, mask) = if any(&from.text) { (0, u32::MAX) } else { ipv4_masked(&from.text) };
    let (new, of_new) = if any(&to.text) { (0, u32::MAX) } else { ipv4_masked(&to.text) };
    for (word, mask) in [(from, mask), (to, of_new)] {
        if mask.leading_ones() + mask.trailing_zeros() < 32 {
            let message = format!("nat {key}: \"{}\" has a mask that is no prefix", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("an IPv4 prefix (10.0.0.0/8)");
            return Err(err.linux(format!("Illegal nat construct ({key})")));
        }
    }
    if mask == 0 {
        let message = format!("nat {key}: \"{}\" leaves no bit to rewrite", from.text);
        let err = said.error(code::OUT_OF_RANGE, from, message);
        return Err(err.expected("a prefix of 1 to 32 bits, of which the new address takes the place"));
    }
    Ok(Some((Nat { side: *side, old, new, mask }, Control::Pass)))
}

fn direction(side: Side) -> &'static str {
    SIDES.iter().find(|(_, known)| *known == side).map_or("", |(key, _)| key)
}

/// Returns the old address with the length of its prefix.
fn old(nat: &Nat) -> String {
    format!("{}/{}", Ipv4Addr::from(nat.old), nat.mask.leading_ones())
}

pub(super) fn show(nat: &Nat, shown: &Shown<'_>, out: &mut Out) {
    let (direction, old, new) = (direction(nat.side), old(nat), Ipv4Addr::from(nat.new).to_string());
    // As in tc, its kind has another key than those of other actions.
    out.word("type", "nat", " nat ");
    out.word("direction", direction, direction);
    out.word("old_addr", &old, &format!(" {old}"));
    out.word("new_addr", &new, &format!(" {new}"));
    show_control(shown.action.control, "control_action", " ", out);
    shown.numbers("\n\t ", out);
}

pub(super) fn words(nat: &Nat) -> String {
    format!("nat {} {} {}", direction(nat.side), old(nat), Ipv4Addr::from(nat.new))
}
