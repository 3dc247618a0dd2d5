//! Free pages per tier while moves are being chosen.

use std::collections::HashSet;

use super::{Layout, Move, NOWHERE, Quantum, Tier};

/// Collects moves that never put a tier over its capacity, nor exceed what the mover can copy into a tier.
#[derive(Debug)]
pub struct Room {
    free: Vec<u64>,
    budget: Vec<u64>,
    moved: HashSet<u32>,
    moves: Vec<Move>,
}

impl Room {
    /// What is free at the start of a quantum.
    #[must_use]
    pub fn new(layout: &Layout, quantum: &Quantum<'_>) -> Self {
        let mut free = quantum.capacity_pages.to_vec();
        free.resize(layout.tiers, 0);
        for (tier, pages) in (0_u8..).zip(&mut free) {
            // Blocks of less than 256, so that a byte counts each of them.
            let blocks = quantum.residency.chunks(128);
            let used =
                blocks.map(|block| u64::from(block.iter().map(|at| u8::from(*at == tier)).sum::<u8>()));
            *pages = pages.saturating_sub(used.sum());
        }
        let budget = vec![quantum.move_bytes_max / layout.page_bytes.max(1); free.len()];
        Self { free, budget, moved: HashSet::new(), moves: Vec::new() }
    }

    /// The pages that the tier has room for, however fast the mover is.
    #[must_use]
    pub fn free(&self, tier: Tier) -> u64 {
        self.free.get(usize::from(tier)).copied().unwrap_or(0)
    }

    /// The pages that could be moved into this tier now.
    #[must_use]
    pub fn into_tier(&self, tier: Tier) -> u64 {
        let at = usize::from(tier);
        self.free.get(at).copied().unwrap_or(0).min(self.budget.get(at).copied().unwrap_or(0))
    }

    /// Moves a page if there is room for it and it has not moved in this quantum; says whether it did.
    pub fn take(&mut self, page: u32, from: Tier, to: Tier) -> bool {
        if from == to || from == NOWHERE || self.into_tier(to) == 0 || !self.moved.insert(page) {
            return false;
        }
        self.free[usize::from(to)] -= 1;
        self.budget[usize::from(to)] -= 1;
        self.free[usize::from(from)] += 1;
        self.moves.push(Move { page, from, to });
        true
    }

    /// Exchanges two pages: `out` leaves its tier first. Needs one free page where `out` goes.
    pub fn swap(&mut self, page: u32, from: Tier, out: u32, to: Tier) -> bool {
        page != out
            && !self.moved.contains(&page)
            && !self.moved.contains(&out)
            && self.into_tier(from) > 0
            && self.budget[usize::from(to)] > 0
            && self.take(out, to, from)
            && self.take(page, from, to)
    }

    /// Brings a page in: into free space, or in exchange for the next of `outs`, which is used up then.
    pub fn bring(&mut self, page: u32, from: Tier, to: Tier, outs: &mut impl Iterator<Item = u32>) -> bool {
        if self.take(page, from, to) {
            return true;
        }
        if self.into_tier(from) == 0 || self.budget[usize::from(to)] == 0 {
            return false;
        }
        outs.any(|out| !self.moved.contains(&out) && self.swap(page, from, out, to))
    }

    /// How many moves there are so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.moves.len()
    }

    /// The moves so far.
    #[must_use]
    pub fn moves(self) -> Vec<Move> {
        self.moves
    }
}
