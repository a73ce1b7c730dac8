//! The Internet checksum (RFC 1071), sums of 16-bit words in one's complement, and CRC-32C, which
//! SCTP uses instead.
//!
//! A `Sum` is kept as a wide number and folded at the end. Addition is associative, so a header, a
//! payload and a pseudo-header may be summed apart. Each part but the last must have an even
//! length.

/// A running one's-complement sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`, as big-endian 16-bit words; a last odd byte counts as the high half of a word.
    /// Linear in the length.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // 32-bit words fold to the same 16-bit sum, because 2^16 = 1 modulo 2^16 - 1. Frames are
        // below 2^17 bytes, so 64 bits cannot overflow; a slice of 2^61 words exists only in
        // theory.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_be_bytes(last));
        Self(self.0 + u64::from(fold(sum)))
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Subtracts one 16-bit word: adds its complement, as one's complement requires (RFC 1624
    /// section 3).
    #[must_use]
    pub fn minus(self, word: u16) -> Self {
        self.word(!word)
    }

    /// Returns the 16-bit sum, not complemented, as a partial checksum field holds it.
    #[must_use]
    pub fn partial(self) -> u16 {
        fold(self.0)
    }

    /// Returns the checksum to store where 0 has no special meaning, as in an IPv4 header: the
    /// complement.
    #[must_use]
    pub fn checksum(self) -> u16 {
        !fold(self.0)
    }

    /// Returns the checksum to store: the complement, with 0 written as 0xffff, its equal in one's
    /// complement, because UDP reserves 0 for "no checksum" (RFC 768).
    #[must_use]
    pub fn finish(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            sum => sum,
        }
    }
}

/// Returns the checksum after one 16-bit word of the covered bytes has changed from `old` to `new`
/// (RFC 1624, equation 3): a wrong checksum stays wrong.
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16) // two folds leave 16 bits of a sum of three 16-bit words
}

/// The polynomial of CRC-32C, its bits in reverse (RFC 9260 appendix A: 0x1edc6f41).
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// Remainder of each byte.
static CRC_OF_BYTE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    // Bound: 256 turns, in the compiler.
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0); // at most 255
        // Bound: 8 turns, in the compiler.
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ CASTAGNOLI } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the CRC-32C (RFC 9260 appendix A) of consecutive parts; SCTP stores it with its low byte
/// first.
#[must_use]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    !bytes.fold(u32::MAX, |crc, byte| {
        let [low, ..] = (crc ^ u32::from(*byte)).to_le_bytes();
        crc >> 8 ^ CRC_OF_BYTE[usize::from(low)]
    })
}

/// Folds the carries back in until 16 bits are left.
fn fold(mut sum: u64) -> u16 {
    // Bound: 4 turns, because each narrows the sum: 64, 33, 18, 17, 16 bits.
    while let high @ 1.. = sum >> 16 {
        sum = (sum & 0xffff) + high;
    }
    sum as u16 // the loop left nothing above bit 15
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The worked example of RFC 1071 section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
    #[test]
    fn rfc_1071_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&data).partial(), 0xddf2);
        assert_eq!(Sum::default().bytes(&data).finish(), !0xddf2);
    }

    #[test]
    fn zero_is_written_as_all_ones() {
        assert_eq!(Sum::default().bytes(&[0xff, 0xff]).finish(), 0xffff);
        assert_eq!(Sum::default().finish(), 0xffff);
        assert_eq!(Sum::default().bytes(&[0xff, 0xff]).checksum(), 0);
    }

    /// RFC 3720 appendix B.4: 32 bytes of zeros, of ones, counting up, counting down; and the check
    /// value of the catalogues.
    #[test]
    fn crc_of_known_bytes() {
        let (up, down): ([u8; 32], [u8; 32]) =
            (core::array::from_fn(|i| i as u8), core::array::from_fn(|i| 31 - i as u8));
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        assert_eq!(crc32c(&[&up]), 0x46dd_794e);
        assert_eq!(crc32c(&[&down[..7], &down[7..]]), 0x113f_db5c);
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
    }

    #[test]
    fn checksum_example_of_rfc_1624() {
        // Section 4, where equation 2 of RFC 1141 gives 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn checksum_update_is_addition_modulo_65535() {
        for checksum in 0..=u16::MAX {
            for (old, new) in [(0x4501, 0x4503), (0x4502, 0x4503), (0x4ffd, 0x4fff), (0xffff, 1)] {
                // One's complement sums are numbers modulo 65535, and 0 appears as 0xffff.
                let sum = (3 * 0xffff - u32::from(checksum) - u32::from(old) + u32::from(new)) % 0xffff;
                let sum = if sum == 0 { 0xffff } else { sum };
                assert_eq!(u32::from(update(checksum, old, new)), 0xffff - sum);
            }
        }
    }

    proptest! {
        /// Compares with the definition: 16-bit words, carry by carry.
        #[test]
        fn equals_the_definition(data in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut sum = 0u32;
            for pair in data.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
                sum = (sum & 0xffff) + (sum >> 16);
            }
            prop_assert_eq!(u32::from(Sum::default().bytes(&data).partial()), sum);
        }

        /// Replacing a word by `minus` and `word` equals summing anew (RFC 1624), up to the two
        /// zeros.
        #[test]
        fn a_word_can_be_replaced(data in any::<[u8; 20]>(), new in any::<u16>()) {
            let mut changed = data;
            changed[..2].copy_from_slice(&new.to_be_bytes());
            let old = u16::from_be_bytes([data[0], data[1]]);
            let by_delta = Sum::default().bytes(&data).minus(old).word(new).partial();
            let anew = Sum::default().bytes(&changed).partial();
            prop_assert_eq!(by_delta % 0xffff, anew % 0xffff);
        }
    }
}
