//! A smoltcp device whose sends go through a path.
//!
//! [`Shaped`] wraps any device of smoltcp: the frames of the stack wait in the qdiscs of a path,
//! which are told flows, priorities and ECN fields from the headers, and a mark of a qdisc is
//! written into the frame. While the path has no room the stack gets no token, and its sockets keep
//! their data. The buffers of frames are made at the start and used again: no frame allocates.
//!
//! A token is given before its frame is known. If only the flow or the class of the frame has no
//! room, the frame waits in front of the path, and the stack gets no token until it is in.
//!
//! The owner calls [`Shaped::flush`] after each poll of the interface, and again at the time that
//! it returns.

use ::smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use ::smoltcp::time::Instant as Time;

use txweir_core::packet::detail::Detail;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::{Headers, clear_dscp, set_ce};
use txweir_core::sched::answer::Verdict;
use txweir_core::{Admitted, Completed, DeviceError, DropReason, Instant, Meta, Role, TxPath, TxQueue, Wake};

/// A device whose sends go through a path.
#[derive(Debug)]
pub struct Shaped<D> {
    inner: D,
    path: TxPath<Vec<u8>>,
    /// Buffers that no frame has.
    spare: Vec<Vec<u8>>,
    /// A frame for which the path had no room, although the stack had a token for it.
    held: Option<Vec<u8>>,
    hasher: FlowHasher,
    lost: u64,
}

impl<D: Device> Shaped<D> {
    /// Wraps a device. At most `buffers` frames of the stack wait, each in a buffer of the device's
    /// largest frame. `seed` keys the flow hash; where strangers send, it is secret.
    ///
    /// The path has `PathConfig::for_socket`: smoltcp's devices are done with a frame once they
    /// have taken it. A device of IP packets has no link header (`Env::link_header`).
    pub fn new(inner: D, path: TxPath<Vec<u8>>, buffers: usize, seed: u64) -> Self {
        let longest = inner.capabilities().max_transmission_unit;
        let spare = (0..buffers).map(|_| Vec::with_capacity(longest)).collect();
        Self { inner, path, spare, held: None, hasher: FlowHasher::new(seed), lost: 0 }
    }

    /// Returns the device.
    pub const fn inner(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the path, to read its counters.
    pub const fn path(&self) -> &TxPath<Vec<u8>> {
        &self.path
    }

    /// Returns the number of frames that found no room: replies, which the stack makes without
    /// asking for room first, and frames that the device refused after it had promised room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Calls `f` with the path and a device for its calls: to change its qdiscs.
    pub fn with_path<R>(&mut self, f: impl FnOnce(&mut TxPath<Vec<u8>>, &mut Tokens<'_, D>) -> R) -> R {
        let Self { path, spare, lost, .. } = self;
        f(path, &mut Tokens { to: None, spare, lost })
    }

    /// Hands the frames that may leave now to the device. Returns when to call it next: at a time,
    /// or, after `Wake::Device`, when the device has room again.
    pub fn flush(&mut self, now: Time) -> Wake {
        let Self { inner, path, spare, held, hasher, lost } = self;
        let medium = inner.capabilities().medium;
        let mut tokens = Tokens { to: Some((inner, now)), spare, lost };
        let wake = path.drain(instant(now), u32::MAX, &mut tokens);
        let Some(frame) = held.take() else { return wake };
        let h = headers(medium, &frame);
        *held = submit(path, &mut tokens, hasher, now, &h, frame);
        match held {
            Some(_) => wake,
            None => path.drain(instant(now), u32::MAX, &mut tokens),
        }
    }
}

/// Gives a frame to the path. Returns it if there is no room for it now.
fn submit<D: Device>(
    path: &mut TxPath<Vec<u8>>,
    tokens: &mut Tokens<'_, D>,
    hasher: &FlowHasher,
    now: Time,
    h: &Headers,
    frame: Vec<u8>,
) -> Option<Vec<u8>> {
    let m = Meta::of(h, u32::try_from(frame.len()).unwrap_or(u32::MAX), hasher);
    let detail = path.wants_detail().then(|| Detail::of(h, &frame, hasher));
    match path.submit_with(instant(now), frame, m, detail.as_ref(), tokens) {
        Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => None,
        Admitted::Full(frame) => Some(frame),
        // A frame of smoltcp is not cut.
        Admitted::Cut(frame, _) => {
            *tokens.lost += 1;
            tokens.spare.push(frame);
            None
        }
    }
}

/// Returns the time of smoltcp's clock, which must not go back, as that of a path.
pub fn instant(now: Time) -> Instant {
    Instant::from_micros(now.total_micros().unsigned_abs())
}

/// Reads the headers of a frame.
fn headers(medium: Medium, frame: &[u8]) -> Headers {
    match medium {
        Medium::Ethernet => Headers::parse_ethernet(frame),
        Medium::Ip => Headers::parse_ip(frame),
        #[allow(unreachable_patterns, reason = "the stack may be built with a further medium")]
        _ => Headers::EMPTY,
    }
}

impl<D: Device> Device for Shaped<D> {
    type RxToken<'a>
        = D::RxToken<'a>
    where
        D: 'a;
    type TxToken<'a>
        = Submit<'a, D>
    where
        D: 'a;

    /// Receives a frame if there is a buffer for the reply to it.
    fn receive(&mut self, now: Time) -> Option<(D::RxToken<'_>, Submit<'_, D>)> {
        let medium = self.inner.capabilities().medium;
        let Self { inner, path, spare, hasher, lost, .. } = self;
        if spare.is_empty() {
            return None;
        }
        let (rx, _) = inner.receive(now)?;
        let tokens = Tokens { to: None, spare, lost };
        Some((rx, Submit { path, tokens, held: None, hasher, now, medium }))
    }

    /// Gives a token while the path has room for a frame of the largest size (a path of
    /// `Role::Forwarder` drops instead), no earlier frame waits in front of it, and the last buffer
    /// is not asked for, which is that of replies.
    fn transmit(&mut self, now: Time) -> Option<Submit<'_, D>> {
        let DeviceCapabilities { medium, max_transmission_unit: longest, .. } = self.capabilities();
        let largest = Meta::new(u32::try_from(longest).unwrap_or(u32::MAX));
        let waits = self.path.role == Role::Origin;
        let tree = self.path.tree();
        // A path that is empty, or never takes so large a frame, may take a smaller one: nothing
        // would tell the stack of more room.
        let is_full = waits && !tree.root().is_empty() && tree.would_accept(&largest) == Verdict::Full;
        if is_full || self.spare.len() < 2 {
            return None;
        }
        let Self { path, spare, held, hasher, lost, .. } = self;
        if held.is_some() {
            return None;
        }
        let tokens = Tokens { to: None, spare, lost };
        Some(Submit { path, tokens, held: Some(held), hasher, now, medium })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = self.inner.capabilities();
        let longest = self.path.tree().env().frame_max() as usize;
        caps.max_transmission_unit = caps.max_transmission_unit.min(longest);
        caps
    }
}

/// The stack's permission to send one frame into the path.
#[derive(Debug)]
pub struct Submit<'a, D> {
    path: &'a mut TxPath<Vec<u8>>,
    tokens: Tokens<'a, D>,
    /// The place of a frame without room; none for a reply, which is lost then.
    held: Option<&'a mut Option<Vec<u8>>>,
    hasher: &'a FlowHasher,
    now: Time,
    medium: Medium,
}

