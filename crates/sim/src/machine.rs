//! The machine: a closed loop of cores and tiers, solved to a fixed point in each step.
//!
//! Latency is nearly linear in the lines in flight at a tier. Cores keep a window of lines in flight; throughput is
//! the window over the mean latency. All figures are simulated.

use serde::Deserialize;

/// A tier of memory. Latency = max(`base_ns` + `slope_ns` · n, n / `lines_per_ns_max`), n = lines in flight.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierModel {
    /// Its name in the output.
    pub name: String,
    /// Capacity.
    pub capacity_gib: f64,
    /// Latency with nothing in flight.
    pub base_ns: f64,
    /// What each line in flight adds.
    pub slope_ns: f64,
    /// The most lines per ns (64 bytes each); 0 for no limit.
    #[serde(default)]
    pub lines_per_ns_max: f64,
    /// Lines that a core keeps in flight when this tier serves all its accesses.
    pub window: f64,
    /// From this many lines in flight at the tier, the window shrinks; 0 for never.
    #[serde(default)]
    pub window_falls_from: f64,
    /// How many lines more it takes until it has shrunk by `window_falls_by`.
    #[serde(default)]
    pub window_falls_over: f64,
    /// The part by which it shrinks.
    #[serde(default)]
    pub window_falls_by: f64,
}

impl TierModel {
    /// The default tier of the published testbed. Every figure but the capacity is fitted.
    #[must_use]
    pub fn published_default() -> Self {
        Self {
            name: "default".into(),
            capacity_gib: 32.0,
            base_ns: 62.5,
            slope_ns: 0.74,
            lines_per_ns_max: 0.0,
            window: 4.45,
            window_falls_from: 252.0,
            window_falls_over: 70.0,
            window_falls_by: 0.19,
        }
    }

    /// The alternate tier of the published testbed. Every figure but the capacity is fitted.
    #[must_use]
    pub fn published_alternate() -> Self {
        Self {
            name: "alternate".into(),
            capacity_gib: 96.0,
            base_ns: 148.5,
            slope_ns: 0.46,
            lines_per_ns_max: 98.0 / 128.0,
            window: 5.41,
            window_falls_from: 0.0,
            window_falls_over: 0.0,
            window_falls_by: 0.0,
        }
    }

    fn latency(&self, lines: f64) -> f64 {
        let linear = self.slope_ns * lines + self.base_ns;
        if self.lines_per_ns_max > 0.0 { linear.max(lines / self.lines_per_ns_max) } else { linear }
    }

    fn window(&self, lines: f64) -> f64 {
        if self.window_falls_over <= 0.0 {
            return self.window;
        }
        let over = ((lines - self.window_falls_from) / self.window_falls_over).clamp(0.0, 1.0);
        self.window * (1.0 - self.window_falls_by * over)
    }
}

/// What the machine does in a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The application's lines per ns.
    pub lines_per_ns: f64,
    /// Lines in flight per tier, of everybody.
    pub in_flight: Vec<f64>,
    /// Latency per tier.
    pub latency_ns: Vec<f64>,
    /// Lines per ns per tier, of everybody.
    pub rate_per_ns: Vec<f64>,
}

/// What loads the machine in a step.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Application cores.
    pub cores: f64,
    /// Lines in flight per core are multiplied by this.
    pub window_scale: f64,
    /// Computation between an access and the next that depends on it.
    pub think_ns: f64,
    /// The part of the application's accesses that each tier serves; adds up to 1.
    pub shares: &'a [f64],
    /// Lines that antagonists hold in flight per tier.
    pub antagonist_lines: &'a [f64],
    /// Lines per ns that migration reads from and writes to each tier.
    pub migration_per_ns: &'a [f64],
}

/// Solves the closed loop. `guess` holds lines in flight per tier and is where the search starts.
#[must_use]
pub fn solve(tiers: &[TierModel], load: &Load<'_>, guess: &[f64]) -> State {
    let mut lines: Vec<f64> = (0..tiers.len()).map(|at| guess.get(at).copied().unwrap_or(50.0)).collect();
    let mut latency = vec![0.0; tiers.len()];
    let mut rate = 0.0;
    for _ in 0..2000 {
        let mut window = 0.0;
        let mut mean = 0.0;
        for (at, tier) in tiers.iter().enumerate() {
            latency[at] = tier.latency(lines[at]);
            window += load.shares[at] * tier.window(lines[at]);
            mean += load.shares[at] * latency[at];
        }
        rate = load.cores * load.window_scale * window / (mean + load.think_ns);
        let mut change = 0.0_f64;
        for at in 0..tiers.len() {
            // A tier serves no more than its limit: migration slows down before lines pile up without end.
            let wanted = load.antagonist_lines[at]
                + (rate * load.shares[at] * latency[at])
                + (load.migration_per_ns[at] * latency[at]).min(400.0);
            let step = 0.3 * (wanted - lines[at]);
            change = change.max(step.abs());
            lines[at] += step;
        }
        if change < 1e-6 {
            break;
        }
    }
    let rate_per_ns = lines.iter().zip(&latency).map(|(lines, latency)| lines / latency).collect();
    State { lines_per_ns: rate, in_flight: lines, latency_ns: latency, rate_per_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(share: f64, antagonists: f64) -> f64 {
        let tiers = [TierModel::published_default(), TierModel::published_alternate()];
        let load = Load {
            cores: 15.0,
            window_scale: 1.0,
            think_ns: 0.0,
            shares: &[share, 1.0 - share],
            antagonist_lines: &[19.2 * antagonists, 0.0],
            migration_per_ns: &[0.0, 0.0],
        };
        128.0 * solve(&tiers, &load, &[]).lines_per_ns
    }

    #[test]
    fn everything_hot_in_the_default_tier_gives_hemems_published_row() {
        let share = 0.9 + 0.1 * 32.0 / 72.0;
        for (cores, published) in [(0.0, 77.5), (5.0, 49.1), (10.0, 34.1), (15.0, 22.7)] {
            let got = at(share, cores);
            assert!(
                (got / published - 1.0).abs() < 0.05,
                "{cores} antagonists: {got}, published {published}"
            );
        }
    }

    #[test]
    fn the_solution_is_a_fixed_point() {
        let tiers = [TierModel::published_default(), TierModel::published_alternate()];
        let load = Load {
            cores: 15.0,
            window_scale: 1.0,
            think_ns: 0.0,
            shares: &[0.3, 0.7],
            antagonist_lines: &[96.0, 0.0],
            migration_per_ns: &[0.04, 0.04],
        };
        let once = solve(&tiers, &load, &[]);
        let again = solve(&tiers, &load, &once.in_flight);
        assert!((once.lines_per_ns - again.lines_per_ns).abs() < 1e-6);
    }
}
