//! Transport of packets on a link, as numbers.

/// Transport of packets on a link (tc-stab(8), tc-tbf(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// Whole packets.
    #[default]
    Ethernet,
    /// Cells of 53 bytes that carry 48 each; tc's `atm` and `adsl`.
    Atm,
}

/// Bytes of an ATM cell (ITU-T I.361).
pub(crate) const CELL: u64 = 53;
/// Payload bytes of an ATM cell.
pub(crate) const CELL_PAYLOAD: u64 = 48;
