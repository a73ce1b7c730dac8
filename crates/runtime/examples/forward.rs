//! Frames through one direction in memory: received, queued by fq_codel, sent. No system call is on
//! the way, so that only txweir counts.
//!
//! `forward cost` counts the instructions of a frame with and without the delays of stages, by
//! callgrind (valgrind), for the direct way, for queues, and behind a wire.
//!
//! `forward soak PACKETS` sends so many frames, and prints the rate, the memory of the process at a
//! tenth of them and at the end, and both sides of the sum of all frames. It fails if the sum does
//! not hold, or the memory has grown by a mebibyte or more.

use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::io;
use std::process::Command;

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::text::value::Words;
use txweir_core::{DropReason, Handle, Instant, Meta};
use txweir_device::{Backend, FRAME_MEMORY, Fates, Finished, Frame, Frames, Source, Store as _, VnetHdr};
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

/// Frames that are received before the doorbell is rung.
const BURST: usize = 64;
/// Bytes of a frame.
const LEN: usize = 256;
/// Nanoseconds of a turn: a burst takes 143 us at 1 Gbit/s.
const TURN: u64 = 150_000;
/// Frames in the shorter run that is counted; the longer one has twice as many.
const COUNTED: u64 = 65_536;

/// A sender of UDP frames of 32 flows.
struct Sender {
    left: usize,
    number: u64,
    frame: [u8; LEN],
}

impl Sender {
    fn new() -> Self {
        let mut frame = [0; LEN];
        frame[..24].copy_from_slice(&[
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 242, 0, 1, 0x40, 0, 64, 17,
        ]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[38..40].copy_from_slice(&222_u16.to_be_bytes());
        Self { left: 0, number: 0, frame }
    }
}

impl Source for Sender {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        if self.left == 0 {
            return Ok(None);
        }
        (self.left, self.number) = (self.left - 1, self.number + 1);
        self.frame[35] = (self.number % 32) as u8; // below 32
        room[..LEN].copy_from_slice(&self.frame);
        Ok(Some((VnetHdr::default(), LEN)))
    }
}

/// A device that has sent each frame by the doorbell after the one that showed it.
#[derive(Debug)]
struct Memory {
    frames: Frames,
    pushed: Vec<(Frame, u32)>,
    shown: VecDeque<(Frame, u32)>,
    finished: Finished,
}

impl TxQueue for Memory {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        self.pushed.push((frame, m.wire_len));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        for (frame, wire_len) in self.shown.drain(..) {
            black_box(frame.bytes());
            self.finished.add(wire_len, true);
            self.frames.give(frame);
        }
        self.shown.extend(self.pushed.drain(..));
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        self.finished.reap(sink);
    }
    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.frames.give(frame);
    }
}

impl Backend for Memory {
    type Store = Frames;
    fn store(&mut self) -> &mut Frames {
        &mut self.frames
    }
    fn is_full(&self) -> bool {
        !self.shown.is_empty()
    }
    fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }
    fn abandon(&mut self) {
        for (frame, wire_len) in self.shown.drain(..).chain(self.pushed.drain(..)) {
            self.finished.add(wire_len, false);
            self.frames.give(frame);
        }
    }
}

/// Returns a direction of this way: `direct`, `queued` or `wire`.
fn direction(way: &str, delays: bool) -> Result<Direction<Memory>, Box<dyn Error>> {
    let spec = (way == "wire").then(|| "rate=1gbit".parse::<WireSpec>()).transpose()?;
    let (wire, bql) = spec.map_or((None, None), |spec| (Some(spec.wire), spec.bql));
    let config = DirectionConfig { wire, bql, delays, ..DirectionConfig::default() };
    let memory = Memory {
        frames: Frames::new(FRAME_MEMORY),
        pushed: Vec::new(),
        shown: VecDeque::new(),
        finished: Finished::default(),
    };
    let mut direction = Direction::new(config, memory)?;
    let mut control = direction.control(Instant::ZERO);
    control.set_direct(way != "queued");
    let kind = if way == "direct" { "pfifo_fast" } else { "fq_codel" };
    control.configure(|tree, cx| {
        tree.edit(cx).replace(Handle::ROOT, Some(Handle::new(1, 0)), kind, &mut Words::new(&[]))
    })?;
    Ok(direction)
}

/// Sends so many frames.
fn send(
    direction: &mut Direction<Memory>,
    sender: &mut Sender,
    now: &mut u64,
    frames: u64,
) -> Result<(), Box<dyn Error>> {
    let end = sender.number + frames;
    while sender.number < end {
        *now += TURN;
        let at = Instant(*now);
        sender.left = BURST;
        direction.looks(at);
        // Bound: the frames of a burst.
        loop {
            match direction.receive(sender)? {
                Received::Frame(arrival) => direction.admit(at, arrival)?,
                Received::LeftOut => {}
                Received::Nothing => break,
            }
        }
        direction.advance(at)?;
    }
    Ok(())
}

/// Runs this program under callgrind, and returns the number of instructions.
fn counted(way: &str, delays: &str, frames: u64) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let program = std::env::current_exe()?;
    let said = command.arg(program).args(["run", way, delays, &frames.to_string()]).output()?;
    let text = String::from_utf8_lossy(&said.stderr);
    let number = text.lines().find_map(|line| line.split_once("Collected : "));
    Ok(number.ok_or_else(|| format!("valgrind counts nothing: {text}"))?.1.trim().parse()?)
}

fn cost() -> Result<(), Box<dyn Error>> {
    println!("| way | instructions a frame, without delays | with | more |");
    println!("|---|---|---|---|");
    for way in ["direct", "queued", "wire"] {
        let mut each = [0.0; 2];
        for (delays, each) in ["off", "on"].into_iter().zip(&mut each) {
            *each = (counted(way, delays, COUNTED * 2)? - counted(way, delays, COUNTED)?) / COUNTED as f64;
        }
        let [off, on] = each;
        println!("| {way} | {off:.1} | {on:.1} | {:.1} % |", (on / off - 1.0) * 100.0);
    }
    Ok(())
}

/// Returns the resident memory of this process, KiB (proc(5)).
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn soak(frames: u64) -> Result<(), Box<dyn Error>> {
    let (mut direction, mut sender, mut now) = (direction("queued", true)?, Sender::new(), 0);
    let began = txweir_device::clock::now_ns();
    send(&mut direction, &mut sender, &mut now, frames / 10)?;
    let early = resident()?;
    send(&mut direction, &mut sender, &mut now, frames - frames / 10)?;
    let took = (txweir_device::clock::now_ns() - began) as f64 / 1e9;
    let (late, ledger) = (resident()?, direction.ledger());
    let [came, known] = ledger.sums();
    println!(
        "{came} frames in {took:.1} s, {:.2} M/s; {early} KiB after a tenth, {late} KiB at the end; {ledger:?}",
        came as f64 / took / 1e6
    );
    if came != known || came < frames || late >= early + 1024 {
        return Err(format!("{came} frames came, {known} have a fate or a place").into());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cost"] => cost(),
        ["soak", frames] => soak(frames.parse()?),
        ["run", way, delays, frames] => {
            let (mut direction, mut sender) = (direction(way, delays == "on")?, Sender::new());
            send(&mut direction, &mut sender, &mut 0, frames.parse()?)
        }
        _ => Err("expected `cost`, or `soak PACKETS`".into()),
    }
}
