//! The words of cake_mq, a cake for each transmit queue: Linux has it, the engine does not. They
//! are those of cake, which the engine has, so that cake's declarations give them.

use std::sync::LazyLock;

use txweir_core::qdisc::kind;
use txweir_core::text::params::Param;
use txweir_core::text::value::Quantity;

use super::table::{Arg, Grammar, Key, U32, key};

/// The grammar of cake_mq.
pub(super) static CAKE_MQ: LazyLock<[Grammar; 1]> = LazyLock::new(|| {
    let params = kind("cake").map_or(&[][..], |spec| spec.params);
    let keys: Vec<Key> = params.iter().flat_map(keys).collect();
    // Leaked once in the life of the process, because grammars are otherwise static.
    [Grammar::of(&["cake_mq"], Vec::leak(keys))]
});

/// Returns the keys of a parameter: words that stand alone, and words with a value.
fn keys(param: &'static Param) -> impl Iterator<Item = Key> {
    let alone = if param.flag { param.words } else { param.alone };
    let valued = if param.flag { &[][..] } else { param.words };
    let one = |word: &'static &'static str| std::slice::from_ref(word);
    let valued = valued.iter().map(move |word| key(one(word), arg(param, word)));
    valued.chain(alone.iter().map(move |word| key(one(word), &[])))
}

/// Returns the form of a key's value (tc-cake(8)).
fn arg(param: &Param, word: &str) -> &'static [Arg] {
    match (param.quantity, word) {
        (Quantity::Rate, _) => &[Arg::Rate],
        (Quantity::Bytes, _) => &[Arg::Size],
        (Quantity::Time, _) => &[Arg::Time],
        (_, "overhead") => &[Arg::Int(-64, 256)],
        (_, "mpu") => &[Arg::Uint(0, 256)],
        _ => &[U32],
    }
}
