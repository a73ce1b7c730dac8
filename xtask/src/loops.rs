//! Loops of the data path state their bound.
//!
//! A `while` or `loop` there has beside it a `Bound` or a `Passes`, which debug builds assert, or a
//! comment `// Bound: ` with the reason. The rule finds a loop that says nothing; the tests with
//! debug assertions find a statement that is wrong.

/// The folders of the data path: what a packet, a dequeue or a timer can reach.
const HOMES: [&str; 8] =
    ["base/wheel", "classify/", "law/", "packet/", "path/", "qdisc/", "sched/", "turns/"];
/// Marks of a statement.
const MARKS: [&str; 4] = ["// Bound: ", "Bound::of(", "Passes::new(", "bound.turn()"];
/// Lines before a loop, and after its head, that belong to it.
const BESIDE: (usize, usize) = (4, 1);

/// Lists the loops of the data path without a bound. `code` is a file up to its tests.
pub fn check(name: &str, code: &str, found: &mut Vec<String>) {
    let Some(home) = name.strip_prefix("crates/core/src/") else { return };
    if !HOMES.iter().any(|folder| home.starts_with(folder)) || name.contains("/tests") {
        return;
    }
    let lines: Vec<&str> = code.lines().collect();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| begins_loop(line)) {
        let beside = &lines[i.saturating_sub(BESIDE.0)..(i + BESIDE.1 + 1).min(lines.len())];
        if !beside.iter().any(|line| MARKS.iter().any(|mark| line.contains(mark))) {
            let at = format!("{name}:{}", i + 1);
            found.push(format!("{at}: `{}`: state its bound, by a `Bound` or `// Bound: `", line.trim()));
        }
    }
}

/// True if a line begins a loop whose end is not in its head.
fn begins_loop(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line).trim();
    // A label comes before the word.
    let code = match code.split_once(": ") {
        Some((label, rest)) if label.starts_with('\'') => rest,
        _ => code,
    };
    let endless = code.starts_with("for ") && code.ends_with(".. {");
    let begins = code.starts_with("while ") || code.starts_with("loop {") || code.contains("= loop {");
    begins || endless
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_loop_states_its_bound() {
        let file = "crates/core/src/qdisc/x.rs";
        for (code, silent) in [
            ("while let Some(p) = next() {\n}", 1),
            ("let a = 1;\nlet b = loop {\n};", 1),
            ("'all: loop {\n}", 1),
            ("for k in 1.. {\n}", 1),
            ("for k in 1..n {\n}", 0),
            ("// A loop { of words; while here }\nlet while_ = 1;", 0),
            ("// Bound: 32 turns.\nwhile n > 0 {\n}", 0),
            ("let mut bound = Bound::of(n);\nloop {\n    bound.turn();\n}", 0),
            ("let mut bound = Bound::of(n);\n\n\n\n\nloop {\n    send();\n}", 1),
        ] {
            let mut found = Vec::new();
            super::check(file, code, &mut found);
            assert_eq!(found.len(), silent, "{code}: {found:?}");
            found.clear();
            super::check("crates/core/src/text/x.rs", code, &mut found);
            assert!(found.is_empty(), "no packet reaches the text layer");
        }
    }
}
