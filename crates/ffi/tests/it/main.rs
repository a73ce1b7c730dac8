//! The C library as a C program finds it: the header, both libraries, and a program that counts
//! every frame.

mod dpdk;

use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = include_str!("../../include/txweir.h");
const SOURCE: &str = include_str!("../../src/abi.rs");

/// Returns a program of this machine, or says why the test is skipped.
fn found(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped, because there is no {program}");
    }
    there
}

/// Returns the folder in which cargo has built the libraries.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("its folder").to_owned()
}

/// Builds the program and links it with what `link` names.
fn program(name: &str, link: &[String]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(here.join("include")).arg(here.join("tests/c/queue.c")).arg("-o").arg(&out).args(link);
    let done = cc.output().expect("cc");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    out
}

fn runs(command: &mut Command) {
    let done = command.output().expect("the program");
    let text = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{command:?}: {text}");
    assert!(text.contains(" sent, ") && text.contains(" discarded"), "{text}");
}

#[test]
fn a_c_program_with_the_static_library_loses_no_frame_and_no_byte() {
    if !found("cc") {
        return;
    }
    let library = built().join("libtxweir_ffi.a").display().to_string();
    let system = ["-lpthread", "-ldl", "-lm"].map(String::from);
    let program = program("queue-static", &[&[library], &system[..]].concat());
    runs(&mut Command::new(&program));
    if found("valgrind") {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--leak-check=full", "--error-exitcode=9"]);
        runs(valgrind.arg(&program));
    }
}

#[test]
fn a_c_program_with_the_shared_library_finds_it_by_its_name() {
    if !found("cc") {
        return;
    }
    // The name in the library is what an installed program looks for.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared");
    std::fs::create_dir_all(&folder).expect("a folder");
    let installed = folder.join("libtxweir.so.0");
    std::fs::copy(built().join("libtxweir_ffi.so"), &installed).expect("a copy");
    let program = program("queue-shared", &[installed.display().to_string()]);
    runs(Command::new(&program).env("LD_LIBRARY_PATH", &folder));
}

/// The header is made by a program that not every machine has: no function, constant or structure
/// of the source may be missing, and none may be there that the source has not.
#[test]
fn the_header_has_what_the_source_has() {
    let names = |text: &str, before: &str| -> Vec<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let parts = text.split(before).skip(1);
        parts.map(|part| part.chars().take_while(|c| is_name(*c)).collect()).collect()
    };
    let code = SOURCE.split("#[cfg(test)]").next().expect("the code");
    let mut all = names(code, "extern \"C\" fn ");
    assert!(all.len() >= 12, "{all:?}");
    for name in &all {
        assert!(HEADER.contains(&format!("{name}(")), "{name} is not in the header");
    }
    all.extend(names(code, "pub struct ").into_iter().chain(names(code, "pub type ")));
    for constant in names(code, "pub const ") {
        let value = code.split(&format!("pub const {constant}: ")).nth(1).expect("its line");
        let value = value.split("= ").nth(1).and_then(|v| v.split(';').next()).expect("its value");
        assert!(HEADER.contains(&format!("#define {constant} {value}\n")), "{constant} {value}");
        all.push(constant);
    }
    for name in names(HEADER, "txweir_") {
        let name = format!("txweir_{name}");
        assert!(all.contains(&name), "{name} is in the header and not in the source");
    }
    // A member that the header has not would move those behind it.
    let code_members = code.split("pub struct ").skip(2).flat_map(|s| {
        let body = s.split('}').next().unwrap_or("");
        names(body, "    pub ")
    });
    for member in code_members {
        assert!(HEADER.contains(&format!("{member};")), "member {member} is not in the header");
    }
}

/// The program of docs/c.md, with functions of the program's own that it calls, compiles.
#[test]
fn the_program_of_the_page_compiles() {
    if !found("cc") {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let program = page.split("```c\n").nth(1).and_then(|p| p.split("```").next()).expect("a program");
    let own = "#include <stdint.h>\n#include <stddef.h>\nstruct txweir_packet; struct txweir_next;\n\
        void packet_free(void *); uint64_t now(void); int say(const char *);\n\
        size_t receive(struct txweir_packet *, size_t); void transmit(struct txweir_packet *, size_t);\n\
        uint32_t finished_packets(void); uint32_t finished_bytes(void);\n\
        void sleep_until(struct txweir_next *);\n";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page.c");
    std::fs::write(&file, format!("{own}{program}")).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-I"]);
    let done = cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg(&file).output().expect("cc");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
