//! How a link carries a packet, as numbers.

/// How a link carries a packet (tc-stab(8), tc-tbf(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// Whole.
    #[default]
    Ethernet,
    /// In cells of 53 bytes that carry 48 each; tc's `atm` and `adsl`.
    Atm,
}

/// Bytes of an ATM cell (ITU-T I.361).
pub(crate) const CELL: u64 = 53;
/// Bytes that it carries.
pub(crate) const CELL_PAYLOAD: u64 = 48;