impl<D: Device> TxToken for Submit<'_, D> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, len: usize, f: F) -> R {
        // A device hands out a token only while there is a buffer.
        let mut frame = self.tokens.spare.pop().unwrap_or_default();
        frame.resize(len, 0);
        let result = f(&mut frame);
        let h = headers(self.medium, &frame);
        let refused = submit(self.path, &mut self.tokens, self.hasher, self.now, &h, frame);
        match (refused, self.held) {
            (None, _) => {}
            (Some(frame), Some(held)) => *held = Some(frame),
            (Some(frame), None) => {
                *self.tokens.lost += 1;
                self.tokens.spare.push(frame);
            }
        }
        result
    }
}

/// The tokens of the inner device as promises of slots; none while the device is lent out to its
/// receive token.
#[derive(Debug)]
pub struct Tokens<'a, D> {
    to: Option<(&'a mut D, Time)>,
    spare: &'a mut Vec<Vec<u8>>,
    lost: &'a mut u64,
}

impl<D: Device> TxQueue for Tokens<'_, D> {
    type Frame = Vec<u8>;

    fn reserve(&mut self, want: u32) -> u32 {
        self.to.as_mut().map_or(0, |(inner, now)| u32::from(want > 0 && inner.transmit(*now).is_some()))
    }

    fn push(&mut self, mut frame: Vec<u8>, m: &Meta) {
        let Some((inner, now)) = &mut self.to else { return self.spare.push(frame) };
        if m.marked || m.washed {
            let network = headers(inner.capabilities().medium, &frame).network_header();
            if m.washed {
                clear_dscp(&mut frame, network);
            }
            if m.marked {
                set_ce(&mut frame, network);
            }
        }
        match inner.transmit(*now) {
            Some(token) => token.consume(frame.len(), |buffer| buffer.copy_from_slice(&frame)),
            None => *self.lost += 1,
        }
        self.spare.push(frame);
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn reap(&mut self, _: &mut dyn FnMut(Completed<Vec<u8>>)) {}

    /// A token that is used up is a frame that has left.
    fn is_done_at_commit(&mut self) -> bool {
        true
    }

    fn copy(&mut self, frame: &Vec<u8>) -> Option<Vec<u8>> {
        let mut copy = self.spare.pop()?;
        copy.clear();
        copy.extend_from_slice(frame);
        Some(copy)
    }

    fn corrupt(&mut self, frame: &mut Vec<u8>, bit: u32) {
        txweir_core::path::device::flip_bit(frame, bit);
    }

    fn discard(&mut self, frame: Vec<u8>, _: &Meta, _: DropReason) {
        self.spare.push(frame);
    }
}

#[cfg(test)]
mod tests;
