//! One action behind a filter that every packet matches, and frames to send through it.

use txweir_core::classify::action::{Action, ActionId, Control, Kind, Memory, State, Wanted};
use txweir_core::classify::packet::{FrameBytes, Outlet, Packet, PortId, Way};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Existence, Filters, Goal, Matchall, Named, Rule, Verdict},
};
use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};

/// An outlet that keeps its input.
#[derive(Debug, Default)]
pub struct Kept {
    /// Copies: port, way, bytes, depth.
    pub sent: Vec<(PortId, Way, Vec<u8>, u8)>,
    /// Ports that are down.
    pub down: Vec<PortId>,
    /// Samples: group, rate, bytes.
    pub samples: Vec<(u32, u32, Vec<u8>)>,
    /// Lines.
    pub lines: Vec<String>,
}

impl Outlet for Kept {
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, _: &Meta, depth: u8) -> bool {
        let up = !self.down.contains(&to);
        if up {
            self.sent.push((to, way, frame.bytes().to_vec(), depth));
        }
        up
    }
    fn sample(&mut self, group: u32, rate: u32, frame: &[u8], _: &Meta) {
        self.samples.push((group, rate, frame.to_vec()));
    }
    fn say(&mut self, text: &str, count: u64) {
        self.lines.push(format!("{text}_{count}"));
    }
}

/// A frame that cannot grow or shrink, and the offset of a checksum that was left to the device.
pub struct Rigid(pub Vec<u8>, pub Option<usize>);

impl FrameBytes for Rigid {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn insert(&mut self, _: usize, _: &[u8]) -> bool {
        false
    }
    fn remove(&mut self, _: usize, _: usize) -> bool {
        false
    }
    fn checksum_left(&self) -> Option<usize> {
        self.1
    }
}

/// Filters with one action.
#[derive(Debug)]
pub struct Bench {
    /// The filters.
    pub filters: Filters,
    block: BlockId,
    /// The reader.
    pub state: State,
    /// The destination of copies.
    pub out: Kept,
    id: ActionId,
}

impl Bench {
    /// Makes filters with an action of this kind, made at this time.
    pub fn at(kind: Kind, control: Control, now: Instant) -> Self {
        let mut filters = Filters::new();
        let block = filters.add_block();
        let name = kind.name();
        let action = Wanted::New(Some(1), Box::new(Action::new(kind, control)));
        let goal = Goal { actions: vec![action], ..Goal::default() };
        let rule = Rule::Matchall(Matchall::default());
        filters.put(block, Named::default(), &rule, &goal, Existence::Add, now).unwrap();
        let mut state = State::new(1);
        filters.fit(&mut state);
        let id = filters.actions.find(name, 1).unwrap();
        Self { filters, block, state, out: Kept::default(), id }
    }

    /// Makes filters with an action of this kind, made at time 0.
    pub fn new(kind: Kind, control: Control) -> Self {
        Self::at(kind, control, Instant::ZERO)
    }

    /// Replaces the action's parameters.
    pub fn replace(&mut self, kind: Kind, control: Control, now: Instant) {
        self.filters.actions.replace(Some(1), Action::new(kind, control), now).unwrap();
        self.filters.fit(&mut self.state);
    }

    /// Returns the counters of the action.
    pub fn memory(&self) -> &Memory {
        self.state.memory(self.id).unwrap()
    }

    /// Returns the verdict on a packet.
    pub fn send(&mut self, packet: &mut Packet<'_>, now: Instant) -> Verdict {
        let mut run = Run {
            actions: &self.filters.actions,
            state: &mut self.state,
            outlet: &mut self.out,
            now,
            queues: 1,
        };
        self.filters.classify(self.block, packet, &mut run)
    }

    /// Returns the verdict on a frame, and its bytes and metadata afterwards.
    pub fn frame(&mut self, bytes: &[u8]) -> (Verdict, Vec<u8>, Meta) {
        let mut frame = bytes.to_vec();
        let mut meta = Meta::new(u32::try_from(bytes.len()).unwrap());
        let headers = Headers::parse_ethernet(&frame);
        let verdict = self.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
        (verdict, frame, meta)
    }

    /// Returns the bytes afterwards of a frame that passes.
    pub fn passes(&mut self, frame: &str) -> String {
        let (verdict, frame, meta) = self.frame(&bytes(frame));
        assert!(matches!(verdict, Verdict::Class(_)), "{verdict:?}");
        assert_eq!(meta.len as usize, frame.len());
        hex(&frame)
    }
}

/// Returns the bytes of hexadecimal digits, which may be separated by spaces.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        hex.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Returns the hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// True if a checksum over these bytes, the field included, is right: the sum is all ones (RFC
/// 1071).
pub fn sums(parts: &[&[u8]]) -> bool {
    parts.iter().fold(Sum::default(), |sum, part| sum.bytes(part)).partial() == 0xffff
}
