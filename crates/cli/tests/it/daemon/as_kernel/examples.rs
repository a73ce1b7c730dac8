//! The examples of docs/as-kernel.md, block by block, as a shell runs them.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use super::super::{Dir, TXWEIR};
use super::clients::client;
use super::{missing, skip_without};
use crate::common::machine;

/// Returns the blocks below a heading, each without its indent.
fn blocks(text: &str, heading: &str) -> Vec<String> {
    let section =
        text.split(heading).nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let mut all: Vec<String> = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        let code = line.strip_prefix("    ");
        if let Some(code) = code {
            if !inside {
                all.push(String::new());
            }
            all.last_mut().into_iter().for_each(|block| *block += &format!("{code}\n"));
        }
        inside = code.is_some();
    }
    all
}

#[test]
fn the_examples_of_the_page_work() {
    let _machine = machine::shared();
    skip_without!("tc");
    for name in ["go", "pyroute2", "node_exporter"] {
        if let Err(reason) = client(name) {
            println!("skipped, because {reason}");
            return;
        }
    }
    if let Some(reason) = missing("curl") {
        println!("skipped, because {reason}");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/as-kernel.md")).expect("the page");
    let blocks = blocks(&text, "\n## Five clients\n");
    assert_eq!(blocks.len(), 6, "{blocks:#?}");
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    // The shell ends the daemon, however a block ends.
    let script =
        format!("set -e\ntrap 'kill %1' EXIT\n{}", blocks.concat().replace("9100", &port.to_string()));
    let dir = Dir::new();
    let path = [Path::new(TXWEIR).parent().expect("a folder").to_path_buf()];
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = path.into_iter().chain(std::env::split_paths(&inherited));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("PATH", std::env::join_paths(path).expect("a path"));
    command.current_dir(&root).env("XDG_RUNTIME_DIR", &dir.0).env("PYTHONDONTWRITEBYTECODE", "1");
    let done = command.env_remove("TXWEIR_SOCKET").output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    let mut compared = 0;
    for printed in script.lines().filter_map(|line| line.split("# prints: ").nth(1)) {
        assert!(out.contains(printed), "{printed} is not in {out}{err}");
        compared += 1;
    }
    assert_eq!(compared, 5);
}
