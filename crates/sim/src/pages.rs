//! Pages: how often each is accessed, where it is, and seeded samples of the accesses.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use warmset_placement::tier::{PageSample, Tier, Tracking};

use crate::run::PAGE_BYTES;
use crate::scenario::{Access, PAGES_PER_GIB, Scenario};

/// Small pages per page: the scan for hint faults sees a small one.
pub(crate) const SMALL_PAGES: f64 = 512.0;

/// All pages of the application. Rank 0 is the hottest page.
pub(crate) struct Pages {
    weight_of_rank: Vec<f64>,
    page_of_rank: Vec<u32>,
    weight: Vec<f64>,
    pub(crate) residency: Vec<Tier>,
    /// Walker's alias table over ranks: the threshold, and the rank to take above it.
    alias: Vec<(f32, u32)>,
    /// The same with pages in place of ranks: below the threshold, and above it.
    draw: Vec<(f32, u32, u32)>,
    cursor: f64,
    rng: Pcg64Mcg,
}

impl Pages {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(scenario.seed);
        let count = pages(scenario.memory_gib);
        let mut page_of_rank: Vec<u32> = (0..count as u32).collect();
        for at in (1..count).rev() {
            page_of_rank.swap(at, rng.random_range(0..=at));
        }
        let mut residency = Vec::with_capacity(count);
        for (tier, model) in (0..).zip(&scenario.tiers) {
            let most = residency.len() + pages(model.capacity_gib);
            residency.resize(most.min(count), tier);
        }
        // Rounding may leave some pages over.
        residency.resize(count, scenario.tiers.len() as Tier - 1);
        let weight_of_rank = weights(&scenario.access, count);
        let alias = alias(&weight_of_rank);
        let weight = vec![0.0; count];
        let mut all = Self {
            weight_of_rank,
            page_of_rank,
            weight,
            residency,
            alias,
            draw: Vec::new(),
            cursor: 0.0,
            rng,
        };
        all.spread();
        all
    }

    fn spread(&mut self) {
        for (page, weight) in self.page_of_rank.iter().zip(&self.weight_of_rank) {
            self.weight[*page as usize] = *weight;
        }
        let pages = &self.page_of_rank;
        let drawn = self
            .alias
            .iter()
            .zip(pages)
            .map(|((below, other), page)| (*below, *page, pages[*other as usize]));
        self.draw = drawn.collect();
    }

    /// The hottest pages become the coldest ones.
    pub(crate) fn move_hot(&mut self) {
        self.page_of_rank.reverse();
        self.spread();
    }

    /// A page's part of all accesses.
    pub(crate) fn weight(&self, page: usize) -> f64 {
        self.weight[page]
    }

    /// The part of the accesses that each tier serves.
    pub(crate) fn shares(&self, tiers: usize) -> Vec<f64> {
        let mut shares = vec![0.0; tiers];
        for (tier, weight) in self.residency.iter().zip(&self.weight) {
            shares[usize::from(*tier)] += weight;
        }
        shares
    }

    /// What a policy sees of `lines` accesses per ns in `elapsed_ns`.
    pub(crate) fn samples(
        &mut self,
        tracking: Tracking,
        lines: f64,
        elapsed_ns: f64,
        out: &mut Vec<PageSample>,
    ) {
        out.clear();
        match tracking {
            Tracking::Samples { period } => {
                let wanted = lines * elapsed_ns / period.max(1) as f64;
                // The sum of many Poisson counts is close to a normal one.
                let noise: f64 = (0..12).map(|_| self.rng.random::<f64>()).sum::<f64>() - 6.0;
                let count = noise.mul_add(wanted.sqrt(), wanted).max(0.0) as usize;
                let ranks = self.draw.len() as u64;
                out.extend((0..count).map(|_| {
                    let bits: u64 = self.rng.random();
                    let (threshold, page, other) = self.draw[(((bits >> 32) * ranks) >> 32) as usize];
                    let below = (bits & 0xff_ffff) as f32 / 16_777_216.0 < threshold;
                    let page = if below { page } else { other };
                    PageSample { page, tier: self.residency[page as usize], weight: 1.0 }
                }));
            }
            Tracking::HintFaults { scan_bytes_per_s } => {
                let from = self.cursor as usize;
                self.cursor += scan_bytes_per_s as f64 * elapsed_ns / 1e9 / PAGE_BYTES as f64;
                for at in from..self.cursor as usize {
                    let page = at % self.residency.len();
                    let rate = (lines * self.weight[page] / SMALL_PAGES).max(f64::MIN_POSITIVE);
                    let delay = -(1.0 - self.rng.random::<f64>()).ln() / rate;
                    out.push(PageSample { page: page as u32, tier: self.residency[page], weight: delay });
                }
            }
        }
    }
}

pub(crate) fn pages(gib: f64) -> usize {
    (gib * PAGES_PER_GIB).round().max(1.0) as usize
}

/// Each rank's part of all accesses.
pub(crate) fn weights(access: &Access, count: usize) -> Vec<f64> {
    match *access {
        Access::Uniform => vec![1.0 / count as f64; count],
        Access::Zipf { exponent } => {
            let all: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(|weight| weight / sum).collect()
        }
        Access::Hot { hot_gib, hot_accesses } => {
            let hot = pages(hot_gib).min(count);
            let rest = (1.0 - hot_accesses) / count as f64;
            (0..count).map(|rank| rest + if rank < hot { hot_accesses / hot as f64 } else { 0.0 }).collect()
        }
    }
}

fn alias(weights: &[f64]) -> Vec<(f32, u32)> {
    let count = weights.len() as f64;
    let mut left: Vec<f64> = weights.iter().map(|weight| weight * count).collect();
    let mut table: Vec<(f32, u32)> = (0..weights.len() as u32).map(|rank| (1.0, rank)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|rank| left[*rank] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        table[low] = (left[low] as f32, high as u32);
        left[high] -= 1.0 - left[low];
        if left[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_the_weights() {
        let scenario = Scenario { memory_gib: 1.0, ..Scenario::gups(0.0) };
        let scenario = Scenario { access: Access::Zipf { exponent: 1.0 }, ..scenario };
        let mut pages = Pages::new(&scenario);
        let mut samples = Vec::new();
        let mut counts = vec![0.0; 512];
        pages.samples(Tracking::Samples { period: 1 }, 1.0, 1e6, &mut samples);
        samples.iter().for_each(|sample| counts[sample.page as usize] += 1.0 / samples.len() as f64);
        for (page, count) in counts.iter().enumerate() {
            let weight = pages.weight(page);
            assert!((count - weight).abs() < 6.0 * (weight / 1e6).sqrt(), "{page}: {count}, weight {weight}");
        }
    }

    #[test]
    fn shares_add_up_and_follow_the_hot_set() {
        let mut pages = Pages::new(&Scenario::gups(0.0));
        let before = pages.shares(2);
        pages.move_hot();
        let after = pages.shares(2);
        assert!(
            (before.iter().sum::<f64>() - 1.0).abs() < 1e-9 && (after.iter().sum::<f64>() - 1.0).abs() < 1e-9
        );
        assert!((before[0] - after[0]).abs() > 1e-6);
    }
}
