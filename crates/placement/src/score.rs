//! Hotness: an exponentially decayed count of accesses, as *forward decay* (Cormode et al., ICDE 2009).
//!
//! An access at logical time `t` weighs `2^(t/H)`; a score is the base-2 logarithm of the sum of such weights.
//! Two scores compare the same way at every later time, so nothing has to be aged. Logical time is bytes read,
//! `H` the bytes alive: one pass over everything halves what an earlier pass counted for.
//!
//! Invariant: a segment's score never falls. An order that was taken earlier is therefore a lower bound.

use std::cmp::Ordering;

/// Ticks of the access clock in one half-life. A 64-bit clock lasts 2^40 half-lives: years of reading 64 MiB in a
/// loop at 50 GB/s. A segment of 2 MiB is at least one tick in a store of up to 32 TiB.
pub const TICKS_PER_HALF_LIFE: u64 = 1 << 24;

/// Accesses closer together than this part of a half-life are one access (a scan touching a segment twice).
const CORRELATED_TICKS: u64 = TICKS_PER_HALF_LIFE / 32;

/// Half-lives below this many bytes would let one small scan wipe out all history.
const HALF_LIFE_BYTES_MIN: u64 = 64 << 20;

/// Turns bytes that are read into ticks of logical time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessClock {
    ticks_per_byte: f64,
}

impl AccessClock {
    /// A clock for a store that holds `live_bytes` in all, resident or not.
    #[must_use]
    pub fn for_live_bytes(live_bytes: u64) -> Self {
        let half_life_bytes = live_bytes.max(HALF_LIFE_BYTES_MIN);
        Self { ticks_per_byte: TICKS_PER_HALF_LIFE as f64 / half_life_bytes as f64 }
    }

    /// Ticks that pass while `bytes` are read, at least one: a clock that stands still would make all accesses equal.
    #[must_use]
    pub fn ticks(&self, bytes: u64) -> u64 {
        ((bytes as f64 * self.ticks_per_byte) as u64).max(1)
    }

    /// Bytes that are read while `ticks` pass, as far as ticks tell.
    #[must_use]
    pub fn bytes(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_byte) as u64
    }

    /// The rate as bits, to be kept in an atomic.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.ticks_per_byte.to_bits()
    }

    /// Inverse of [`AccessClock::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self { ticks_per_byte: f64::from_bits(bits) }
    }
}

/// Base-2 logarithm of a decayed sum of accesses.
#[derive(Debug, Clone, Copy)]
pub struct Score(f64);

impl Score {
    /// Never read.
    pub const NEVER: Score = Score(f64::NEG_INFINITY);

    /// The score after one more access at `now_ticks`.
    #[must_use]
    pub fn accessed(self, now_ticks: u64) -> Score {
        let now = now_ticks as f64 / TICKS_PER_HALF_LIFE as f64;
        let (high, low) = if self.0 > now { (self.0, now) } else { (now, self.0) };
        Score(high + (low - high).exp2().ln_1p() * std::f64::consts::LOG2_E)
    }

    /// Whether an access at `now_ticks` belongs to the one at `last_ticks`.
    #[must_use]
    pub fn is_same_access(last_ticks: u64, now_ticks: u64) -> bool {
        now_ticks.saturating_sub(last_ticks) < CORRELATED_TICKS
    }

    /// Whether this is more than `ratio` times as hot as `other`. A never-read segment beats nothing.
    #[must_use]
    pub fn beats(self, other: Score, ratio: f64) -> bool {
        self.0 > f64::NEG_INFINITY && self.0 > other.0 + ratio.log2()
    }

    /// The score as bits, to be kept in an atomic.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// Inverse of [`Score::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Score {
        Score(f64::from_bits(bits))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_one_half_life_ago_counts_half() {
        let once_late = Score::NEVER.accessed(10 * TICKS_PER_HALF_LIFE);
        let twice_early = Score::NEVER.accessed(9 * TICKS_PER_HALF_LIFE).accessed(9 * TICKS_PER_HALF_LIFE);
        assert!((once_late.0 - twice_early.0).abs() < 1e-9);
        assert!(!once_late.beats(twice_early, 1.5));
        assert!(once_late.accessed(10 * TICKS_PER_HALF_LIFE).beats(twice_early, 1.5));
    }

    #[test]
    fn never_read_is_beaten_by_any_access_and_beats_nothing() {
        assert!(Score::NEVER.accessed(0).beats(Score::NEVER, 1.5));
        assert!(!Score::NEVER.beats(Score::NEVER, 1.5));
    }

    #[test]
    fn the_clock_outlasts_any_process() {
        let clock = AccessClock::for_live_bytes(0);
        let year_bytes = 50e9 * 365.0 * 86400.0;
        let segment_bytes = 2u64 << 20;
        let years = u64::MAX as f64 / (clock.ticks(segment_bytes) as f64 * year_bytes / segment_bytes as f64);
        assert!(years > 10.0, "{years} years of reading 64 MiB in a loop at 50 GB/s");
    }

    #[test]
    fn late_scores_still_tell_accesses_apart() {
        let late = u64::MAX - 4 * TICKS_PER_HALF_LIFE;
        let (once, twice) =
            (Score::NEVER.accessed(late), Score::NEVER.accessed(late).accessed(late + TICKS_PER_HALF_LIFE));
        assert!(twice.beats(once, 1.5));
    }

    #[test]
    fn a_small_read_of_a_huge_store_moves_the_clock() {
        assert_eq!(AccessClock::for_live_bytes(1 << 50).ticks(4096), 1);
    }

    #[test]
    fn a_pass_over_everything_is_one_half_life() {
        let clock = AccessClock::for_live_bytes(1 << 30);
        let ticks: u64 = (0..512).map(|_| clock.ticks(2 << 20)).sum();
        assert!(ticks.abs_diff(TICKS_PER_HALF_LIFE) < TICKS_PER_HALF_LIFE / 1000);
    }
}
