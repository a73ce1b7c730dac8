//! The output of a command in the documents is its real output, literally. To write the present
//! output into them: `TXWEIR_BLESS=1 cargo test -p txweir-cli --test it documents`.

use std::path::Path;
use std::process::Command;

use crate::common::machine;

/// The beginning of a block of a command and its output.
const BEGIN: &str = "```console\n$ ";
const END: &str = "\n```";

/// Runs a command line as it stands in a document, from the root of the repository.
fn output(root: &Path, line: &str) -> String {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("txweir"), "{line}");
    let run = Command::new(env!("CARGO_BIN_EXE_txweir")).args(words).current_dir(root).output();
    let run = run.unwrap_or_else(|e| panic!("{line}: {e}"));
    assert!(run.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("text")
}

#[test]
fn commands_print_what_the_documents_show() {
    let _machine = machine::shared();
    for (name, commands) in [("docs/try.md", 3), ("README.md", 1)] {
        document(name, commands);
    }
}

/// Compares a document, in which `expected` commands stand, with the output of its commands.
fn document(name: &str, expected: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(name);
    let shown = std::fs::read_to_string(&path).expect("the document");
    let mut parts = shown.split(BEGIN);
    let mut true_text = parts.next().expect("its beginning").to_string();
    let mut commands = 0;
    for part in parts {
        let end = part.find(END).unwrap_or_else(|| panic!("{name}: a block without its end"));
        let line = part[..end].lines().next().expect("a command");
        let printed = output(&root, line);
        true_text.push_str(&format!("{BEGIN}{line}\n{}{}", printed.trim_end(), &part[end..]));
        commands += 1;
    }
    assert_eq!(commands, expected, "{name}");
    if std::env::var_os("TXWEIR_BLESS").is_some() {
        std::fs::write(&path, &true_text).expect("written");
    } else {
        let wrong = shown.lines().zip(true_text.lines()).find(|(shown, is)| shown != is);
        assert!(shown == true_text, "{name} shows and is: {wrong:?}");
    }
}

/// The README shows a part of the table that docs/try.md shows whole.
#[test]
fn the_table_of_the_readme_is_that_of_the_story() {
    let _machine = machine::shared();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("the document");
    let (readme, story) = (read("README.md"), read("docs/try.md"));
    let from = readme.find("```text\n").expect("the table");
    let table: Vec<&str> = readme[from..].lines().skip(1).take_while(|line| *line != "```").collect();
    assert_eq!(table.len(), 5, "{table:?}");
    for line in table {
        assert!(story.lines().any(|shown| shown == line), "{line}");
    }
}
