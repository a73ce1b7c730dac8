//! The live end: a packet socket on a veth, in a network namespace of the measurement's own.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use txweir_core::Meta;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_device::{Calls, FrameRef, IfName, Packet, PacketOptions, Rest, VnetHdr, within_new};

use super::line::Shown;
use super::ways::{FRAME_LEN, Frame};

/// Frames that are held for one system call.
const HELD_MAX: usize = 64;

/// A packet socket as a device: a doorbell is a system call.
pub(super) struct Socket {
    packet: Packet,
    held: Vec<Frame>,
    shown: Arc<AtomicU64>,
    finished: u32,
}

impl TxQueue for Socket {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min((HELD_MAX - self.held.len()) as u32)
    }
    fn push(&mut self, frame: Frame, _: &Meta) {
        self.held.push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        let mut frames = [FrameRef { hdr: VnetHdr::default(), bytes: &[] }; HELD_MAX];
        for (to, frame) in frames.iter_mut().zip(&self.held) {
            to.bytes = *frame;
        }
        let sent = self.packet.send_batch(&frames[..self.held.len()]);
        let gone = sent.gone();
        self.held.drain(..gone);
        self.finished += gone as u32; // at most HELD_MAX
        self.shown.fetch_add(gone as u64, Ordering::Release);
        match sent.rest {
            Rest::None | Rest::Full => Ok(()),
            Rest::Gone(e) => Err(DeviceError(e.to_string())),
        }
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        if !self.held.is_empty() {
            // The socket was full.
            let _ = self.commit();
        }
        if self.finished > 0 {
            let packets = std::mem::take(&mut self.finished);
            sink(Completed { packets, bytes: packets * FRAME_LEN as u32, frame: None });
        }
    }
}

/// Opens a packet socket on a veth at whose other end no socket listens.
pub(super) fn socket() -> Result<(Socket, Shown), String> {
    let opened = within_new(|| {
        run(&["link", "add", "out", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "sink"])?;
        run(&["link", "set", "sink", "address", "02:00:00:00:00:03", "up"])?;
        run(&["link", "set", "out", "up"])?;
        let name: IfName = "out".parse().map_err(|e| format!("{e}"))?;
        Packet::open(&name, &PacketOptions::default()).map_err(|e| e.to_string())
    });
    let packet = opened.map_err(|e| format!("no network namespace can be made (root needed): {e}"))??;
    let shown = Arc::new(AtomicU64::new(0));
    let held = Vec::with_capacity(HELD_MAX);
    Ok((Socket { packet, held, shown: Arc::clone(&shown), finished: 0 }, Shown::at_once(shown)))
}

fn run(args: &[&str]) -> Result<(), String> {
    let out =
        Command::new("ip").args(args).output().map_err(|e| format!("ip (iproute2) cannot be run: {e}"))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim())),
    }
}
