//! Numbers that are free, from 1 on: what gives handles and indexes to those that ask for none.

use alloc::collections::BTreeMap;

/// Which numbers are free, as ranges. Each operation costs the logarithm of their number, which is at most that of the numbers
/// that were given back or asked for out of turn.
#[derive(Clone, Debug)]
pub(crate) struct FreeNumbers {
    /// The last number of each range, by its first.
    ranges: BTreeMap<u32, u32>,
}

impl Default for FreeNumbers {
    /// All are free.
    fn default() -> Self {
        Self { ranges: BTreeMap::from([(1, u32::MAX)]) }
    }
}

impl FreeNumbers {
    /// The lowest that is free; the highest that there is, if none is.
    pub(crate) fn lowest(&self) -> u32 {
        self.ranges.keys().next().copied().unwrap_or(u32::MAX)
    }

    /// One is free no more.
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

    /// One that was taken is free again.
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
        assert_eq!(free.ranges, BTreeMap::from([(1, u32::MAX)]), "all together again");
        for number in [0, u32::MAX, u32::MAX] {
            free.take(number);
            free.give(number);
        }
        assert_eq!(free.ranges, BTreeMap::from([(1, u32::MAX)]));
    }
}
