//! The machine of the classic Berkeley Packet Filter: the checks of a program, and its execution,
//! for the [filter](crate::classify::filter::bpf) and the [action](crate::classify::action::bpf).

use alloc::format;
use alloc::vec;

use crate::base::bound::Bound;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest number of instructions of a program.
pub const PROGRAM_MAX: usize = 4096;

/// One instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Number of instructions to skip if a comparison is true.
    pub jt: u8,
    /// Number of instructions to skip if it is false.
    pub jf: u8,
    /// An operand.
    pub k: u32,
}

/// Number of words of memory.
const MEMORY: usize = 16;

// An operation: its class (the low three bits), its size or operation, and its mode or source.
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
/// Set if the operand is the index register.
const X: u16 = 0x08;

const LD_IMM: u16 = LD;
const LD_MEM: u16 = LD | 0x60;
const LD_LEN: u16 = LD | 0x80;
const LD_ABS: u16 = LD | 0x20;
const LD_IND: u16 = LD | 0x40;
const LDX_IMM: u16 = LDX;
const LDX_MEM: u16 = LDX | 0x60;
const LDX_LEN: u16 = LDX | 0x80;
const LDX_MSH: u16 = LDX | 0xb0;
const RET_K: u16 = RET;
const RET_A: u16 = RET | 0x10;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
const JA: u16 = JMP;

const ADD: u16 = 0x00;
const SUB: u16 = 0x10;
const MUL: u16 = 0x20;
const DIV: u16 = 0x30;
const OR: u16 = 0x40;
const AND: u16 = 0x50;
const LSH: u16 = 0x60;
const RSH: u16 = 0x70;
const NEG: u16 = 0x80;
const MOD: u16 = 0x90;
const XOR: u16 = 0xa0;

const JEQ: u16 = 0x10;
const JGT: u16 = 0x20;
const JGE: u16 = 0x30;
const JSET: u16 = 0x40;

/// The size of a load: 4 bytes, 2 or 1.
const SIZE: u16 = 0x18;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;

/// Offsets from here on select metadata of the packet.
const ANCILLARY: u32 = 0xffff_f000;
const PROTOCOL: u32 = ANCILLARY;
const MARK: u32 = ANCILLARY + 20;
const QUEUE: u32 = ANCILLARY + 24;
/// Offsets from here on are from the network header.
const NETWORK: u32 = 0xfff0_0000;
/// Offsets from here on are from the link header.
const LINK: u32 = 0xffe0_0000;

/// Offset of the type in the link header.
const TYPE_AT: u32 = 12;

/// Returns the code of a load without its size.
const fn load(code: u16) -> u16 {
    code & !SIZE
}

/// Checks that a program is valid: see the module.
pub fn check(program: &[Instruction]) -> Result<(), ConfigError> {
    if program.is_empty() || program.len() > PROGRAM_MAX {
        let expected = format!("1 to {PROGRAM_MAX} instructions");
        let err =
            ConfigError::new(ErrorKind::OutOfRange, Object::Filter(Some("bpf")), expected, program.len());
        return Err(err.key("bytecode"));
    }
    for (at, instruction) in program.iter().enumerate() {
        allowed(at, *instruction, program.len())?;
    }
    if let Some(last) = program.last().filter(|last| last.code & CLASS != RET) {
        return Err(refused(program.len() - 1, "a return at the end", *last));
    }
    written(program)
}

fn allowed(at: usize, instruction: Instruction, len: usize) -> Result<(), ConfigError> {
    let Instruction { code, jt, jf, k } = instruction;
    let refuse = |expected: &str| Err(refused(at, expected, instruction));
    let behind = len - at - 1;
    match code {
        LD_IMM | LD_LEN | LDX_IMM | LDX_LEN | LDX_MSH | RET_K | RET_A | TAX | TXA => Ok(()),
        LD_MEM | LDX_MEM | ST | STX if k as usize >= MEMORY => refuse("a word of memory, 0 to 15"),
        LD_MEM | LDX_MEM | ST | STX => Ok(()),
        JA if k as usize >= behind => refuse("a jump forward, to an instruction of the program"),
        JA => Ok(()),
        _ if code & CLASS == ALU => match code & !CLASS & !X {
            DIV | MOD if code & X == 0 && k == 0 => refuse("a division by anything but 0"),
            LSH | RSH if code & X == 0 && k > 31 => refuse("a shift by at most 31"),
            NEG if code & X != 0 => refuse("an instruction of the classic machine"),
            0..=XOR if code < 0x100 => Ok(()),
            _ => refuse("an instruction of the classic machine"),
        },
        _ if code & CLASS == JMP => match code & !CLASS & !X {
            JEQ | JGT | JGE | JSET if usize::from(jt.max(jf)) >= behind => {
                refuse("jumps forward, to an instruction of the program")
            }
            JEQ | JGT | JGE | JSET => Ok(()),
            _ => refuse("an instruction of the classic machine"),
        },
        _ if matches!(load(code), LD_ABS | LD_IND) && code & SIZE != SIZE => match k {
            PROTOCOL | MARK | QUEUE => Ok(()),
            ANCILLARY.. if load(code) == LD_ABS => {
                refuse("an offset in the packet, or protocol, mark or queue (SKF_AD_OFF + 0, 20, 24)")
            }
            _ => Ok(()),
        },
        _ => refuse("an instruction of the classic machine"),
    }
}

