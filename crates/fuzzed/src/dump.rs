//! Dumps of a machine, as tc prints them in JSON.

use txweir_lint::dump::{Dump, read};
use txweir_tc::testing;

/// Reads a text as a dump, and runs the lines that it gives as a batch.
///
/// # Panics
/// If the text is refused without its name; if a line is not about a qdisc, class, filter, chain,
/// action or link; or if the batch breaks a law of [`testing::any_batch`].
pub fn dump(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text, "f", None) {
        Ok(Dump { lines, queues, .. }) => {
            assert!(queues >= 1, "no queue");
            assert!(lines.is_empty() || lines.ends_with('\n'), "the last line has no end: {lines:?}");
            for line in lines.lines() {
                let object = line.split(' ').next().unwrap_or("");
                let known = ["qdisc", "class", "filter", "chain", "action", "actions"].contains(&object);
                assert!(known, "{line:?}");
            }
            testing::any_batch(&lines);
        }
        Err(refusal) => {
            let said = refusal.to_string();
            assert!(said.starts_with("f:") && !said.contains('\n'), "{said:?}");
        }
    }
}
