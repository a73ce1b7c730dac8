//! The tin of each packet, and each tin's share of the link (tc-cake(8); the DSCP tables are Linux
//! 6.12's, as measured packet by packet).

use crate::base::units::Rate;
use crate::packet::meta::Meta;
use crate::qdisc::cake::config::Diffserv;

/// Most tins.
pub(crate) const TINS_MAX: usize = 8;

/// A mode's tins and their shares.
#[derive(Debug)]
pub struct Plan {
    /// Each tin's share of the rate, in the order of service.
    pub shares: &'static [Share],
    /// The tins in the order in which they are printed, numbered and marked: by priority, the
    /// lowest first.
    pub order: &'static [u8],
    /// Names of the tins in that order.
    pub names: &'static [&'static str],
    /// DSCPs with the tin that they choose, numbered in the order of service; others choose
    /// `fallback`.
    dscps: &'static [(u8, &'static [u8])],
    fallback: u8,
}

/// A tin's share of the rate.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Times that the link's rate is multiplied by 7/8.
    pub eighths: u32,
    /// Times that it is halved after that.
    pub halvings: u32,
    /// Bytes of its turn while there is no shaping.
    pub quantum: u16,
}

impl Share {
    /// Returns the share of a rate.
    pub fn of(&self, rate: Rate) -> Rate {
        // Each step makes it less, so that it fits 64 bits.
        let eighths = |rate, _| (u128::from(rate) * 7 / 8) as u64;
        Rate((0..self.eighths).fold(rate.0, eighths) >> self.halvings)
    }
}

const fn share(halvings: u32, quantum: u16) -> Share {
    Share { eighths: 0, halvings, quantum }
}

/// Returns the shares of eight tins, each with 7/8 of the one below.
const fn steps() -> [Share; TINS_MAX] {
    let mut shares = [share(0, 256); TINS_MAX];
    let mut i = 1;
    // Bound: `TINS_MAX` turns, in the compiler.
    while i < TINS_MAX {
        shares[i] = Share { eighths: i as u32, halvings: 0, quantum: shares[i - 1].quantum * 7 / 8 };
        i += 1;
    }
    shares
}

const STEPS: [Share; TINS_MAX] = steps();

static BESTEFFORT: Plan =
    Plan { shares: &[share(0, u16::MAX)], order: &[0], names: &["Tin 0"], dscps: &[], fallback: 0 };

const EIGHT: [&str; TINS_MAX] = ["Tin 0", "Tin 1", "Tin 2", "Tin 3", "Tin 4", "Tin 5", "Tin 6", "Tin 7"];

static PRECEDENCE: Plan =
    Plan { shares: &STEPS, order: &[0, 1, 2, 3, 4, 5, 6, 7], names: &EIGHT, dscps: &[], fallback: 0 };

/// LE, CS1 (RFC 8622, RFC 3662); CS7, CS6, EF, VA, TOS 4.
static DIFFSERV3: Plan = Plan {
    shares: &[share(0, 1024), share(4, 64), share(2, 256)],
    order: &[1, 0, 2],
    names: &["Bulk", "Best Effort", "Voice"],
    dscps: &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])],
    fallback: 0,
};

/// LE, CS1; TOS 4, AF2x, CS2, AF3x, CS3, AF4x; CS4, CS5, VA, EF, CS6, CS7.
static DIFFSERV4: Plan = Plan {
    shares: &[share(0, 1024), share(4, 64), share(1, 512), share(2, 256)],
    order: &[1, 0, 2, 3],
    names: &["Bulk", "Best Effort", "Video", "Voice"],
    dscps: &[
        (1, &[1, 8]),
        (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
        (3, &[32, 40, 44, 46, 48, 56]),
    ],
    fallback: 0,
};

/// LE; CS1, TOS 2, AF1x; the rest; AF3x, CS3, AF4x; TOS 4, AF2x; CS2; CS4, CS5, VA, EF; CS6, CS7.
static DIFFSERV8: Plan = Plan {
    shares: &STEPS,
    order: &[0, 1, 2, 3, 4, 5, 6, 7],
    names: &EIGHT,
    dscps: &[
        (0, &[1]),
        (1, &[2, 8, 10, 12, 14]),
        (3, &[24, 26, 28, 30, 34, 36, 38]),
        (4, &[4, 18, 20, 22]),
        (5, &[16]),
        (6, &[32, 40, 44, 46]),
        (7, &[48, 56]),
    ],
    fallback: 2,
};

impl Diffserv {
    /// Returns the tins and shares of this mode.
    pub fn plan(self) -> &'static Plan {
        match self {
            Self::Besteffort => &BESTEFFORT,
            Self::Precedence => &PRECEDENCE,
            Self::Diffserv3 => &DIFFSERV3,
            Self::Diffserv4 => &DIFFSERV4,
            Self::Diffserv8 => &DIFFSERV8,
        }
    }

    /// Returns the tin of each DSCP.
    pub fn table(self) -> [u8; 64] {
        let plan = self.plan();
        let mut table = [plan.fallback; 64];
        if self == Self::Precedence {
            for (dscp, tin) in (0u8..).zip(&mut table) {
                *tin = dscp >> 3;
            }
        }
        for (tin, dscps) in plan.dscps {
            for dscp in *dscps {
                table[usize::from(*dscp) & 63] = *tin;
            }
        }
        table
    }
}

/// Returns the DSCP that a packet counts as: ARP is network control.
pub(crate) fn dscp_of(m: &Meta) -> u8 {
    match m.protocol {
        crate::packet::headers::ethertype::ARP => 56,
        _ => m.ds >> 2,
    }
}