/// Checks that memory is written before it is read, on every path through the program.
fn written(program: &[Instruction]) -> Result<(), ConfigError> {
    // The words that are written on all paths to an instruction.
    let mut before = vec![u16::MAX; program.len() + 1];
    let mut now = 0u16;
    for (at, instruction) in program.iter().enumerate() {
        let Instruction { code, jt, jf, k } = *instruction;
        now &= before[at];
        let word = 1u16.checked_shl(k).unwrap_or(0);
        let mut leads = |leap: usize| {
            if let Some(there) = before.get_mut((at + 1).saturating_add(leap)) {
                *there &= now;
            }
        };
        match code {
            ST | STX => now |= word,
            LD_MEM | LDX_MEM if now & word == 0 => {
                return Err(refused(at, "a word of memory that was written before", *instruction));
            }
            JA => {
                leads(k as usize);
                now = u16::MAX;
            }
            _ if code & CLASS == JMP => {
                leads(jt.into());
                leads(jf.into());
                now = u16::MAX;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs a program and returns its result. Takes at most as many steps as the program has
/// instructions; allocates nothing.
pub(crate) fn run(program: &[Instruction], packet: &Packet<'_>) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut memory = [0u32; MEMORY];
    let mut rest = program.iter();
    // All jumps are forward.
    let mut bound = Bound::of(program.len());
    while let Some(Instruction { code, jt, jf, k }) = rest.next() {
        bound.turn();
        let (code, k) = (*code, *k);
        let slot = k as usize % MEMORY;
        match code {
            RET_K => return k,
            RET_A => return a,
            LD_IMM => a = k,
            LDX_IMM => x = k,
            LD_LEN => a = length(packet),
            LDX_LEN => x = length(packet),
            LD_MEM => a = memory[slot],
            LDX_MEM => x = memory[slot],
            ST => memory[slot] = a,
            STX => memory[slot] = x,
            TAX => x = a,
            TXA => a = x,
            LDX_MSH => match fetch(packet, k, BYTE) {
                Some(byte) => x = 4 * (byte & 0xf),
                None => return 0,
            },
            JA => leap(&mut rest, k as usize),
            _ => {
                let operand = if code & X != 0 { x } else { k };
                match code & CLASS {
                    ALU => match compute(code & !CLASS & !X, a, operand) {
                        Some(answer) => a = answer,
                        None => return 0,
                    },
                    JMP => {
                        let far = if compare(code & !CLASS & !X, a, operand) { *jt } else { *jf };
                        leap(&mut rest, far.into());
                    }
                    LD => {
                        let loaded = match load(code) == LD_IND {
                            true => fetch(packet, x.wrapping_add(k), code & SIZE),
                            false => known(packet, k).or_else(|| fetch(packet, k, code & SIZE)),
                        };
                        match loaded {
                            Some(word) => a = word,
                            None => return 0,
                        }
                    }
                    _ => return 0,
                }
            }
        }
    }
    0
}

fn leap(rest: &mut core::slice::Iter<'_, Instruction>, far: usize) {
    *rest = rest.as_slice().get(far..).unwrap_or(&[]).iter();
}

/// Returns the result; `None` for a division by zero.
fn compute(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        ADD => a.wrapping_add(operand),
        SUB => a.wrapping_sub(operand),
        MUL => a.wrapping_mul(operand),
        DIV => a.checked_div(operand)?,
        MOD => a.checked_rem(operand)?,
        OR => a | operand,
        AND => a & operand,
        XOR => a ^ operand,
        LSH => a.wrapping_shl(operand),
        RSH => a.wrapping_shr(operand),
        _ => a.wrapping_neg(),
    })
}

fn compare(operation: u16, a: u32, operand: u32) -> bool {
    match operation {
        JEQ => a == operand,
        JGT => a > operand,
        JGE => a >= operand,
        _ => a & operand != 0,
    }
}

/// Returns the metadata that an offset selects.
fn known(packet: &Packet<'_>, k: u32) -> Option<u32> {
    match k {
        PROTOCOL => protocol(packet),
        MARK => Some(packet.meta.mark),
        QUEUE => Some(packet.meta.queue.into()),
        _ => None,
    }
}

/// Returns the length of a packet, without the outermost tag if Linux has taken it off by now.
fn length(packet: &Packet<'_>) -> u32 {
    packet.meta.len.saturating_sub(packet.tag_taken_off())
}

/// Returns the protocol that Linux keeps beside a packet: that behind the outermost tag, if the tag
/// has been taken off by now. Filters are selected by the other one ([`Packet::protocol`]).
fn protocol(packet: &Packet<'_>) -> Option<u32> {
    let headers = &packet.headers;
    match (packet.tag_taken_off(), headers.inner_vlan) {
        (0, _) => Some(headers.link_protocol.into()),
        (_, None) => Some(headers.ethertype.into()),
        (_, Some(_)) => fetch(packet, TYPE_AT, HALF),
    }
}

/// Returns the bytes at an offset, if the packet has them. Offsets from the link header pass over
/// the outermost tag of a packet that has arrived.
fn fetch(packet: &Packet<'_>, k: u32, size: u16) -> Option<u32> {
    let len = match size {
        HALF => 2,
        BYTE => 1,
        _ => 4,
    };
    let [head, tail] = match k {
        0..0x8000_0000 => packet.link_bytes(k as usize, len)?,
        NETWORK.. => {
            let at = packet.network() + (k - NETWORK) as usize;
            [packet.frame.bytes().get(at..at + len)?, &[]]
        }
        LINK.. => packet.link_bytes((k - LINK) as usize, len)?,
        _ => return None,
    };
    Some(head.iter().chain(tail).fold(0, |word: u32, byte| word << 8 | u32::from(*byte)))
}

fn refused(at: usize, expected: &str, instruction: Instruction) -> ConfigError {
    let Instruction { code, jt, jf, k } = instruction;
    let given = format!("{code} {jt} {jf} {k}, instruction {at}");
    ConfigError::new(ErrorKind::BadValue, Object::Filter(Some("bpf")), expected, given).key("bytecode")
}
