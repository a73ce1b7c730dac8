//! The search for the ends of a number in a text, by a reader that takes the text or refuses it.

use std::collections::BTreeSet;

/// Numbers are searched up to 2 to this power, beyond every type.
const BITS: u32 = 70;

/// Returns the least and the greatest number that a reader takes.
pub fn range(takes: &dyn Fn(i128) -> bool) -> Option<(i128, i128)> {
    let grid = grid();
    let least = grid.iter().position(|n| takes(*n))?;
    let greatest = grid.iter().rposition(|n| takes(*n))?;
    let below = border(&grid, least, least.checked_sub(1), takes);
    Some((below, border(&grid, greatest, greatest.checked_add(1), takes)))
}

/// Returns the last number accepted between one that is and its neighbour in the grid that is not.
fn border(grid: &[i128], inside: usize, outside: Option<usize>, takes: &dyn Fn(i128) -> bool) -> i128 {
    let mut inside = grid[inside];
    let Some(mut outside) = outside.and_then(|at| grid.get(at).copied()) else { return inside };
    while inside.abs_diff(outside) > 1 {
        let middle = inside + (outside - inside) / 2;
        if takes(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// Returns the numbers at which a search begins, in order: powers of two and ten, on both sides of
/// zero, with their neighbours.
fn grid() -> Vec<i128> {
    let powers = (0..BITS).map(|bits| 1_i128 << bits).chain((1..19).map(|places| 10_i128.pow(places)));
    let near = powers.flat_map(|n| [n - 1, n, n + 1]);
    let all: BTreeSet<i128> = near.flat_map(|n| [-n, n]).chain([0]).collect();
    all.into_iter().collect()
}

/// Returns the numbers in a word: where each begins and ends, and whether it is hexadecimal.
pub fn numbers_in(word: &str) -> Vec<(usize, usize, bool)> {
    let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = word.strip_prefix("0x").filter(|digits| hex(digits)) {
        return vec![(2, 2 + digits.len(), true)];
    }
    if word.is_empty() || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-,.%@".contains(&b)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if hex(word) {
        // The reader decides whether letters are digits here.
        found.push((0, word.len(), true));
    }
    let (bytes, mut at) = (word.as_bytes(), 0);
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    while at < bytes.len() {
        let from = at;
        let sign = bytes[at] == b'-' && (at == 0 || bytes[at - 1] == b',');
        let begins = digit(at) || sign && digit(at + 1);
        let inside = from > 0 && (bytes[from - 1].is_ascii_alphanumeric() || bytes[from - 1] == b'-');
        at += 1;
        if begins && !inside {
            while digit(at) || bytes.get(at) == Some(&b'.') && digit(at + 1) {
                at += 1;
            }
            found.push((from, at, false));
        }
    }
    found
}
