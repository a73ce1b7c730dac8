//! The commands that call tc.

use txweir_tc::lex::Word;

use super::words::Raw;

/// True if a command is a tc line, as far as its words are known: tc itself, or a command of the
/// script's own with an object and a verb of tc (`call_tc qdisc add`).
pub(super) fn calls_tc(words: &[Raw]) -> bool {
    const OBJECTS: [&str; 5] = ["qdisc", "class", "filter", "chain", "actions"];
    const VERBS: [&str; 6] = ["add", "replace", "change", "del", "delete", "link"];
    let literal =
        |at: usize, known: &[&str]| words.get(at).and_then(Raw::literal).is_some_and(|w| known.contains(&w));
    // `which tc` and `[ -x /sbin/tc ]` call something else.
    let is_object = |w: &str| w.starts_with('-') || OBJECTS.iter().any(|object| object.starts_with(w));
    let has_object = |at: usize| match words.get(at) {
        Some(next) => next.literal().is_none_or(is_object),
        None => literal(0, &["tc", "xargs"]),
    };
    words.iter().enumerate().any(|(at, word)| {
        let value = word.words().ok().and_then(|words| Some(words.first()?.text.clone()));
        value.is_some_and(|text| text == "tc" || text.ends_with("/tc")) && has_object(at + 1)
            || literal(at, &OBJECTS) && literal(at + 1, &VERBS)
    })
}

/// Returns the words after `tc`, if tc is called, through `sudo` and the like, and the namespace.
pub(super) fn tc_of(words: &[Word]) -> Option<(Option<Word>, &[Word])> {
    let mut words = words;
    let mut netns = None;
    loop {
        let [first, rest @ ..] = words else { return None };
        match first.text.as_str() {
            "tc" => return Some((netns, rest)),
            path if path.ends_with("/tc") => return Some((netns, rest)),
            "qdisc" | "class" | "filter" | "chain" | "actions" => return Some((netns, words)),
            "sudo" | "exec" | "command" | "nice" | "env" | "nohup" | "!" | "doas" => {
                words = rest;
                while let [option, rest @ ..] = words
                    && option.text.starts_with('-')
                {
                    words = rest;
                }
            }
            "ip" => match rest {
                [object, verb, name, rest @ ..] if object.text.starts_with("netn") && verb.text == "exec" => {
                    netns = Some(name.clone());
                    words = rest;
                }
                _ => return None,
            },
            _ => return None,
        }
    }
}
