//! Free numbers, from 1 on: the source of handles and indexes for commands that name none.

use alloc::collections::BTreeMap;

/// The free numbers, as ranges. Each operation costs the logarithm of the number of ranges, which
/// is at most that of the numbers given back or taken out of order.
#[derive(Clone, Debug)]
pub(crate) struct FreeNumbers {
    /// The last number of each range, by its first.
    ranges: BTreeMap<u32, u32>,
}

impl Default for FreeNumbers {
    /// Returns the set in which all numbers are free.
    fn default() -> Self {
        Self { ranges: BTreeMap::from([(1, u32::MAX)]) }
    }
}

impl FreeNumbers {
    /// Returns the lowest free number; `u32::MAX` if none is free.
    pub(crate) fn lowest(&self) -> u32 {
        self.ranges.keys().next().copied().unwrap_or(u32::MAX)
    }

    /// Makes a number taken.
    pub(crate) fn take(&mut self, number: u32) {
        let range = self.ranges.range(..=number).next_back().map(|(first, last)| (*first, *last));
        let Some((first, last)) = range.filter(|(_, last)| number <= *last) else { return };
        self.ranges.remove(&first);
        if first < number {
            self.ranges.insert(first, number - 1);
        }
        if number < last {
            self.ranges.insert(number + 1, last);
        }
    }

    /// Makes a taken number free.
    pub(crate) fn give(&mut self, number: u32) {
        if number == 0 {
            return;
        }
        let before = self.ranges.range(..=number).next_back().map(|(first, last)| (*first, *last));
        let first = match before {
            Some((_, last)) if last >= number => return,
            Some((first, last)) if last + 1 == number => first,
            _ => number,
        };
        let after = number.checked_add(1).and_then(|next| self.ranges.remove(&next));
        self.ranges.insert(first, after.unwrap_or(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use alloc::collections::BTreeSet;

    #[test]
    fn is_the_set_of_what_nobody_has() {
        let (mut free, mut taken, mut rng) = (FreeNumbers::default(), BTreeSet::new(), Rng::new(3));
        for _ in 0..50_000 {
            let number = match rng.below(3) {
                0 => free.lowest(),
                _ => 1 + rng.below(300) as u32,
            };
            match taken.remove(&number) {
                true => free.give(number),
                false => {
                    taken.insert(number);
                    free.take(number);
                }
            }
            let lowest = (1..).find(|n| !taken.contains(n));
            assert_eq!(Some(free.lowest()), lowest);
        }
        taken.iter().for_each(|number| free.give(*number));
        assert_eq!(free.ranges, BTreeMap::from([(1, u32::MAX)]), "all ranges are merged again");
        for number in [0, u32::MAX, u32::MAX] {
            free.take(number);
            free.give(number);
        }
        assert_eq!(free.ranges, BTreeMap::from([(1, u32::MAX)]));
    }
}
