//! `warm`: N tiers, the split at which the application is fastest, and no move that does not pay.
//!
//! Latencies say where to begin: heat moves from the tier that is slowest now to the one that is fastest now, the
//! hottest pages first. The effect on the application says where to stop (see `Climb`). Then nothing moves until a
//! latency leaves its band. A page moves only if the time that its accesses are going to save before things change
//! again exceeds what copying it costs; how long that is, is learned from how long the last balances held.

use super::climb::Climb;
use super::colloid::{first, select, sum};
use super::heat::Heat;
use super::{LINE_BYTES, Layout, Move, Quantum, Room, Smoothed, Tier, TierPolicy, Tracking};

/// A latency that changed by more than this part since the balance was found begins a new search.
const BAND: f64 = 0.10;
/// A change by more than this begins it with a long step.
const BAND_LONG: f64 = 0.25;
/// Latencies are smoothed over this time.
const SMOOTH_NS: f64 = 3e7;
/// After copies, smoothed latencies are those of rest only after this time.
const CALM_NS: f64 = 3.0 * SMOOTH_NS;
/// What is known at first comes from this much time.
const START_NS: f64 = 2e8;
/// How long a balance is taken to hold at first, at least and at most.
const HORIZON_NS: [f64; 3] = [60e9, 2e9, 60e9];
/// Lines of a copy overlap, so it takes that much less than its lines' latencies.
const COPY_OVERLAP: f64 = 4.0;
/// Once most is done, the search copies at this part of the mover's speed.
const GENTLE: f64 = 1.0 / 3.0;
/// Where a tier's latency is this many times the least that was seen, copies take no more than this part of its traffic.
const SATURATED: f64 = 2.0;
const COPIES_PART: f64 = 0.25;
/// A long step ends at pages with less than this part of the mean heat: their order can wait.
const SWEEP_HEAT: f64 = 0.25;
/// The order of pages is found again after this time.
const PLAN_NS: f64 = 1e8;
/// In balance, the order of pages is looked at this often.
const DRIFT_NS: f64 = 5e8;
/// Two pages are exchanged then if their heat differs by this many deviations of their counts.
const DRIFT_DEVIATIONS: f64 = 4.0;
/// The same for the search.
const SEARCH_DEVIATIONS: f64 = 1.5;
/// Once heat was counted for this long (the slow sum's half-life), its order does not get much better.
const KNOWN_NS: f64 = 8e9;
/// A step of the search takes no longer than this.
const STEP_NS: f64 = 3e9;
/// Where no pair of tiers has moved more of the accesses than this, a second round would find nothing new.
const ROUND_MOVED: f64 = 0.03;

/// After something changed, accesses per tier are counted for this long before the search.
const LISTEN_NS: f64 = 1e8;
/// If a tier's part of them is this far from what the pages' heat says, other pages have become hot.
const STALE: f64 = 0.07;
/// In balance, a tier's part of the accesses that changed by this much ends it, once so many samples say so.
const SHIFTED: f64 = 0.05;
const SHIFTED_SAMPLES: f64 = 4000.0;
/// The least that a tier has to serve less before it gets hotter pages.
const FALL: f64 = 0.03;
/// Other pages' heat is then gathered for this long.
const LEARN_NS: f64 = 3e8;

/// What is found out between a change and the search.
#[derive(Debug, Default)]
struct Listen {
    left_ns: f64,
    /// Weight of the samples per tier; empty while heat is gathered.
    weight: Vec<f64>,
    /// Latencies before the change.
    before: Vec<f64>,
    long: bool,
}

