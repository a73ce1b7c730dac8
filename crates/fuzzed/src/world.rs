//! Two links in virtual time that frames pass, and the frames of the target `packets`.

use txweir_core::Instant;
use txweir_core::packet::headers::{Headers, L4};
use txweir_core::text::stats::Counters as _;
use txweir_daemon::protocol::{Ask, Reply};
use txweir_daemon::sums::{Intake, Sums};
use txweir_daemon::{Daemon, Links};
use txweir_device::segment::complete_checksum;
use txweir_device::{Gso, Segmenter, VnetHdr};
use txweir_runtime::Notes;

use crate::card::Card;
use crate::sums;

/// Bytes in front of the frame: the policy, the flags, the vnet header.
const FRONT: usize = 12;
/// Flag: the checksums of the frame are made right.
const REPAIR: u8 = 1;
/// Flag: the frame is described as a super-frame with its own headers.
const SUPER: u8 = 2;
/// Flag: only the parsers read the frame.
const PARSE: u8 = 4;
/// Flag: the interface behind the qdiscs is slow to take frames.
const BUSY: u8 = 8;

/// An input of the target `packets`: a frame, and the way that it takes.
#[derive(Clone, Debug)]
pub struct Input {
    /// The number of the policy.
    pub policy: u8,
    flags: u8,
    pub(crate) hdr: VnetHdr,
    pub(crate) frame: Vec<u8>,
}

impl Input {
    /// Reads an input; `None` if it is too short to have a frame.
    #[must_use]
    pub fn read(data: &[u8]) -> Option<Self> {
        let (front, frame) = data.split_first_chunk::<FRONT>()?;
        let &[policy, flags, ref raw @ ..] = front;
        let mut header = [0; 12];
        header[..10].copy_from_slice(raw);
        let (mut hdr, mut frame) = (VnetHdr::decode(&header), frame.to_vec());
        if flags & REPAIR != 0 {
            sums::repair(&mut frame);
            hdr = VnetHdr::default();
            if flags & SUPER != 0 {
                hdr = described(&mut frame, u16::from_be_bytes([raw[4], raw[5]]));
            }
        }
        Some(Self { policy, flags, hdr, frame })
    }

    /// True if the checksums of the frame are right.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        self.flags & REPAIR != 0
    }

    /// True if only the parsers read the frame.
    pub(crate) const fn is_only_parsed(&self) -> bool {
        self.flags & PARSE != 0
    }
}

/// Two links that are peers, in virtual time.
pub struct World {
    daemon: Daemon,
    cards: [Card; 2],
    now: Instant,
    /// True if right checksums stay right.
    keeps_sums: bool,
}

impl World {
    /// Makes the links and applies the lines of a policy. `keeps_sums` is true if the policy keeps
    /// right checksums right.
    ///
    /// # Panics
    /// If a line is refused.
    #[must_use]
    pub fn new(lines: &str, keeps_sums: bool) -> Self {
        let cards = [Card::default(), Card::default()];
        let wire = "rate=1gbit,ring=64,completion=immediate";
        let links = [cards[0].link("a", wire), cards[1].link("b", wire)];
        let mut daemon = Daemon::with(Links::between(links));
        *daemon.links_mut().notes_mut() = Notes::new(Box::new(std::io::sink()));
        cards.iter().for_each(|card| {
            let mut seen = card.seen();
            (seen.room, seen.sent) = (usize::MAX, Some(Vec::new()));
        });
        let reply = daemon.configure(Instant::ZERO, "policy", lines);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{lines}");
        Self { daemon, cards, now: Instant(1_000_000), keeps_sums }
    }

    fn turn(&mut self) {
        let now = self.now;
        self.daemon.links_mut().turn(&move || now, &[]);
    }

    /// Runs a line of a batch on the links.
    pub fn tc(&mut self, line: &str) -> Reply {
        self.daemon.configure(self.now, "line", line)
    }

    /// Runs a tc command, flags included, whose words have no blanks.
    pub fn tc_shown(&mut self, line: &str) -> Reply {
        let args = line.split_whitespace().map(String::from).collect();
        self.daemon.answer(self.now, &Ask::Tc { args, batch: None, class_names: None })
    }

    /// Sends a frame up to four times, and lets time pass until no event is left.
    ///
    /// # Panics
    /// If a frame is lost without a count, a right checksum is wrong then, or the events do not
    /// end.
    pub fn send(&mut self, input: &Input) {
        self.begin(input);
        self.finish(input.is_right());
    }

