//! The data that has come: in order up to a number, the ranges behind a gap, and the end.

use crate::rare::{Maybe, Rare};
use crate::receiver::gaps::{Added, Gaps};
use crate::segment::{Flags, Sacks, Segment};

/// Data that has come.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Next number expected in order.
    pub(crate) next: u64,
    /// Number of the next byte that the reader takes.
    pub(crate) read: u64,
    /// The number of the FIN, once it has come.
    fin: Maybe,
    /// Data that came out of order.
    gaps: Rare<Gaps>,
    /// The range that came twice last, until an acknowledgement reports it (RFC 2883).
    duplicate: Option<Box<(u64, u64)>>,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { next: 0, read: 1, fin: Maybe::NONE, gaps: Rare::default(), duplicate: None }
    }

    /// Asks for the memory of what it knows of gaps.
    pub(crate) fn ahead(&self) {
        self.gaps.ahead();
    }

    /// Returns the number of bytes in order that wait for the reader.
    pub(crate) const fn readable(&self) -> u64 {
        let end = match self.fin.get() {
            Some(fin) if self.next > fin => fin,
            _ => self.next,
        };
        end.saturating_sub(self.read)
    }
    /// True if the reader has everything and the peer has closed.
    pub(crate) fn finished(&self) -> bool {
        self.fin.get().is_some_and(|fin| self.next > fin && self.read == fin)
    }
    /// True if the peer's FIN has come in order.
    pub(crate) fn closed(&self) -> bool {
        self.fin.get().is_some_and(|fin| self.next > fin)
    }
    /// Returns the number of bytes in the buffer: unread, and out of order.
    pub(crate) fn held(&self) -> u64 {
        self.readable() + self.gaps.bytes()
    }
    /// True if some data has come behind a gap.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Notes the FIN of a segment, if it has one. True if so.
    pub(crate) fn note_fin(&mut self, seg: &Segment) -> bool {
        let fin = seg.flags.has(Flags::FIN);
        if fin {
            self.fin = Maybe::some(seg.end() - 1);
        }
        fin
    }

    /// Notes the part of a segment that has come before. True if there is such a part.
    pub(crate) fn note_repeated(&mut self, seg: &Segment) -> bool {
        let repeats = seg.end() > seg.seq && seg.seq < self.next;
        if repeats {
            self.duplicate = Some(Box::new((seg.seq, seg.end().min(self.next))));
        }
        repeats
    }

    /// Takes the range of a segment beyond a gap. False if there is no room for it.
    pub(crate) fn add(&mut self, seg: &Segment) -> bool {
        match self.gaps.add(seg.seq, seg.end()) {
            Added::Full => return false,
            Added::Known => self.duplicate = Some(Box::new((seg.seq, seg.end()))),
            Added::New => {}
        }
        true
    }

    /// Makes the range of a segment beyond a gap the most recent block. Returns the number of
    /// blocks that acknowledgements report.
    pub(crate) fn tell(&mut self, seg: &Segment) -> usize {
        self.gaps.tell(seg.seq, seg.end())
    }

    /// Joins early data to the data in order. True if there was some to join.
    pub(crate) fn join(&mut self) -> bool {
        let (next, twice) = self.gaps.join(self.next);
        self.duplicate = self.duplicate.take().or_else(|| twice.map(Box::new));
        if self.gaps.is_empty() {
            self.gaps.forget();
        }
        std::mem::replace(&mut self.next, next) != next
    }

    /// Returns the blocks of the next acknowledgement, at most `most` of them; a range that came
    /// twice is reported once.
    pub(crate) fn blocks(&mut self, most: usize) -> Sacks {
        let mut sacks = Sacks::default();
        if let Some(twice) = self.duplicate.take() {
            sacks.push(twice.0, twice.1, most);
        }
        for &(start, end) in self.gaps.blocks() {
            sacks.push(start, end, most);
        }
        sacks
    }
}