/// Pages to move from one tier to another, in order.
#[derive(Debug, Default)]
struct Plan {
    from: Tier,
    to: Tier,
    hot: std::vec::IntoIter<u32>,
    outs: std::vec::IntoIter<u32>,
    age_ns: f64,
    /// Whether `hot` is all there is.
    whole: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Warm {
    layout: Layout,
    heat: Heat,
    seen: Smoothed,
    age_ns: f64,
    /// Pairs of tiers still to be searched, faster one first; the last is next.
    pairs: Vec<(Tier, Tier)>,
    pair: (Tier, Tier),
    /// The pairs are searched once more, with short steps.
    again: bool,
    /// Whether a search of this round has changed much.
    has_moved: bool,
    /// Pages per ns that the mover can copy.
    mover_per_ns: f64,
    climb: Option<Climb>,
    listen: Option<Listen>,
    /// The least latency of each tier so far; 0 where none is known.
    least: Vec<f64>,
    /// Whether copies took all that they may of a tier's traffic in this search.
    is_limited: bool,
    /// Latencies when the machine was last at rest.
    rest: Vec<f64>,
    /// Pairs of tiers whose faster one would serve more if it had room for more heat.
    short: Vec<(Tier, Tier)>,
    /// Samples per tier: of some time at rest, and since the last look at them.
    served: [Vec<f64>; 2],
    balanced_ns: f64,
    horizon_ns: f64,
    plan: Plan,
    look_ns: f64,
}

impl Warm {
    /// Nothing known.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let seen = Smoothed::new(layout.tiers, 1.0);
        Self {
            layout,
            heat: Heat::default(),
            seen,
            age_ns: 0.0,
            pairs: Vec::new(),
            pair: (0, 1),
            again: false,
            has_moved: false,
            mover_per_ns: 0.0,
            climb: None,
            listen: None,
            least: Vec::new(),
            is_limited: false,
            rest: Vec::new(),
            short: Vec::new(),
            served: [Vec::new(), Vec::new()],
            balanced_ns: 0.0,
            horizon_ns: HORIZON_NS[0],
            plan: Plan::default(),
            look_ns: 0.0,
        }
    }

    fn latencies(&self) -> Vec<f64> {
        (0..self.layout.tiers).map(|at| self.latency(at)).collect()
    }

    fn latency(&self, tier: usize) -> f64 {
        self.seen.tier(tier).map_or(0.0, |tier| tier.1)
    }

    fn note_least(&mut self) {
        self.least.resize(self.layout.tiers, 0.0);
        for at in 0..self.least.len() {
            let now = self.latency(at);
            if now > 0.0 && (self.least[at] == 0.0 || now < self.least[at]) {
                self.least[at] = now;
            }
        }
    }

    fn mover_pages(&self, quantum: &Quantum<'_>) -> u64 {
        quantum.move_bytes_max / self.layout.page_bytes.max(1)
    }

    /// Whether the tier is slow both now and for some time.
    fn is_saturated(&self, quantum: &Quantum<'_>, tier: Tier) -> bool {
        let at = usize::from(tier);
        let now = quantum.tiers.get(at).and_then(|tier| tier.latency_ns).unwrap_or(0.0);
        self.least.get(at).is_some_and(|least| self.latency(at).min(now) > SATURATED * least)
    }

    /// How many pages may go from one tier to the other in this quantum, with as many in exchange. Copies that saturate a
    /// tier raise its latency, which must not look like a reason for more copies.
    fn pages_max(&self, quantum: &Quantum<'_>, from: Tier, to: Tier) -> usize {
        let mover = self.mover_pages(quantum);
        let copied_lines = 2.0 * self.layout.page_bytes as f64 / LINE_BYTES;
        let limit = |tier: Tier| {
            let rate = quantum.tiers.get(usize::from(tier)).map_or(0.0, |tier| tier.rate_per_ns);
            if self.is_saturated(quantum, tier) && rate.is_finite() {
                ((COPIES_PART * rate * quantum.elapsed_ns as f64 / copied_lines) as u64).max(1)
            } else {
                mover
            }
        };
        usize::try_from(mover.min(limit(from)).min(limit(to))).unwrap_or(usize::MAX)
    }

    fn listen(&mut self, long: bool) {
        self.climb = None;
        let before = std::mem::take(&mut self.rest);
        self.served = [Vec::new(), Vec::new()];
        let weight = vec![0.0; self.layout.tiers];
        self.listen = Some(Listen { left_ns: LISTEN_NS, weight, before, long });
    }

