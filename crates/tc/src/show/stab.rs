//! A qdisc's size table as `tc -d` prints it: what is zero is left out.

use txweir_core::value::Json;

use crate::ast::{LinkLayer, Stab};
use crate::json::Object;

/// The key and the value of all that a size table says.
fn members(stab: &Stab) -> Vec<(&'static str, Json)> {
    let number = |n: u32| (n > 0).then_some(Json::Uint(n.into()));
    let layer = stab.linklayer.map(|l| Json::Text(link_layer(l).into()));
    [
        ("linklayer", layer),
        ("mpu", stab.mpu.and_then(number)),
        ("mtu", stab.mtu.and_then(number)),
        ("tsize", stab.tsize.and_then(number)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

/// A size table as `tc -d` prints it.
pub(super) fn text(stab: &Stab) -> String {
    let mut words = Vec::new();
    for (key, value) in members(stab) {
        words.push(match value {
            Json::Text(text) => format!("{key} {text}"),
            Json::Uint(n) => format!("{key} {n}"),
            _ => continue,
        });
    }
    let at = usize::from(stab.linklayer.is_some());
    if let Some(overhead) = stab.overhead.filter(|o| *o != 0) {
        words.insert(at, format!("overhead {overhead}"));
    }
    words.join(" ")
}

/// A size table as `tc -d -j` prints it.
pub(super) fn object(stab: &Stab) -> String {
    let mut o = Object::new();
    let overhead = stab.overhead.filter(|n| *n != 0);
    let said = members(stab);
    let (first, rest) = said.split_at(usize::from(stab.linklayer.is_some()));
    o = first.iter().fold(o, |o, (key, value)| o.value(key, value));
    if let Some(overhead) = overhead {
        o = o.raw("overhead", &overhead.to_string());
    }
    rest.iter().fold(o, |o, (key, value)| o.value(key, value)).finish()
}

const fn link_layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Ethernet => "ethernet",
        LinkLayer::Atm => "atm",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_table_as_tc_prints_it() {
        let full = Stab {
            overhead: Some(10),
            mpu: Some(64),
            linklayer: Some(LinkLayer::Atm),
            mtu: Some(2047),
            tsize: Some(512),
        };
        assert_eq!(text(&full), "linklayer atm overhead 10 mpu 64 mtu 2047 tsize 512");
        assert_eq!(object(&full), r#"{"linklayer":"atm","overhead":10,"mpu":64,"mtu":2047,"tsize":512}"#);
        let negative = Stab { overhead: Some(-4), ..Stab::default() };
        assert_eq!((text(&negative), object(&negative)), ("overhead -4".into(), r#"{"overhead":-4}"#.into()));
    }
}
