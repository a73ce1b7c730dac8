//! A qdisc's size table as `tc -d` prints it, and as the words that make it: zeros are left out.

use txweir_core::sched::stab::Stab;
use txweir_core::text::value::{exact_of, text_of};

use crate::json::{Object, quote};

/// Returns the key, the value, and true for text, of all members of a size table.
fn members(stab: &Stab) -> Vec<(&'static str, String, bool)> {
    let number = |key, n: u32| (n > 0).then(|| (key, n.to_string(), false));
    [
        stab.linklayer.map(|layer| ("linklayer", text_of(&layer), true)),
        (stab.overhead != 0).then(|| ("overhead", stab.overhead.to_string(), false)),
        number("mpu", stab.mpu),
        number("mtu", stab.mtu),
        number("tsize", stab.tsize),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns a size table as `tc -d` prints it.
pub(super) fn text(stab: &Stab) -> String {
    let words: Vec<String> =
        members(stab).into_iter().map(|(key, value, _)| format!("{key} {value}")).collect();
    words.join(" ")
}

/// Returns a size table as `tc -d -j` prints it.
pub(super) fn object(stab: &Stab) -> String {
    let member = |o: Object, (key, value, text): (&str, String, bool)| {
        o.raw(key, &if text { quote(&value) } else { value })
    };
    members(stab).into_iter().fold(Object::new(), member).finish()
}

/// Returns the words that make it, without loss.
pub(super) fn words(stab: &Stab) -> String {
    let layer = stab.linklayer.map(|layer| format!(" linklayer {}", exact_of(&layer))).unwrap_or_default();
    let Stab { overhead, mpu, mtu, tsize, .. } = stab;
    format!("stab{layer} overhead {overhead} mpu {mpu} mtu {mtu} tsize {tsize}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::base::link::LinkLayer;

    #[test]
    fn a_size_table_as_tc_prints_it() {
        let atm = Some(LinkLayer::Atm);
        let full = Stab { overhead: 10, mpu: 64, linklayer: atm, mtu: 2047, tsize: 512 };
        assert_eq!(text(&full), "linklayer atm overhead 10 mpu 64 mtu 2047 tsize 512");
        assert_eq!(object(&full), r#"{"linklayer":"atm","overhead":10,"mpu":64,"mtu":2047,"tsize":512}"#);
        assert_eq!(words(&full), "stab linklayer atm overhead 10 mpu 64 mtu 2047 tsize 512");
        let negative = Stab { overhead: -4, ..Stab::default() };
        assert_eq!((text(&negative), object(&negative)), ("overhead -4".into(), r#"{"overhead":-4}"#.into()));
    }
}
