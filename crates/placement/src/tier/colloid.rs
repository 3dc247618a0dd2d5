//! Page choice for a balance: pages whose access shares add up to what should change tier.

use super::{Quantum, Room, Shift, Tier};

/// Pages that are looked at together.
const BLOCK: usize = 64;
/// Up to so many pages are found without a list of all.
const FEW: usize = 32;

/// Pages in order of heat, and what they share of all accesses.
#[derive(Debug)]
pub struct PageShares<'a> {
    heat: &'a [f32],
    all: f64,
    floor: f32,
}

impl<'a> PageShares<'a> {
    /// `heat` per page; pages at `floor` or below are taken for cold, and are not moved for the balance's sake.
    #[must_use]
    pub fn new(heat: &'a [f32], floor: f32) -> Self {
        let all = sum(heat);
        Self { heat, all, floor }
    }

    /// A page's part of all accesses.
    #[must_use]
    pub fn share(&self, page: u32) -> f64 {
        if self.all > 0.0 { f64::from(self.heat[page as usize]) / self.all } else { 0.0 }
    }

    /// The `most` hottest pages of a tier, hottest first.
    #[must_use]
    pub fn hottest(&self, quantum: &Quantum<'_>, tier: Tier, most: usize) -> Vec<u32> {
        if most <= FEW {
            return few(quantum.residency, self.heat, tier, most, |heat| -heat, -self.floor);
        }
        let mut pages = select(quantum.residency, self.heat, tier, |heat| heat > self.floor);
        first(&mut pages, most, |page| -self.heat[page as usize]);
        pages
    }

    /// The `most` coldest pages of a tier, coldest first.
    #[must_use]
    pub fn coldest(&self, quantum: &Quantum<'_>, tier: Tier, most: usize) -> Vec<u32> {
        if most <= FEW {
            return few(quantum.residency, self.heat, tier, most, |heat| heat, f32::INFINITY);
        }
        let mut pages = select(quantum.residency, self.heat, tier, |_| true);
        first(&mut pages, most, |page| self.heat[page as usize]);
        pages
    }

    /// Moves pages between tier 0 and tier 1 until `shift.share` is used up: hot ones first, swapped with cold ones
    /// where the goal is full.
    pub fn shift(&self, quantum: &Quantum<'_>, shift: Shift, pages_max: usize, room: &mut Room) {
        let (from, to): (Tier, Tier) = if shift.promote { (1, 0) } else { (0, 1) };
        let mut left = shift.share;
        if left <= 0.0 || pages_max == 0 {
            return;
        }
        let hot = self.hottest(quantum, from, pages_max.saturating_mul(2));
        if hot.is_empty() {
            return;
        }
        // Only a goal that may become full needs pages that leave it.
        let full = room.into_tier(to) < hot.len() as u64;
        let outs = if full { self.coldest(quantum, to, pages_max) } else { Vec::new() };
        let mut outs = outs.into_iter().peekable();
        let mut taken = 0;
        for page in hot {
            if taken == pages_max {
                break;
            }
            let against = match outs.peek() {
                Some(&out) if room.into_tier(to) == 0 => self.share(out),
                _ => 0.0,
            };
            let gain = self.share(page) - against;
            if gain <= 0.0 || gain > left {
                continue;
            }
            if !room.bring(page, from, to, &mut outs) {
                break;
            }
            left -= gain;
            taken += 1;
        }
    }
}

/// The pages of a tier whose heat is as wanted. Most blocks have none, and that is found without a branch per page.
pub(super) fn select(residency: &[Tier], heat: &[f32], tier: Tier, wanted: impl Fn(f32) -> bool) -> Vec<u32> {
    let mut pages = Vec::new();
    for ((at, heat), first) in residency.chunks(BLOCK).zip(heat.chunks(BLOCK)).zip((0_u32..).step_by(BLOCK)) {
        let hits = at
            .iter()
            .zip(heat)
            .fold(0_u32, |hits, (at, heat)| hits + u32::from((*at == tier) & wanted(*heat)));
        if hits > 0 {
            let known = (first..).zip(at.iter().zip(heat));
            pages
                .extend(known.filter(|(_, (at, heat))| **at == tier && wanted(**heat)).map(|(page, _)| page));
        }
    }
    pages
}

/// The `most` pages of a tier with the smallest keys below a limit, in order, as `select` and `first` find them. Most
/// blocks hold none that beats those found so far, and that is found without a branch per page.
fn few(
    residency: &[Tier],
    heat: &[f32],
    tier: Tier,
    most: usize,
    key: impl Fn(f32) -> f32,
    mut limit: f32,
) -> Vec<u32> {
    let mut found: Vec<(f32, u32)> = Vec::with_capacity(most + 1);
    if most == 0 {
        return Vec::new();
    }
    for ((at, heat), first) in residency.chunks(BLOCK).zip(heat.chunks(BLOCK)).zip((0_u32..).step_by(BLOCK)) {
        let hits = at
            .iter()
            .zip(heat)
            .fold(0_u32, |hits, (at, heat)| hits + u32::from((*at == tier) & (key(*heat) < limit)));
        if hits == 0 {
            continue;
        }
        for (page, (at, heat)) in (first..).zip(at.iter().zip(heat)) {
            let key = key(*heat);
            if *at == tier && key < limit {
                // Behind its equals, which are earlier pages.
                found.insert(found.partition_point(|(other, _)| *other <= key), (key, page));
                found.truncate(most);
                if found.len() == most {
                    limit = found[most - 1].0;
                }
            }
        }
    }
    found.into_iter().map(|(_, page)| page).collect()
}

/// The sum, in eight lanes, so that additions overlap.
pub(super) fn sum(heat: &[f32]) -> f64 {
    let mut lanes = [0.0_f32; 8];
    let blocks = heat.chunks_exact(8);
    let rest: f32 = blocks.remainder().iter().sum();
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, heat)| *lane += heat);
    }
    f64::from(rest) + lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>()
}

/// Leaves the `most` pages with the smallest keys, in order; ties by page.
pub(super) fn first(pages: &mut Vec<u32>, most: usize, key: impl Fn(u32) -> f32) {
    let order = |a: &u32, b: &u32| key(*a).total_cmp(&key(*b)).then(a.cmp(b));
    if most == 0 {
        pages.clear();
    } else if pages.len() > most {
        pages.select_nth_unstable_by(most - 1, order);
        pages.truncate(most);
    }
    pages.sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pages_are_those_that_a_list_of_all_gives() {
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for pages in [1, 63, 64, 1000] {
            let residency: Vec<Tier> = (0..pages).map(|_| next(3) as Tier).collect();
            // Few distinct values, so that many are equal.
            let heat: Vec<f32> = (0..pages).map(|_| next(20) as f32 * 0.5).collect();
            for most in [0, 1, 2, 7, FEW] {
                let mut hot = select(&residency, &heat, 1, |heat| heat > 4.0);
                first(&mut hot, most, |page| -heat[page as usize]);
                assert_eq!(few(&residency, &heat, 1, most, |heat| -heat, -4.0), hot, "{pages} pages, {most}");
                let mut cold = select(&residency, &heat, 1, |_| true);
                first(&mut cold, most, |page| heat[page as usize]);
                assert_eq!(few(&residency, &heat, 1, most, |heat| heat, f32::INFINITY), cold);
            }
        }
    }
}
