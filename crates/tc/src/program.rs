//! Programs of the classic machine as words, `bytecode 'N,CODE JT JF K,...'`, of filters and of
//! actions.

use txweir_core::classify::machine::{Instruction, PROGRAM_MAX};

use crate::diagnostic::{Diagnostic, code};
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;

/// Reads the program of a filter or an action; `None` if the words have none. `last` is the line
/// that tc prints behind those of a refusal.
pub(crate) fn read(said: &Said<'_>, last: &str) -> Result<Option<Vec<Instruction>>, Diagnostic> {
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
    said.settings.word("bytecode").map(|word| instructions(said, word, last)).transpose()
}

/// Reads `4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0`: the number of instructions, and each; a
/// comma may follow the last.
fn instructions(said: &Said<'_>, word: &Word, last: &str) -> Result<Vec<Instruction>, Diagnostic> {
    let bad = |message: String, lines: &[&str]| {
        let err = said.error(code::BAD_VALUE, word, message);
        let lines = [lines, &[last]].concat().join("\n");
        Err(err.expected("N,CODE JT JF K,... with decimal numbers").linux(lines))
    };
    let text = word.text.trim().strip_suffix(',').unwrap_or(word.text.trim());
    let (count, rest) = text.split_once(',').unwrap_or((text, ""));
    let Some(count) = count.trim().parse::<usize>().ok().filter(|n| (1..=PROGRAM_MAX).contains(n)) else {
        return bad(format!("bytecode: it begins with the number of instructions, 1 to {PROGRAM_MAX}"), &[]);
    };
    if rest.is_empty() {
        return bad(format!("bytecode: it says {count} instructions and has none"), &[]);
    }
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
pub(crate) fn text(program: &[Instruction]) -> String {
    let one = |Instruction { code, jt, jf, k }: &Instruction| format!(",{code} {jt} {jf} {k}");
    format!("'{}{}'", program.len(), program.iter().map(one).collect::<String>())
}

/// Prints a program.
pub(crate) fn show(program: &[Instruction], out: &mut Out) {
    out.open("bytecode");
    out.uint("length", u32::try_from(program.len()).unwrap_or(u32::MAX), "");
    out.open_list("insns");
    for Instruction { code, jt, jf, k } in program {
        out.open_item();
        out.uint("code", *code, "");
        out.uint("jt", *jt, "");
        out.uint("jf", *jf, "");
        out.uint("k", *k, "");
        out.close();
    }
    out.close_list();
    out.close();
    out.text(&format!("bytecode {}", text(program)));
}
