//! "Did you mean": the nearest known word, and the value behind a mistyped unit.

/// Unit suffixes of all types, lower case, the most usual ones first (tc(8), "UNITS").
const UNITS: &[&str] = &[
    "mbit", "kbit", "gbit", "tbit", "bit", "ms", "us", "s", "ns", "kb", "mb", "gb", "b", "mbps", "kbps",
    "gbps", "tbps", "bps", "kibit", "mibit", "gibit", "tibit", "kibps", "mibps", "gibps", "tibps", "msec",
    "msecs", "usec", "usecs", "sec", "secs", "nsec", "nsecs", "k", "m", "g", "p",
];

/// Longest word that is compared with others, in bytes: the time of a comparison grows with the
/// product of the lengths, and no word of tc's is half as long.
const LONGEST: usize = 64;

/// Returns the number of letters added, left out, changed or swapped between two words.
fn distance(given: &str, word: &str) -> usize {
    #[cfg(test)]
    tests::COMPARED.with(|compared| compared.set(compared.get() + given.len() * word.len()));
    strsim::damerau_levenshtein(given, word)
}

/// Returns the candidate nearest to `given`: the only one that begins with it, else the one with
/// the fewest letters added, left out, changed or swapped, at most one in three. A word of more
/// than 64 bytes has none.
pub fn closest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > LONGEST {
        return None;
    }
    let given = given.to_ascii_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let mut begin = candidates.iter().filter(|c| given.len() >= 2 && c.starts_with(&given));
    if let (Some(only), None) = (begin.next(), begin.next()) {
        return Some(only);
    }
    let most = (given.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (distance(&given, c), c))
        // A candidate that shares no letter with the given word is no help.
        .filter(|(distance, c)| *distance <= most && *distance < c.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// True if a word is a number and nothing else: `10`, `1.5`.
pub fn is_number(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// True if a word is a unit and nothing else: `ms`, `Mbit`.
pub(crate) fn is_unit(word: &str) -> bool {
    word.len() <= LONGEST && UNITS.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns the probable value of a mistyped `word`: a unit with a letter wrong (`10mbitt`), cut
/// short (`10m`) or spelt out (`5kbytes`), or a decimal comma; the nearest that `accepts` returns
/// true for.
pub(crate) fn value(word: &str, accepts: impl Fn(&str) -> bool) -> Option<String> {
    if word.len() > LONGEST {
        return None;
    }
    if word.contains(',') {
        let dotted = word.replacen(',', ".", 1);
        if accepts(&dotted) {
            return Some(dotted);
        }
    }
    let digits = word.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = word.split_at(digits);
    if number.is_empty() || suffix.is_empty() {
        return None;
    }
    let suffix = suffix.to_ascii_lowercase();
    if let Some(prefix) = suffix.strip_suffix("bytes").or(suffix.strip_suffix("byte")) {
        return Some(format!("{number}{prefix}b")).filter(|v| accepts(v));
    }
    let distance = |unit: &str| match unit.starts_with(&suffix) {
        true => 0,
        false => distance(&suffix, unit),
    };
    // Sorting is stable, so that of equally near units the more usual one is tried first.
    let mut units: Vec<_> = UNITS.iter().map(|u| (distance(u), *u)).filter(|(d, _)| *d <= 1).collect();
    units.sort_by_key(|(d, _)| *d);
    units.into_iter().map(|(_, unit)| format!("{number}{unit}")).find(|v| accepts(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::text::value::{Value, Words};
    use txweir_core::{Bytes, Nanos, Rate};

    std::thread_local! {
        /// Steps of comparisons in this thread.
        pub(super) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// A word of a megabyte costs no more than a word of a hundred letters.
    #[test]
    fn long_words_are_not_compared() {
        let compared = |word: &str| {
            COMPARED.with(|all| all.set(0));
            assert_eq!((closest(word, UNITS.iter().copied()), is_unit(word)), (None, false));
            assert_eq!(value(&format!("1{word}"), |_| false), None);
            COMPARED.with(std::cell::Cell::get)
        };
        let most = compared(&"q".repeat(LONGEST - 1));
        assert!(most > 0 && compared(&"q".repeat(1 << 20)) == 0, "{most}");
    }

    #[test]
    fn nearest_words() {
        let kinds = ["bfifo", "codel", "fq_codel", "pfifo", "pfifo_fast", "prio", "tbf"];
        for (given, meant) in [
            ("fq_codl", Some("fq_codel")),
            ("fq-codel", Some("fq_codel")),
            ("FQ_CODEL", Some("fq_codel")),
            ("fq", Some("fq_codel")),
            ("pfifofast", Some("pfifo_fast")),
            ("tfb", Some("tbf")),
            ("htb", None),
            ("netem", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(closest(given, kinds), meant, "{given:?}");
        }
        assert_eq!(closest("limt", ["flows", "limit", "target"]), Some("limit"));
    }

    #[test]
    fn mistyped_units() {
        let rate = |w: &str| Rate::take(&mut Words::new(&[w])).is_ok();
        let time = |w: &str| Nanos::take(&mut Words::new(&[w])).is_ok();
        for (given, meant) in [
            ("10mbitt", Some("10mbit")),
            ("10m", Some("10mbit")),
            ("1.5Gbits", Some("1.5gbit")),
            ("1,5mbit", Some("1.5mbit")),
            ("10mb", Some("10mbit")),
            ("ten", None),
            ("10mbyte", None),
            ("10%", None),
            ("10xyzzy", None),
        ] {
            assert_eq!(value(given, rate).as_deref(), meant, "{given:?}");
        }
        let size = |w: &str| Bytes::take(&mut Words::new(&[w])).is_ok();
        assert_eq!(value("5kbytes", size).as_deref(), Some("5kb"));
        assert_eq!(value("5mss", time).as_deref(), Some("5ms"));
        assert_eq!(value("5m", time).as_deref(), Some("5ms"));
        assert!(
            is_unit("MBit") && !is_unit("foo") && is_number("1.5") && !is_number(".") && !is_number("1k")
        );
    }
}