    /// Lets a frame come in up to four times.
    ///
    /// # Panics
    /// If a frame is lost without a count.
    pub fn begin(&mut self, input: &Input) {
        self.cards[1].seen().room = if input.flags & BUSY != 0 { 1 } else { usize::MAX };
        for _ in 0..1 + input.flags / 64 {
            self.cards[0].seen().incoming.push_back((input.hdr, input.frame.clone()));
        }
        self.turn();
        self.hold();
    }

    /// Lets time pass until no event is left. `right` is true if the checksums of all frames were
    /// right when they came in.
    ///
    /// # Panics
    /// As [`send`](Self::send) does.
    pub fn finish(&mut self, right: bool) {
        self.cards.iter().for_each(|card| card.seen().room = usize::MAX);
        self.turn();
        let mut events = 0;
        while let Some(at) = self.daemon.links().deadline(self.now) {
            self.now = self.now.max(at);
            self.turn();
            events += 1;
            assert!(events < 100_000, "the events do not end");
        }
        let [came, went] = self.hold();
        assert_eq!(came, went, "frames are left in the links after their last event");
        // Buckets and timers begin anew with the next frame.
        self.now = Instant(self.now.0 + 1_000_000_000);
        for card in &self.cards {
            let sent = std::mem::take(card.seen().sent.as_mut().expect("frames are kept"));
            if right && self.keeps_sums {
                sent.into_iter().for_each(|(hdr, frame)| checked(hdr, frame));
            }
        }
    }

    /// Checks the sums of both links, and returns the frames that came into their paths, and those
    /// that are not in them any more.
    fn hold(&mut self) -> [u64; 2] {
        let mut all = [0; 2];
        for link in self.daemon.links_mut().all_mut() {
            let sums = Sums::of(link);
            let [came, known] = sums.fates.sums();
            assert_eq!(came, known, "{:?}", sums.fates);
            let (mut sides, mut at) = ([0; 2], 0);
            sums.intake.visit(&mut |_, n| {
                sides[usize::from(at >= Intake::SOURCES)] += n;
                at += 1;
            });
            assert_eq!(sides[0], sides[1], "{:?}", sums.intake);
            let inside = sums.fates.waiting + sums.fates.queued + sums.fates.inflight;
            all = [all[0] + came, all[1] + came - inside];
        }
        all
    }
}

/// Does the device's part of a frame that was sent, and checks its checksums.
fn checked(mut hdr: VnetHdr, mut frame: Vec<u8>) {
    if hdr.is_gso() {
        return cut(&hdr, &frame, true);
    }
    let described = hdr;
    if complete_checksum(&mut hdr, &mut frame).is_ok() {
        assert_eq!(sums::wrong(&frame), None, "{described:?} {frame:02x?}");
    }
}

/// Cuts a super-frame: the pieces have its payload, and their checksums are right if its was.
pub fn cut(hdr: &VnetHdr, frame: &[u8], right: bool) {
    let Ok(mut segmenter) = Segmenter::new(hdr, frame) else { return };
    let mut room = vec![0; segmenter.longest()];
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(len) = segmenter.next_into(frame, &mut room).expect("room for a piece of this frame") {
        (pieces, bytes) = (pieces + 1, bytes + len);
        assert!(
            !right || sums::wrong(&room[..len]).is_none(),
            "piece {pieces}: {:?}",
            sums::wrong(&room[..len])
        );
    }
    assert_eq!(pieces, segmenter.segments());
    assert!(bytes >= frame.len(), "{bytes} bytes in {pieces} pieces of {}", frame.len());
}

/// Describes a frame as a super-frame whose checksum is left to the device, if its headers allow.
fn described(frame: &mut [u8], gso_size: u16) -> VnetHdr {
    let h = Headers::parse_ethernet(frame);
    // The device sums to the end of the frame, so that there is no padding.
    let whole = sums::segment(frame, &h).filter(|of| of.end == frame.len());
    let Some(of) = whole else { return VnetHdr::default() };
    let partial = sums::pseudo(frame, &h, of).partial();
    let at = of.start + of.offset;
    frame[at..at + 2].copy_from_slice(&partial.to_be_bytes());
    let gso = match (h.l4, h.ethertype) {
        _ if gso_size == 0 => Gso::None,
        (L4::Udp, _) => Gso::UdpL4,
        (_, 0x86dd) => Gso::TcpV6,
        _ => Gso::TcpV4,
    };
    VnetHdr {
        needs_csum: true,
        gso,
        gso_size,
        csum_start: of.start as u16, // the headers of a frame end below 2^16
        csum_offset: of.offset as u16,
        ..VnetHdr::default()
    }
}