    fn hear(&mut self, quantum: &Quantum<'_>) {
        let Some(mut listen) = self.listen.take() else { return };
        listen.left_ns -= quantum.elapsed_ns as f64;
        for sample in quantum.samples {
            if let Some(weight) = listen.weight.get_mut(usize::from(sample.tier)) {
                *weight += sample.weight;
            }
        }
        if listen.left_ns > 0.0 {
            self.listen = Some(listen);
        } else if self.is_stale(quantum, &listen.weight) {
            self.heat.forget();
            self.listen = Some(Listen { left_ns: LEARN_NS, long: true, ..Listen::default() });
        } else {
            // Smoothed latencies show the whole of a change only now.
            self.begin(listen.long || self.change_from(&listen.before) > BAND_LONG);
        }
    }

    /// Whether the accesses per tier are not those that the pages' heat lets expect.
    fn is_stale(&mut self, quantum: &Quantum<'_>, weight: &[f64]) -> bool {
        let mut expected = vec![0.0; weight.len()];
        for (tier, heat) in quantum.residency.iter().zip(self.heat.rates()) {
            if let Some(sum) = expected.get_mut(usize::from(*tier)) {
                *sum += f64::from(*heat);
            }
        }
        let (seen, known) = (weight.iter().sum::<f64>(), expected.iter().sum::<f64>());
        let apart = |(one, other): (&f64, &f64)| (one / seen - other / known).abs() > STALE;
        seen > 0.0 && known > 0.0 && weight.iter().zip(&expected).any(apart)
    }

    /// Searches all pairs of tiers, the slowest against the fastest first; after long steps a second time with short ones.
    fn begin(&mut self, long: bool) {
        // With two tiers there is one pair, and nothing that a later pair could have changed.
        self.again = long && self.layout.tiers > 2;
        self.short.clear();
        self.has_moved = false;
        self.is_limited = false;
        self.list_pairs();
        self.next_pair(long, false);
    }

    fn list_pairs(&mut self) {
        let order = self.seen.by_latency();
        self.pairs.clear();
        for (at, slower) in order.iter().enumerate().skip(1) {
            self.pairs.extend(order[..at].iter().rev().map(|faster| (faster.0, slower.0)));
        }
    }

    /// The share of the accesses that a step of the search can move in its time, judged by the page of a mean access.
    fn step_first(&mut self) -> f64 {
        let heat = self.heat.rates();
        let all = sum(heat).max(f64::MIN_POSITIVE);
        let squares: f64 = heat.iter().map(|heat| f64::from(*heat) * f64::from(*heat)).sum();
        self.mover_per_ns * GENTLE * STEP_NS * squares / (all * all)
    }

    fn next_pair(&mut self, long: bool, repeated: bool) {
        self.plan = Plan::default();
        let first = self.step_first();
        self.climb = self.pairs.pop().map(|pair| {
            self.pair = pair;
            let (low, high) = (self.latency(pair.0.into()), self.latency(pair.1.into()));
            // Later pairs may have changed places meanwhile.
            if low > high {
                self.pair = (pair.1, pair.0);
            }
            let gap = if long { (high - low).abs() / low.min(high).max(1.0) } else { 0.0 };
            Climb::new(gap, repeated, first)
        });
    }

    /// By which part the latency that changed most differs from what it was.
    fn change_from(&self, before: &[f64]) -> f64 {
        let parts = self.latencies().into_iter().zip(before).filter(|(_, then)| **then > 0.0);
        parts.map(|(now, then)| (now / then - 1.0).abs()).fold(0.0, f64::max)
    }

    /// How fast the application is, larger is better, and the number of samples that says so.
    fn goodness(&mut self, quantum: &Quantum<'_>) -> (f64, f64) {
        let weight: f64 = quantum.samples.iter().map(|sample| sample.weight).sum();
        if quantum.accesses_per_weight > 0.0 {
            return (weight * quantum.accesses_per_weight / quantum.elapsed_ns.max(1) as f64, weight);
        }
        // Weights are only relative: the mean latency of an access by where the heat is.
        let (mut all, mut time) = (0.0, 0.0);
        for sample in quantum.samples {
            let Some(tier) = quantum.residency.get(sample.page as usize) else { continue };
            all += sample.weight;
            time += sample.weight * self.latency(usize::from(*tier));
        }
        (if time > 0.0 { all / time } else { 0.0 }, weight)
    }

