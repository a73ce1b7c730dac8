//! Numbers and addresses as flower reads them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a decimal number, or a hexadecimal one.
pub(super) fn decimal_or_hex(word: &str) -> Option<u64> {
    word.parse().ok().or_else(|| u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok())
}

pub(super) fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

pub(super) fn decimal(word: &str) -> Option<u64> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

pub(super) type Parse = fn(&str) -> Option<u64>;

/// Reads `VALUE`, `VALUE/MASK`.
pub(super) fn masked(word: &str, value: Parse, mask: Parse, whole: u64) -> Option<(u64, u64)> {
    let (given, bits) = match word.split_once('/') {
        Some((given, bits)) => (value(given)?, mask(bits)?),
        None => (value(word)?, whole),
    };
    (given <= whole && bits <= whole).then_some((given, bits))
}

/// Reads an Ethernet address; bytes may be left out at the end.
pub(super) fn mac_bytes(word: &str) -> Option<u64> {
    let mut bytes = [0; 6];
    let mut parts = word.split(':');
    for place in &mut bytes {
        let Some(part) = parts.next() else { break };
        *place = u8::from_str_radix(part, 16).ok()?;
    }
    (word.contains(':') && parts.next().is_none())
        .then(|| bytes.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)))
}

const WHOLE_MAC: u64 = 0xffff_ffff_ffff;

pub(super) fn mac(word: &str) -> Option<(u64, u64)> {
    let Some((address, mask)) = word.split_once('/') else { return Some((mac_bytes(word)?, WHOLE_MAC)) };
    let mask = match mask.parse::<u32>() {
        Ok(ones) if ones <= 48 => WHOLE_MAC & !(WHOLE_MAC >> ones),
        Ok(_) => return None,
        Err(_) => mac_bytes(mask)?,
    };
    Some((mac_bytes(address)?, mask))
}

/// Reads `10.1.2.3/8`, `10/8`, `10.0.0.0/255.0.0.0`: bytes may be left out at the end.
pub(super) fn ipv4(word: &str) -> Option<(u128, u128)> {
    let dotted = |word: &str| {
        let mut bytes = [0; 4];
        let parts: Vec<&str> = word.split('.').collect();
        for (place, part) in bytes.iter_mut().zip(&parts) {
            *place = part.parse().ok()?;
        }
        (parts.len() <= 4).then(|| u32::from(Ipv4Addr::from(bytes)))
    };
    if word == "default" {
        return Some((0, 0));
    }
    let (address, mask) = match word.split_once('/') {
        None => (dotted(word)?, u32::MAX),
        Some((address, mask)) => {
            let mask = match mask.parse::<u32>() {
                Ok(ones) if ones <= 32 => !u32::MAX.checked_shr(ones).unwrap_or(0),
                Ok(_) => return None,
                Err(_) => dotted(mask).filter(|m| m.leading_ones() + m.trailing_zeros() >= 32)?,
            };
            (dotted(address)?, mask)
        }
    };
    Some((address.into(), mask.into()))
}

pub(super) fn ipv6(word: &str) -> Option<(u128, u128)> {
    if word == "default" {
        return Some((0, 0));
    }
    let (address, ones) = match word.split_once('/') {
        None => (word, 128),
        Some((address, ones)) => (address, ones.parse::<u32>().ok().filter(|n| *n <= 128)?),
    };
    let mask = !u128::MAX.checked_shr(ones).unwrap_or(0);
    Some((address.parse::<Ipv6Addr>().ok()?.into(), mask))
}
