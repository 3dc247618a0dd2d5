//! The chunks of a process's memory, each with a number that policies know it by, and where each is.
//!
//! A chunk is 2 MiB, aligned, and inside one mapping: a huge page, or 512 base pages that move together. What does not
//! fill a chunk is left alone, and so is a mapping that its owner placed.

use std::collections::{BTreeMap, HashSet};
use std::io;

use warmset_placement::tier::{NOWHERE, Tier};
use warmset_platform::sysinfo::maps::Mapping;

use crate::{Access, Mover, Topology};

/// Bytes in a chunk.
pub const CHUNK_BYTES: u64 = 2 << 20;
/// Base pages of a chunk that are looked at to tell where it is.
const LOOKS: u64 = 8;

/// All chunks. A number stays that of its chunk as long as the chunk is mapped.
#[derive(Debug, Default)]
pub struct Pages {
    addresses: Vec<u64>,
    tiers: Vec<Tier>,
    held_until_ns: Vec<u64>,
    numbers: BTreeMap<u64, u32>,
    unused: Vec<u32>,
    cursor: usize,
}

impl Pages {
    /// Takes in the mappings of now that may be moved.
    pub fn map(&mut self, mappings: &[Mapping]) {
        let mut gone: HashSet<u64> = self.numbers.keys().copied().collect();
        for mapping in mappings {
            let Some(first) = mapping.start.checked_next_multiple_of(CHUNK_BYTES) else { continue };
            let last = mapping.end / CHUNK_BYTES * CHUNK_BYTES;
            for address in (first..last).step_by(CHUNK_BYTES as usize) {
                if !gone.remove(&address) && !self.numbers.contains_key(&address) {
                    self.add(address);
                }
            }
        }
        for address in gone {
            if let Some(number) = self.numbers.remove(&address) {
                self.tiers[number as usize] = NOWHERE;
                self.unused.push(number);
            }
        }
    }

    fn add(&mut self, address: u64) {
        let number = self.unused.pop().or_else(|| {
            let number = u32::try_from(self.addresses.len()).ok()?;
            self.addresses.push(0);
            self.tiers.push(NOWHERE);
            self.held_until_ns.push(0);
            Some(number)
        });
        // 2³² chunks are more than an address space has.
        let Some(number) = number else { return };
        self.addresses[number as usize] = address;
        self.held_until_ns[number as usize] = 0;
        self.numbers.insert(address, number);
    }

    /// How many chunks are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Where each is, by number.
    #[must_use]
    pub fn residency(&self) -> &[Tier] {
        &self.tiers
    }

    /// The first address of a chunk.
    #[must_use]
    pub fn address(&self, number: u32) -> Option<u64> {
        self.addresses.get(number as usize).copied()
    }

    /// Chunks per tier.
    #[must_use]
    pub fn count(&self, tiers: usize) -> Vec<u64> {
        let mut counts = vec![0; tiers];
        for &tier in &self.tiers {
            if let Some(count) = counts.get_mut(usize::from(tier)) {
                *count += 1;
            }
        }
        counts
    }

    /// The chunks that accesses fell into, with the accesses' rate times the part of the chunk that they cover.
    #[must_use]
    pub fn accessed(&self, accesses: &[Access]) -> BTreeMap<u32, f64> {
        let mut weights = BTreeMap::new();
        for access in accesses {
            let first = access.start / CHUNK_BYTES * CHUNK_BYTES;
            for (&address, &number) in self.numbers.range(first..access.end.max(first)) {
                let covered = access.end.min(address + CHUNK_BYTES) - access.start.max(address);
                *weights.entry(number).or_insert(0.0) += access.rate * covered as f64 / CHUNK_BYTES as f64;
            }
        }
        weights
    }

    /// The next `count` chunks of a round through all.
    pub fn next(&mut self, count: usize) -> Vec<u32> {
        let all = self.addresses.len();
        let numbers = (0..count.min(all)).map(|step| ((self.cursor + step) % all) as u32).collect();
        self.cursor = if all == 0 { 0 } else { (self.cursor + count) % all };
        numbers
    }

