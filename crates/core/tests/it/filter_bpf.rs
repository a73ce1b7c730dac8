//! bpf: refused programs, the effect of each instruction, the meaning of return values; fw:
//! classification by mark.

use txweir_core::base::rng::Rng;
use txweir_core::classify::action::{Action, Control, Gact, Kind, State, Wanted};
use txweir_core::classify::filter::bpf::{Instruction, PROGRAM_MAX};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Bpf, Existence, Filters, Fw, Goal, Named, Rule, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::{ConfigError, Handle, Instant, Meta};

struct Bench {
    filters: Filters,
    block: BlockId,
    state: State,
}

impl Bench {
    fn new() -> Self {
        let mut filters = Filters::new();
        let block = filters.add_block();
        Self { filters, block, state: State::new(1) }
    }
    fn put(&mut self, handle: u32, rule: Rule, goal: &Goal, what: Existence) -> Result<u32, ConfigError> {
        let named = Named { prio: Some(1), handle: Some(handle), ..Named::default() };
        let done = self.filters.put(self.block, named, &rule, goal, what, Instant::ZERO);
        self.filters.fit(&mut self.state);
        done.map(|named| named.handle.unwrap())
    }
    fn ask(&mut self, mark: u32, frame: &[u8]) -> Verdict {
        self.ask_on(Way::Egress, mark, frame)
    }
    fn ask_on(&mut self, way: Way, mark: u32, frame: &[u8]) -> Verdict {
        let mut meta = Meta::new(u32::try_from(frame.len()).unwrap());
        (meta.mark, meta.queue) = (mark, 3);
        let mut frame = frame.to_vec();
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
        let (actions, now) = (&self.filters.actions, Instant(5));
        let mut run = Run { actions, state: &mut self.state, outlet: &mut NoOutlet, now, queues: 8 };
        self.filters.classify(self.block, &mut packet, &mut run)
    }
}

fn class(minor: u16) -> Goal {
    Goal { class: Handle::new(1, minor), actions: Vec::new() }
}

fn program(instructions: &[(u16, u8, u8, u32)]) -> Bpf {
    let program = instructions.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect();
    Bpf { program, ..Bpf::default() }
}

const FRAME: [u8; 20] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0x10, 0xab, 0xcd, 0xef, 0x01];

/// Returns the result of a program for the frame, as a class.
fn returns(instructions: &[(u16, u8, u8, u32)]) -> u32 {
    returns_on(Way::Egress, &FRAME, instructions)
}