    fn plan(&mut self, quantum: &Quantum<'_>, from: Tier, to: Tier, most: usize) {
        self.plan.age_ns += quantum.elapsed_ns as f64;
        let spent = self.plan.hot.len() == 0 && !self.plan.whole;
        if (self.plan.from, self.plan.to) == (from, to) && self.plan.age_ns < PLAN_NS && !spent {
            return;
        }
        let quanta = (PLAN_NS / quantum.elapsed_ns.max(1) as f64).ceil().max(1.0) as usize;
        let most = most.saturating_mul(quanta).max(1);
        let heat = self.heat.rates();
        let at = |tier: Tier| select(quantum.residency, heat, tier, |_| true);
        let mut hot = at(from);
        let whole = hot.len() <= most;
        first(&mut hot, most, |page| -heat[page as usize]);
        let mut outs = at(to);
        first(&mut outs, most, |page| heat[page as usize]);
        self.plan = Plan { from, to, hot: hot.into_iter(), outs: outs.into_iter(), age_ns: 0.0, whole };
    }

    /// Two full tiers cannot exchange pages: the coldest page of one goes to a tier that has room.
    fn make_room(&mut self, quantum: &Quantum<'_>, from: Tier, to: Tier, room: &mut Room) {
        if room.free(from) > 0 || room.free(to) > 0 {
            return;
        }
        let others = self.seen.by_latency().into_iter().rev().map(|tier| tier.0);
        let Some(other) = others.into_iter().find(|tier| room.into_tier(*tier) > 0) else { return };
        let heat = self.heat.rates();
        let pages = (0_u32..).zip(quantum.residency).filter(|(_, at)| **at == from).map(|(page, _)| page);
        let coldest = pages.min_by(|a, b| heat[*a as usize].total_cmp(&heat[*b as usize]));
        if let Some(page) = coldest {
            room.take(page, from, other);
        }
    }

    /// Moves up to `share` of the heat; says how much it was, and whether more would pay.
    fn shift(
        &mut self,
        quantum: &Quantum<'_>,
        (from, to): (Tier, Tier),
        share: f64,
        room: &mut Room,
    ) -> (f64, bool) {
        let most = self.pages_max(quantum, from, to);
        self.is_limited |= (most as u64) < self.mover_pages(quantum);
        if most == 0 {
            return (0.0, true);
        }
        let is_gentle = self.climb.as_ref().is_some_and(Climb::is_gentle);
        let most = if is_gentle { ((most as f64 * GENTLE) as usize).max(1) } else { most };
        let sweeps = self.climb.as_ref().is_some_and(Climb::sweeps);
        self.plan(quantum, from, to, most);
        self.make_room(quantum, from, to, room);
        let (here, there) = (self.latency(from.into()), self.latency(to.into()));
        let lines = self.layout.page_bytes as f64 / LINE_BYTES;
        let cost = lines * (here + there) / COPY_OVERLAP;
        // Where latencies are close, the split still matters.
        let saved = (here - there).abs().max(0.2 * here.min(there)) * self.horizon_ns;
        let window_ns = self.heat.window_ns();
        let heat = self.heat.rates();
        let all: f64 = sum(heat).max(f64::MIN_POSITIVE);
        // Relative weights say nothing about how many accesses there are: the tiers' counters do.
        let rate: f64 =
            quantum.tiers.iter().map(|tier| tier.rate_per_ns).filter(|rate| rate.is_finite()).sum();
        let accesses =
            if quantum.accesses_per_weight > 0.0 { quantum.accesses_per_weight } else { rate / all };
        let least = if sweeps { SWEEP_HEAT * all / heat.len().max(1) as f64 } else { 0.0 };
        let heat = |page: u32| f64::from(heat.get(page as usize).copied().unwrap_or(0.0));
        let is_at = |page: u32, tier: Tier| quantum.residency.get(page as usize) == Some(&tier);
        let (mut left, mut moved) = (share * all, 0);
        loop {
            if moved == most || left <= 0.0 {
                return (share - left / all, true);
            }
            let Some(page) = self.plan.hot.as_slice().first().copied() else {
                return (share - left / all, !self.plan.whole && moved > 0);
            };
            if !is_at(page, from) {
                self.plan.hot.next();
                continue;
            }
            while self.plan.outs.as_slice().first().is_some_and(|out| !is_at(*out, to)) {
                self.plan.outs.next();
            }
            let out = self.plan.outs.as_slice().first().copied();
            let full = room.into_tier(to) == 0;
            let gain = heat(page) - if full { out.map_or(f64::MAX, heat) } else { 0.0 };
            let by_chance = (out.map_or(0.0, heat) + heat(page)) / window_ns;
            // At rest, where copies are dear, and for exchanges by heat that will not be known better, chance does not count.
            let is_dear = self.is_limited || (full && window_ns >= KNOWN_NS);
            let deviations = match (self.climb.is_none(), is_dear) {
                (true, _) => DRIFT_DEVIATIONS,
                (false, true) => SEARCH_DEVIATIONS,
                (false, false) => 0.0,
            };
            if gain * gain < deviations * deviations * by_chance {
                return (share - left / all, false);
            }
            if gain * accesses * saved <= cost || (gain > left && moved > 0) || heat(page) < least {
                return (share - left / all, false);
            }
            let before = self.plan.outs.len();
            if !room.bring(page, from, to, &mut self.plan.outs) {
                return (share - left / all, moved > 0);
            }
            // A page that was brought in exchange took the other's share with it.
            left -= if self.plan.outs.len() < before { gain.max(0.0) } else { heat(page) };
            self.plan.hot.next();
            moved += 1;
        }
    }