    /// Asks the kernel where chunks are.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    pub fn look(
        &mut self,
        mover: &mut dyn Mover,
        pid: u32,
        topology: &Topology,
        numbers: &[u32],
        now_ns: u64,
    ) -> io::Result<()> {
        let is_mapped = |number: &u32| self.numbers.get(&self.addresses[*number as usize]) == Some(number);
        let numbers: Vec<u32> = numbers.iter().copied().filter(is_mapped).collect();
        let step = CHUNK_BYTES / LOOKS;
        let addresses: Vec<u64> = numbers
            .iter()
            .flat_map(|number| (0..LOOKS).map(|look| self.addresses[*number as usize] + look * step))
            .collect();
        let places = mover.locations(pid, &addresses)?;
        for (number, places) in numbers.iter().zip(places.chunks(LOOKS as usize)) {
            let mut votes = vec![0; topology.tiers.len()];
            for tier in places.iter().filter_map(|place| topology.tier_of(*place)) {
                votes[usize::from(tier)] += 1;
            }
            let held = now_ns < self.held_until_ns[*number as usize];
            let most = votes.iter().enumerate().max_by_key(|(at, votes)| (**votes, std::cmp::Reverse(*at)));
            self.tiers[*number as usize] = match most {
                Some((at, votes)) if *votes > 0 && !held => Tier::try_from(at).unwrap_or(NOWHERE),
                _ => NOWHERE,
            };
        }
        Ok(())
    }

    /// Takes in that a chunk was moved.
    pub fn moved(&mut self, number: u32, tier: Tier) {
        self.tiers[number as usize] = tier;
    }

    /// Keeps a chunk that cannot be moved out of all decisions for a while.
    pub fn hold(&mut self, number: u32, until_ns: u64) {
        self.tiers[number as usize] = NOWHERE;
        self.held_until_ns[number as usize] = until_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping { start: start * CHUNK_BYTES, end: end * CHUNK_BYTES }
    }

    #[test]
    fn numbers_stay_and_are_reused_only_once_free() {
        let mut pages = Pages::default();
        pages.map(&[mapping(10, 13)]);
        assert_eq!(pages.len(), 3);
        pages.moved(1, 0);
        pages.map(&[mapping(11, 12), mapping(20, 21)]);
        assert_eq!((pages.len(), pages.address(1)), (2, Some(11 * CHUNK_BYTES)));
        assert_eq!(pages.residency(), [NOWHERE, 0, NOWHERE, NOWHERE]);
        pages.map(&[mapping(11, 12), mapping(20, 22)]);
        assert_eq!((pages.len(), pages.residency().len()), (3, 4), "a number that was freed is reused");
        assert_eq!(pages.address(1), Some(11 * CHUNK_BYTES));
    }

    #[test]
    fn what_fills_no_chunk_is_left_alone() {
        let mut pages = Pages::default();
        let half = CHUNK_BYTES / 2;
        let odd = Mapping { start: half, end: CHUNK_BYTES + half };
        pages.map(&[odd]);
        assert!(pages.is_empty());
    }

    #[test]
    fn accesses_count_by_the_part_that_they_cover() {
        let mut pages = Pages::default();
        pages.map(&[mapping(1, 3)]);
        let access = Access {
            start: CHUNK_BYTES / 2,
            end: 2 * CHUNK_BYTES + CHUNK_BYTES / 4,
            rate: 2.0,
            latency_ns: None,
        };
        let weights: Vec<f64> = pages.accessed(&[access]).into_values().collect();
        assert_eq!(weights, [2.0, 0.5]);
    }

    #[test]
    fn a_round_meets_every_chunk() {
        let mut pages = Pages::default();
        assert!(pages.next(5).is_empty());
        pages.map(&[mapping(1, 4)]);
        assert_eq!((pages.next(2), pages.next(2)), (vec![0, 1], vec![2, 0]));
    }
}
