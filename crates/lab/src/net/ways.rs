//! The ways between the hosts of a net.

use std::collections::VecDeque;

/// For each host and destination, the NIC of the first hop on a shortest way.
///
/// Only hosts that have links have ways. The memory is 4 bytes for each pair of them, and the time
/// to find all ways is in proportion to the pairs and the links. The number of links is bounded by
/// the memory that each takes ([`crate::scenario::MEMORY`]); that of hosts without links is not.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// For each host its number among the hosts that have links; `u32::MAX` for the others.
    numbers: Vec<u32>,
    /// For each of the numbered hosts and each destination, by number, the NIC; `u32::MAX` if no
    /// links lead there.
    first: Vec<u32>,
    /// Number of hosts that have links.
    count: usize,
}

impl Ways {
    /// Returns the ways of a net. For each host, `neighbours` has its NICs, with the host at the
    /// other side of each link.
    pub(super) fn of(neighbours: &[Vec<(u32, u32)>]) -> Self {
        let mut has_links: Vec<bool> = neighbours.iter().map(|links| !links.is_empty()).collect();
        neighbours.iter().flatten().for_each(|(_, to)| has_links[*to as usize] = true);
        let mut count = 0;
        let mut number = |has: bool| {
            count += usize::from(has);
            if has { count as u32 - 1 } else { u32::MAX }
        };
        let numbers: Vec<u32> = has_links.into_iter().map(&mut number).collect();
        let mut ways = Self { numbers, first: vec![u32::MAX; count * count], count };
        let mut seen = vec![usize::MAX; count];
        for host in 0..neighbours.len() {
            ways.search(host, neighbours, &mut seen);
        }
        ways
    }

    /// True if nothing was found yet.
    pub(super) const fn is_stale(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the NIC of the first hop; `u32::MAX` if no links lead from one host to the other.
    #[inline]
    pub(super) fn first(&self, from: u32, to: u32) -> u32 {
        let number = |host: u32| self.numbers.get(host as usize).map_or(usize::MAX, |n| *n as usize);
        let (from, to) = (number(from), number(to));
        if from >= self.count || to >= self.count {
            return u32::MAX;
        }
        self.first[from * self.count + to]
    }

    /// Searches breadth-first from a host. A destination was `seen` if the place of its number has
    /// that of the host.
    fn search(&mut self, host: usize, neighbours: &[Vec<(u32, u32)>], seen: &mut [usize]) {
        let Some(from) = self.numbers.get(host).map(|n| *n as usize).filter(|n| *n < self.count) else {
            return;
        };
        seen[from] = from;
        let mut queue: VecDeque<(usize, u32)> = [(host, u32::MAX)].into();
        while let Some((at, via)) = queue.pop_front() {
            for &(nic, to) in &neighbours[at] {
                let number = self.numbers[to as usize] as usize;
                if std::mem::replace(&mut seen[number], from) != from {
                    let via = if via == u32::MAX { nic } else { via };
                    self.first[from * self.count + number] = via;
                    queue.push_back((to as usize, via));
                }
            }
        }
    }
}
