//! bpf (tc-bpf(8)): programs of the classic machine, as numbers.

use txweir_core::classify::filter::Bpf;
use txweir_core::classify::filter::bpf::{Instruction, PROGRAM_MAX};

use super::Shown;
use crate::action::Ways;
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;

pub(super) fn read(said: &Said<'_>) -> Result<Bpf, Diagnostic> {
    for key in ["object-file", "object-pinned"] {
        if said.settings.has(key) {
            let message = "a program of eBPF needs the kernel that it is loaded into: its helpers, its maps, its verifier";
            let err = said.error(code::UNSUPPORTED, said.at(key), message);
            return Err(err.expected("bytecode 'N,CODE JT JF K,...', a program of the classic machine"));
        }
    }
    if said.settings.has("bytecode-file") {
        let err = said.error(code::UNSUPPORTED, said.at("bytecode-file"), "files are not read here");
        return Err(err.expected("bytecode and the contents of the file"));
    }
    let Some(word) = said.settings.word("bytecode") else {
        let err = said.error(code::MISSING, said.kind, "bpf has no program");
        return Err(err.expected("bytecode 'N,CODE JT JF K,...'").linux(kernel::INVALID_TALKING));
    };
    let program = program(said, word)?;
    Ok(Bpf { program, direct: said.settings.has("direct-action"), skip_hw: said.settings.has("skip_hw") })
}

/// Reads `4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0`: the number of instructions, and each; a
/// comma may follow the last.
fn program(said: &Said<'_>, word: &Word) -> Result<Vec<Instruction>, Diagnostic> {
    let bad = |message: String, lines: &[&str]| {
        let err = said.error(code::BAD_VALUE, word, message);
        let lines = [lines, &["Unable to parse bpf command line"]].concat().join("\n");
        Err(err.expected("N,CODE JT JF K,... with decimal numbers").linux(lines))
    };
    let text = word.text.trim().strip_suffix(',').unwrap_or(word.text.trim());
    let (count, rest) = text.split_once(',').unwrap_or((text, ""));
    let Some(count) = count.trim().parse::<usize>().ok().filter(|n| (1..=PROGRAM_MAX).contains(n)) else {
        return bad(format!("bytecode: it begins with the number of instructions, 1 to {PROGRAM_MAX}"), &[]);
    };
    let mut program = Vec::with_capacity(count);
    for one in rest.split(',') {
        let numbers: Vec<&str> = one.split_whitespace().collect();
        let read = match numbers[..] {
            [code, jt, jf, k] => match (code.parse(), jt.parse(), jf.parse(), constant(k)) {
                (Ok(code), Ok(jt), Ok(jf), Some(k)) => Some(Instruction { code, jt, jf, k }),
                _ => None,
            },
            _ => None,
        };
        let Some(read) = read else {
            let line = format!("Error at instruction {}!", program.len());
            return bad(format!("bytecode: \"{}\" is no instruction", one.trim()), &[&line]);
        };
        program.push(read);
    }
    match program.len() == count {
        true => Ok(program),
        false => {
            let line = match program.len() < count {
                true => "Parsed program length is less than encoded length parameter!",
                false => "Real program length exceeds encoded length parameter!",
            };
            bad(format!("bytecode: it says {count} instructions and has {}", program.len()), &[line])
        }
    }
}

/// Reads a constant of 32 bits; ancillary offsets may be written as the negative numbers that they
/// are.
fn constant(word: &str) -> Option<u32> {
    word.parse().ok().or_else(|| word.parse::<i32>().ok().map(i32::cast_unsigned))
}

/// Returns a program in its printed form, which is also its input form.
fn text(program: &[Instruction]) -> String {
    let one = |Instruction { code, jt, jf, k }: &Instruction| format!(",{code} {jt} {jf} {k}");
    format!("'{}{}'", program.len(), program.iter().map(one).collect::<String>())
}

pub(super) fn show(rule: &Bpf, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    let handle = format!("{:#x}", shown.handle);
    out.word("handle", &handle, &format!("handle {handle} "));
    shown.class("flowid", ways, out);
    if rule.direct {
        out.flag("direct-action", "direct-action ");
    }
    if rule.skip_hw {
        out.flag("skip_hw", "skip_hw ");
    }
    out.flag("not_in_hw", "not_in_hw ");
    out.open("bytecode");
    out.uint("length", u32::try_from(rule.program.len()).unwrap_or(u32::MAX), "");
    out.open_list("insns");
    for Instruction { code, jt, jf, k } in &rule.program {
        out.open_item();
        out.uint("code", *code, "");
        out.uint("jt", *jt, "");
        out.uint("jf", *jf, "");
        out.uint("k", *k, "");
        out.close();
    }
    out.close_list();
    out.close();
    out.text(&format!("bytecode {}", text(&rule.program)));
}

pub(super) fn words(rule: &Bpf) -> String {
    let direct = if rule.direct { " direct-action" } else { "" };
    let skip_hw = if rule.skip_hw { " skip_hw" } else { "" };
    format!(" bytecode {}{direct}{skip_hw}", text(&rule.program))
}