/// Returns the result of a program for a frame that goes this way, as a class.
fn returns_on(way: Way, frame: &[u8], instructions: &[(u16, u8, u8, u32)]) -> u32 {
    let mut b = Bench::new();
    b.put(1, Rule::Bpf(program(instructions)), &class(1), Existence::Add).unwrap();
    match b.ask_on(way, 0x77, frame) {
        Verdict::Unmatched => 0,
        Verdict::Class(class) => class.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_return_value_says_whether_and_which_class() {
    assert_eq!(returns(&[(6, 0, 0, 0)]), 0);
    assert_eq!(returns(&[(6, 0, 0, u32::MAX)]), 0x1_0001);
    assert_eq!(returns(&[(6, 0, 0, 0x2_0005)]), 0x2_0005);
    // tcpdump -ddd ip: loads are from the link header.
    let ip = [(40, 0, 0, 12), (21, 0, 1, 2048), (6, 0, 0, 262_144), (6, 0, 0, 0)];
    assert_eq!(returns(&ip), 262_144);
}

#[test]
fn instructions_do_what_they_are_for() {
    let a = |load: (u16, u8, u8, u32)| returns(&[load, (0x16, 0, 0, 0)]);
    assert_eq!(a((0x20, 0, 0, 14)), 0x4510_abcd);
    assert_eq!(a((0x28, 0, 0, 14)), 0x4510);
    assert_eq!(a((0x30, 0, 0, 14)), 0x45);
    assert_eq!(a((0x30, 0, 0, 19)), 1);
    assert_eq!(a((0x30, 0, 0, 20)), 0);
    assert_eq!(a((0x28, 0, 0, 19)), 0);
    assert_eq!(a((0x20, 0, 0, 0xfff0_0000)), 0x4510_abcd);
    assert_eq!(a((0x28, 0, 0, 0xffe0_000c)), 0x0800);
    assert_eq!(a((0x28, 0, 0, 0xffdf_ffff)), 0);
    assert_eq!(a((0x28, 0, 0, 0xffff_f000)), 0x0800);
    assert_eq!(a((0x20, 0, 0, 0xffff_f014)), 0x77);
    assert_eq!(a((0x20, 0, 0, 0xffff_f018)), 3);
    assert_eq!(a((0x80, 0, 0, 0)), 20);
    assert_eq!(a((0x00, 0, 0, 9)), 9);
    // The index register, from the length of an IP header.
    assert_eq!(returns(&[(0xb1, 0, 0, 14), (0x87, 0, 0, 0), (0x16, 0, 0, 0)]), 20);
    assert_eq!(returns(&[(0xb1, 0, 0, 20), (6, 0, 0, 1)]), 0);
    assert_eq!(returns(&[(0x01, 0, 0, 16), (0x48, 0, 0, 2), (0x16, 0, 0, 0)]), 0xef01);
    assert_eq!(returns(&[(0x81, 0, 0, 0), (0x50, 0, 0, u32::MAX), (0x16, 0, 0, 0)]), 1);
    let store = [(0, 0, 0, 5), (2, 0, 0, 15), (0, 0, 0, 1), (0x61, 0, 0, 15), (3, 0, 0, 0), (0x60, 0, 0, 0)];
    assert_eq!(returns(&[&store[..], &[(0x0c, 0, 0, 0), (0x16, 0, 0, 0)]].concat()), 10);
    for (operation, of_12_and_5) in [
        (0x00, 17),
        (0x10, 7),
        (0x20, 60),
        (0x30, 2),
        (0x40, 13),
        (0x50, 4),
        (0x60, 384),
        (0x90, 2),
        (0xa0, 9),
    ] {
        assert_eq!(returns(&[(0, 0, 0, 12), (4 | operation, 0, 0, 5), (0x16, 0, 0, 0)]), of_12_and_5);
        let by_x = [(1, 0, 0, 5), (0, 0, 0, 12), (12 | operation, 0, 0, 9), (0x16, 0, 0, 0)];
        assert_eq!(returns(&by_x), of_12_and_5, "{operation:#x}");
    }
    assert_eq!(returns(&[(0, 0, 0, 384), (0x74, 0, 0, 5), (0x16, 0, 0, 0)]), 12);
    assert_eq!(returns(&[(0, 0, 0, 1), (0x84, 0, 0, 0), (0x74, 0, 0, 16), (0x16, 0, 0, 0)]), 0xffff);
    // A division by a register that is 0 ends the program.
    assert_eq!(returns(&[(0, 0, 0, 12), (0x3c, 0, 0, 0), (6, 0, 0, 7)]), 0);
    for (code, k, yes) in [
        (0x15, 12, true),
        (0x15, 13, false),
        (0x25, 11, true),
        (0x25, 12, false),
        (0x35, 12, true),
        (0x35, 13, false),
        (0x45, 4, true),
        (0x45, 3, false),
    ] {
        let jump = [(0, 0, 0, 12), (code, 1, 0, k), (6, 0, 0, 2), (6, 0, 0, 1)];
        assert_eq!(returns(&jump) == 1, yes, "{code:#x} {k}");
    }
    assert_eq!(returns(&[(5, 0, 0, 1), (6, 0, 0, 2), (6, 0, 0, 1)]), 1);
}

/// Linux takes the outermost tag off a frame that arrives: offsets from the link header, the length
/// and the protocol are those of the frame without it. The network header stands where it is.
#[test]
fn a_tag_that_is_off_is_passed_over() {
    let (inner, outer) = ([0x81u8, 0, 0x20, 5], [0x88u8, 0xa8, 0, 7]);
    let once = [&FRAME[..12], &inner, &FRAME[12..]].concat();
    let twice = [&FRAME[..12], &outer, &once[12..]].concat();
    let none = FRAME.to_vec();
    let a = |load| vec![load, (0x16, 0, 0, 0)];
    for (frame, program, arrived, sent) in [
        (&once, a((0x28, 0, 0, 12)), 0x0800, 0x8100),
        (&once, a((0x20, 0, 0, 8)), 1, 1),
        (&once, a((0x20, 0, 0, 10)), 0x0001_0800, 0x0001_8100),
        (&once, a((0x28, 0, 0, 0xffe0_000c)), 0x0800, 0x8100),
        (&once, a((0x30, 0, 0, 14)), 0x45, 0x20),
        (&once, a((0x30, 0, 0, 19)), 1, 0x10),
        (&once, a((0x30, 0, 0, 20)), 0, 0xab),
        (&once, a((0x20, 0, 0, 0xfff0_0000)), 0x4510_abcd, 0x4510_abcd),
        (&once, a((0x28, 0, 0, 0xffff_f000)), 0x0800, 0x8100),
        (&once, a((0x80, 0, 0, 0)), 20, 24),
        (&once, vec![(0x81, 0, 0, 0), (0x87, 0, 0, 0), (0x16, 0, 0, 0)], 20, 24),
        (&once, vec![(0xb1, 0, 0, 14), (0x87, 0, 0, 0), (0x16, 0, 0, 0)], 20, 0),
        (&once, vec![(0x01, 0, 0, 10), (0x48, 0, 0, 2), (0x16, 0, 0, 0)], 0x0800, 0x8100),
        (&twice, a((0x20, 0, 0, 12)), 0x8100_2005, 0x88a8_0007),
        (&twice, a((0x20, 0, 0, 0xfff0_0000)), 0x4510_abcd, 0x4510_abcd),
        (&twice, a((0x28, 0, 0, 0xffff_f000)), 0x8100, 0x88a8),
        (&none, a((0x20, 0, 0, 10)), 0x0001_0800, 0x0001_0800),
        (&none, a((0x80, 0, 0, 0)), 20, 20),
    ] {
        assert_eq!(returns_on(Way::Ingress, frame, &program), arrived, "{program:x?}");
        assert_eq!(returns_on(Way::Egress, frame, &program), sent, "{program:x?}");
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let refused = |instructions: &[(u16, u8, u8, u32)]| {
        let err =
            Bench::new().put(1, Rule::Bpf(program(instructions)), &class(1), Existence::Add).unwrap_err();
        err.to_string()
    };
    let ret = (6, 0, 0, 0);
    for (instructions, said) in [
        (vec![], "expected 1 to 4096 instructions, given \"0\""),
        (vec![ret; PROGRAM_MAX + 1], "expected 1 to 4096 instructions, given \"4097\""),
        (vec![(0, 0, 0, 1)], "expected a return at the end, given \"0 0 0 1, instruction 0\""),
        (
            vec![(5, 0, 0, 1), ret],
            "expected a jump forward, to an instruction of the program, given \"5 0 0 1, instruction 0\"",
        ),
        (
            vec![(5, 0, 0, u32::MAX), ret],
            "expected a jump forward, to an instruction of the program, given \"5 0 0 4294967295, instruction 0\"",
        ),
        (
            vec![(21, 0, 1, 0), ret],
            "expected jumps forward, to an instruction of the program, given \"21 0 1 0, instruction 0\"",
        ),
        (
            vec![(52, 0, 0, 0), ret],
            "expected a division by anything but 0, given \"52 0 0 0, instruction 0\"",
        ),
        (
            vec![(148, 0, 0, 0), ret],
            "expected a division by anything but 0, given \"148 0 0 0, instruction 0\"",
        ),
        (vec![(100, 0, 0, 32), ret], "expected a shift by at most 31, given \"100 0 0 32, instruction 0\""),
        (vec![(2, 0, 0, 16), ret], "expected a word of memory, 0 to 15, given \"2 0 0 16, instruction 0\""),
        (
            vec![(96, 0, 0, 1), ret],
            "expected a word of memory that was written before, given \"96 0 0 1, instruction 0\"",
        ),
        // The word is written on only one of two branches.
        (
            vec![(21, 0, 1, 0), (2, 0, 0, 1), (96, 0, 0, 1), ret],
            "expected a word of memory that was written before, given \"96 0 0 1, instruction 2\"",
        ),
        (
            vec![(99, 0, 0, 0), ret],
            "expected an instruction of the classic machine, given \"99 0 0 0, instruction 0\"",
        ),
        (
            vec![(32, 0, 0, 0xffff_f004), ret],
            "expected an offset in the packet, or protocol, mark or queue (SKF_AD_OFF + 0, 20, 24), given \
             \"32 0 0 4294963204, instruction 0\"",
        ),
    ] {
        assert_eq!(refused(&instructions), format!("filter bpf bytecode: {said}"));
    }
    // A word that is written on both branches may be read.
    let both = [(21, 0, 2, 0), (2, 0, 0, 1), (5, 0, 0, 1), (3, 0, 0, 1), (96, 0, 0, 1), (6, 0, 0, 1)];
    assert_eq!(returns(&both), 1);
}

#[test]
fn a_program_may_decide_itself() {
    let direct = |answer: u32| {
        let mut b = Bench::new();
        let rule = Bpf { direct: true, ..program(&[(6, 0, 0, answer)]) };
        b.put(1, Rule::Bpf(rule), &class(5), Existence::Add).unwrap();
        b.ask(0, &FRAME)
    };
    assert_eq!(direct(0), Verdict::Class(Handle::new(1, 0)));
    assert_eq!(direct(2), Verdict::Drop);
    assert_eq!(direct(4), Verdict::Stolen);
    assert_eq!(direct(7), Verdict::Drop);
    assert_eq!(direct(8), Verdict::Stolen);
    for other in [1, 3, 5, 6, 99, u32::MAX] {
        assert_eq!(direct(other), Verdict::Unmatched, "{other}");
    }
    let rule = Bpf { direct: true, ..program(&[(6, 0, 0, 0)]) };
    let drop = Wanted::New(None, Box::new(Action::new(Kind::Gact(Gact::default()), Control::Drop)));
    let goal = Goal { actions: vec![drop], ..class(1) };
    let err = Bench::new().put(1, Rule::Bpf(rule), &goal, Existence::Add).unwrap_err();
    assert_eq!(
        err.to_string(),
        "filter bpf direct-action: expected a program or actions to decide, given \"both\""
    );
}

#[test]
fn the_newest_program_is_asked_first() {
    let mut b = Bench::new();
    for (handle, minor) in [(0, 1), (9, 2), (0, 3)] {
        b.put(handle, Rule::Bpf(program(&[(6, 0, 0, u32::MAX)])), &class(minor), Existence::Add).unwrap();
    }
    assert_eq!(b.ask(0, &FRAME), Verdict::Class(Handle::new(1, 3)));
    let mut handles = Vec::new();
    let block = b.filters.block(b.block).unwrap();
    block
        .visit(&block.first_chain().expect("a chain").tables[0], &mut |handle, _, _, _| handles.push(handle));
    assert_eq!(handles, [2, 9, 1]);
    assert!(b.put(9, Rule::Bpf(program(&[(6, 0, 0, 0)])), &class(1), Existence::Add).is_err());
    b.put(2, Rule::Bpf(program(&[(6, 0, 0, 0)])), &class(1), Existence::Replace).unwrap();
    assert_eq!(b.ask(0, &FRAME), Verdict::Class(Handle::new(1, 2)));
    let err = b.put(5, Rule::Bpf(program(&[(6, 0, 0, 0)])), &class(1), Existence::Change).unwrap_err();
    assert_eq!(err.to_string(), "filter bpf handle: expected a filter that exists, given \"0x5\"");
}

#[test]
fn any_program_that_is_taken_ends() {
    let mut taken = 0;
    for seed in 0..20_000 {
        let rng = &mut Rng::new(seed);
        let mut any = || {
            let code = rng.below(0x100) as u16 & !if rng.below(2) == 0 { 0x08 } else { 0 };
            let k = if rng.below(2) == 0 { rng.below(24) as u32 } else { rng.next_u64() as u32 };
            (code, rng.below(4) as u8, rng.below(4) as u8, k)
        };
        let mut instructions: Vec<_> = (0..seed % 6).map(|_| any()).collect();
        instructions.push((0x16, 0, 0, 0));
        let mut b = Bench::new();
        if b.put(1, Rule::Bpf(program(&instructions)), &class(1), Existence::Add).is_ok() {
            taken += 1;
            for len in [0, 1, 14, 20] {
                b.ask(seed as u32, &FRAME[..len]);
            }
        }
    }
    assert!((1000..19_000).contains(&taken), "{taken}");
}

fn mark(mask: u32) -> Rule {
    Rule::Fw(Fw { mask, ..Fw::default() })
}

#[test]
fn a_mark_is_looked_up() {
    let mut b = Bench::new();
    for mark_wanted in 1..=1000 {
        let minor = u16::try_from(mark_wanted).unwrap();
        b.put(mark_wanted, mark(u32::MAX), &class(minor), Existence::Add).unwrap();
    }
    for (given, minor) in [(1, 1), (1000, 1000), (0x100, 256), (0, 0), (1001, 0), (0x1_0001, 0)] {
        let expected = if minor == 0 { Verdict::Unmatched } else { Verdict::Class(Handle::new(1, minor)) };
        assert_eq!(b.ask(given, &FRAME), expected, "{given:#x}");
    }
    let mut b = Bench::new();
    b.put(5, mark(0xff), &class(1), Existence::Add).unwrap();
    b.put(0x1ff, mark(0xff), &class(2), Existence::Add).unwrap();
    assert_eq!(b.ask(0xab05, &FRAME), Verdict::Class(Handle::new(1, 1)));
    // The mask takes bits of the packet's mark only.
    assert_eq!(b.ask(0x1ff, &FRAME), Verdict::Unmatched);
    for (handle, mask, goal, said) in [
        (
            6,
            0xf,
            class(1),
            "filter fw handle: expected mask 0xff, which the filters of this priority have, given \"0xf\"",
        ),
        (0, 0xff, class(1), "filter fw handle: expected a mark, given nothing"),
        (6, 0xff, Goal::default(), "filter fw classid: expected a class or an action, given nothing"),
        (5, 0xff, class(1), "filter fw handle: expected no such filter yet, given \"0x5\""),
    ] {
        assert_eq!(b.put(handle, mark(mask), &goal, Existence::Add).unwrap_err().to_string(), said);
    }
    b.put(5, mark(0xff), &class(9), Existence::Replace).unwrap();
    assert_eq!(b.ask(5, &FRAME), Verdict::Class(Handle::new(1, 9)));
    for handle in [5, 0x1ff] {
        b.filters
            .delete(b.block, Named { prio: Some(1), handle: Some(handle), ..Named::default() }, None)
            .unwrap();
    }
    assert!(b.filters.is_empty());
}