    fn search(&mut self, quantum: &Quantum<'_>, room: &mut Room) {
        let (value, count) = self.goodness(quantum);
        let Some(climb) = &mut self.climb else { return };
        climb.saw(value, count, quantum.elapsed_ns as f64);
        if climb.done() {
            self.has_moved |= climb.distance() > ROUND_MOVED;
            if climb.is_short() {
                self.short.push(self.pair);
            }
            self.again &= !self.pairs.is_empty() || self.has_moved;
            if self.pairs.is_empty() && self.again {
                self.again = false;
                self.list_pairs();
                self.next_pair(false, true);
            } else {
                self.next_pair(self.again, !self.again);
            }
            return;
        }
        let (wanted, is_gentle, measured_ns) = (climb.wanted(), climb.is_gentle(), climb.measured_ns());
        if self.is_limited && measured_ns.is_none() {
            // Copies change latencies here.
            self.rest.clear();
        }
        if !self.rest.is_empty() && self.change_from(&self.rest) > BAND_LONG {
            // Something else than this search changed the latencies.
            self.listen(true);
        } else if let Some((up, left)) = wanted {
            let (fast, slow) = self.pair;
            let (share, more) = self.shift(quantum, if up { (slow, fast) } else { (fast, slow) }, left, room);
            if let Some(climb) = &mut self.climb {
                climb.moved(share, more);
            }
            if !is_gentle {
                self.rest.clear();
            }
        } else if measured_ns.is_none() {
            // What this step did is no change from outside.
            self.rest.clear();
        } else if self.rest.is_empty() && (!self.is_limited || measured_ns >= Some(CALM_NS)) {
            self.rest = self.latencies();
        }
    }

    /// In balance: whether it is time to look at the order of pages. A latency that leaves its band ends the balance.
    fn drifts(&mut self, quantum: &Quantum<'_>) -> bool {
        self.balanced_ns += quantum.elapsed_ns as f64;
        self.look_ns -= quantum.elapsed_ns as f64;
        if self.rest.is_empty() {
            self.rest = self.latencies();
        }
        let change = if self.is_shifted(quantum) { f64::INFINITY } else { self.change_from(&self.rest) };
        if change > BAND {
            let [_, least, most] = HORIZON_NS;
            self.horizon_ns = (0.5 * (self.horizon_ns + self.balanced_ns)).clamp(least, most);
            self.balanced_ns = 0.0;
            self.listen(change > BAND_LONG);
            return false;
        }
        self.look_ns <= 0.0
    }

    /// Whether the tiers serve other parts of the accesses than at the beginning of this rest: other pages became hot.
    fn is_shifted(&mut self, quantum: &Quantum<'_>) -> bool {
        let [before, now] = &mut self.served;
        now.resize(self.layout.tiers, 0.0);
        for sample in quantum.samples {
            if let Some(sum) = now.get_mut(usize::from(sample.tier)) {
                *sum += sample.weight;
            }
        }
        let all: f64 = now.iter().sum();
        if all < SHIFTED_SAMPLES || self.look_ns > 0.0 {
            return false;
        }
        if before.is_empty() {
            *before = std::mem::take(now);
            return false;
        }
        let sum: f64 = before.iter().sum();
        before.iter().zip(now.iter()).any(|(then, now)| (then / sum - now / all).abs() > SHIFTED)
    }

    /// By how much a tier serves less than at the beginning of this rest.
    fn fall(&self, tier: Tier) -> f64 {
        let part = |served: &Vec<f64>| {
            let all: f64 = served.iter().sum();
            served.get(usize::from(tier)).filter(|_| all >= SHIFTED_SAMPLES).map(|sum| sum / all)
        };
        let [before, now] = &self.served;
        part(before).zip(part(now)).map_or(0.0, |(then, now)| then - now)
    }

    /// A full fast tier that holds colder pages than a slower one exchanges them: as far as it serves less than it did, or
    /// without limit where the search found that it would better serve more.
    fn drift(&mut self, quantum: &Quantum<'_>, room: &mut Room) {
        let order = self.seen.by_latency();
        for pair in order.windows(2) {
            let ((fast, low), (slow, high)) = (pair[0], pair[1]);
            let is_short = self.short.contains(&(fast, slow));
            let wanted = if is_short { 1.0 } else { self.fall(fast) };
            if wanted > FALL && high > low * (1.0 + BAND) && room.free(fast) == 0 {
                self.plan = Plan::default();
                let (share, more) = self.shift(quantum, (slow, fast), wanted, room);
                if is_short && share > 0.0 {
                    self.served = [Vec::new(), Vec::new()];
                    if more {
                        return;
                    }
                }
            }
        }
        self.look_ns = DRIFT_NS;
        if self.served[1].iter().sum::<f64>() >= SHIFTED_SAMPLES {
            self.served[1].clear();
        }
    }
}

impl TierPolicy for Warm {
    fn name(&self) -> &'static str {
        "warm"
    }

    fn quantum_ns(&self) -> u64 {
        10_000_000
    }

    fn tracking(&self) -> Tracking {
        Tracking::Samples { period: 5003 }
    }

    fn tiers_max(&self) -> usize {
        usize::MAX
    }

    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move> {
        let elapsed = quantum.elapsed_ns as f64;
        self.heat.add(quantum.residency.len(), quantum.samples, elapsed);
        self.seen.set_gain(1.0 - (-elapsed / SMOOTH_NS).exp());
        self.seen.add(quantum.tiers);
        self.note_least();
        self.mover_per_ns = self.mover_pages(quantum) as f64 / elapsed.max(1.0);
        self.age_ns += elapsed;
        if self.age_ns < START_NS || self.seen.by_latency().len() < 2 {
            return Vec::new();
        }
        if self.age_ns - elapsed < START_NS {
            self.begin(true);
        }
        if self.listen.is_some() {
            self.hear(quantum);
            return Vec::new();
        }
        if self.climb.is_none() && !self.drifts(quantum) {
            return Vec::new();
        }
        let mut room = Room::new(&self.layout, quantum);
        if self.climb.is_some() {
            self.search(quantum, &mut room);
        } else {
            self.drift(quantum, &mut room);
        }
        room.moves()
    }
}
