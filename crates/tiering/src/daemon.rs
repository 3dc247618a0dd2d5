//! The loop: what the tracker and the latency source say goes to the policy, what it decides to the mover.

use std::io;
use std::time::{Duration, Instant};

use warmset_placement::tier::{
    Layout, Move, NOWHERE, PageSample, Quantum, TierCounters, TierPolicy, Tracking, policy,
};
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::maps::{Mapping, inside, mappings, unplaced};

use crate::report::MoveReport;
use crate::topology::{free_bytes, kernel_balances};
use crate::{
    Access, CHUNK_BYTES, Counters, Error, LatencySource, Mover, Pages, Reading, Report, Target, TierReport,
    Topology, Tracked, Tracker,
};

const BASE_PAGES_PER_CHUNK: f64 = 512.0;
/// How often mappings and nodes are read again.
const MAP_EVERY: Duration = Duration::from_secs(2);
/// The owner's placement is read again at most after this many times what reading it took: it walks all page tables.
const PLACED_REST: u32 = 100;
/// Chunks looked at in a quantum beside those that were accessed.
const LOOK_CHUNKS: usize = 512;
/// Accessed chunks looked at in a quantum.
const ACCESSED_CHUNKS_MAX: usize = 8192;
/// How long a chunk that cannot be moved is left alone.
const HOLD_NS: u64 = 60_000_000_000;
/// Part of a node's memory that is never filled, and the least of it.
const RESERVE_PART: u64 = 50;
const RESERVE_BYTES_MIN: u64 = 16 << 20;
/// Part of a quantum that may go to moving.
const MOVE_TIME_PART: f64 = 0.5;
/// Quanta without a latency after which that is said.
const SILENT_QUANTA: u32 = 5;
// linux/errno.h
const EPERM: i32 = 1;

/// What the user chose.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The policy's name.
    pub policy: String,
    /// Decide, but move nothing.
    pub dry_run: bool,
    /// The most that is moved in a second.
    pub limit_bytes_per_s: u64,
    /// Between two decisions.
    pub interval: Duration,
}

impl Settings {
    /// Looks whether the policy fits this many tiers, before anything is started.
    ///
    /// # Errors
    /// When it does not exist or knows fewer.
    pub fn check(&self, tiers: usize) -> Result<(), Error> {
        let layout = Layout { tiers, page_bytes: CHUNK_BYTES };
        if tiers > self.policy(&layout)?.tiers_max() {
            return Err(Error::TooManyTiers { name: self.policy.clone(), tiers });
        }
        Ok(())
    }

    fn policy(&self, layout: &Layout) -> Result<Box<dyn TierPolicy>, Error> {
        policy(&self.policy, layout).ok_or_else(|| Error::NoPolicy(self.policy.clone()))
    }
}

/// Manages one process.
#[derive(Debug)]
pub struct Daemon {
    settings: Settings,
    root: Root,
    target: Target,
    topology: Topology,
    tracker: Box<dyn Tracker>,
    latency: Box<dyn LatencySource>,
    mover: Box<dyn Mover>,
    policy: Box<dyn TierPolicy>,
    pages: Pages,
    capacity_pages: Vec<u64>,
    counters: Counters,
    /// The mappings when the owner's placement was read, and those of them that the owner did not place.
    mapped: Vec<Mapping>,
    unplaced: Vec<Mapping>,
    mapped_at: Option<Instant>,
    /// When the owner's placement may be read again.
    placed_due: Instant,
    /// What may still be moved.
    budget_bytes: u64,
    begin: Instant,
    last: Instant,
    silent: u32,
    warnings: Vec<String>,
}

/// The policy that compares how many accesses there are.
const WARM: &str = "warm";

impl Daemon {
    /// Looks at the process once. `root` is where the machine's files are read from.
    ///
    /// # Errors
    /// When the policy does not fit or the process cannot be looked at.
    pub fn new(
        root: Root,
        settings: Settings,
        target: Target,
        topology: Topology,
        tracker: Box<dyn Tracker>,
        latency: Box<dyn LatencySource>,
        mover: Box<dyn Mover>,
    ) -> Result<Self, Error> {
        let layout = Layout { tiers: topology.tiers.len(), page_bytes: CHUNK_BYTES };
        settings.check(topology.tiers.len())?;
        if settings.policy == WARM && !tracker.counts() {
            return Err(Error::NotCounted { tracker: tracker.name() });
        }
        let chosen = settings.policy(&layout)?;
        let mut warnings = Vec::new();
        if kernel_balances(&root) {
            warnings.push(
                "the kernel's NUMA balancing is on and moves pages, too: turn it off with \
                 sysctl kernel.numa_balancing=0"
                    .to_owned(),
            );
        }
        let now = Instant::now();
        let mut daemon = Self {
            settings,
            root,
            target,
            topology,
            tracker,
            latency,
            mover,
            policy: chosen,
            pages: Pages::default(),
            capacity_pages: Vec::new(),
            counters: Counters::default(),
            mapped: Vec::new(),
            unplaced: Vec::new(),
            mapped_at: None,
            placed_due: now,
            budget_bytes: 0,
            begin: now,
            last: now,
            silent: 0,
            warnings,
        };
        daemon.place()?;
        Ok(daemon)
    }

    /// The process.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The tiers.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Sums since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The names of tracker and latency source.
    #[must_use]
    pub fn sources(&self) -> (&'static str, &'static str) {
        (self.tracker.name(), self.latency.name())
    }

    /// A thread of the kernel that works for the tracker.
    #[must_use]
    pub fn kernel_thread(&self) -> Option<u32> {
        self.tracker.kernel_thread()
    }

    /// Finds all places.
    fn place(&mut self) -> Result<(), Error> {
        self.map();
        let all: Vec<u32> = self.pages.next(usize::MAX);
        self.look(&all)?;
        self.find_room();
        Ok(())
    }

    /// Finds how much each tier has room for: what the process has there, and what is free.
    fn find_room(&mut self) {
        let own = self.pages.count(self.topology.tiers.len());
        let capacity = |(tier, own): (&crate::Tier, u64)| {
            let free =
                free_bytes(&self.root, tier.node).unwrap_or(0).saturating_sub(reserve(tier.total_bytes));
            own + free / CHUNK_BYTES
        };
        self.capacity_pages = self.topology.tiers.iter().zip(own).map(capacity).collect();
    }

    /// Only mappings whose placement by the owner was looked at are managed: a new one waits for the next look.
    fn map(&mut self) {
        // A process that is ending has none; its end is noticed elsewhere.
        let found = mappings(&self.root, self.target.pid()).unwrap_or_default();
        let begin = Instant::now();
        self.mapped_at = Some(begin);
        if found != self.mapped && begin >= self.placed_due {
            let unplaced = unplaced(&self.root, self.target.pid());
            self.unplaced = unplaced.map_or_else(|| found.clone(), |ranges| inside(&found, &ranges));
            self.placed_due = Instant::now() + begin.elapsed() * PLACED_REST;
            self.mapped.clone_from(&found);
        }
        self.pages.map(&inside(&found, &self.unplaced));
    }

    fn look(&mut self, numbers: &[u32]) -> Result<(), Error> {
        let now_ns = self.now_ns();
        let pid = self.target.pid();
        let looked = self.pages.look(self.mover.as_mut(), pid, &self.topology, numbers, now_ns);
        looked.or_else(|error| self.judged(error))
    }

    fn judged(&self, source: io::Error) -> Result<(), Error> {
        match source.raw_os_error() {
            Some(EPERM) => Err(Error::MayNotMove { pid: self.target.pid(), source }),
            _ => Ok(()),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nodes that went offline, or came.
    fn check_nodes(&mut self) -> Result<(), Error> {
        let one_is_enough = self.settings.dry_run;
        let now =
            Topology::read(&self.root, self.target.pid(), one_is_enough).map_err(|error| match error {
                Error::OneNode(left) | Error::Confined { allowed: left, .. } => Error::NodesGone(left),
                other => other,
            })?;
        let nodes = |topology: &Topology| topology.tiers.iter().map(|tier| tier.node).collect::<Vec<_>>();
        if nodes(&now) != nodes(&self.topology) {
            // Whoever measures latencies knows the nodes of the start: the numbers of the tiers would not fit.
            if nodes(&now).len() > nodes(&self.topology).len() {
                return Ok(());
            }
            return Err(Error::NodesGone(now.tiers.len()));
        }
        Ok(())
    }

    /// One quantum. A process that has ended is no error: see [`Target::runs`].
    ///
    /// # Errors
    /// When the tracker has stopped although the process runs, pages may not be moved, or nodes went offline.
    pub fn step(&mut self) -> Result<Report, Error> {
        let accesses = match self.tracker.collect() {
            Ok(accesses) => accesses,
            Err(_) if !self.target.runs() => Vec::new(),
            Err(source) => return Err(Error::TrackerStopped { tracker: self.tracker.name(), source }),
        };
        let elapsed = self.last.elapsed().max(Duration::from_millis(1));
        self.last = Instant::now();
        if self.mapped_at.is_none_or(|at| at.elapsed() > MAP_EVERY) {
            self.check_nodes()?;
            self.map();
            self.find_room();
        }
        let weights = self.pages.accessed(&accesses);
        let mut looked: Vec<u32> = weights.keys().copied().take(ACCESSED_CHUNKS_MAX).collect();
        looked.extend(self.pages.next(LOOK_CHUNKS));
        self.look(&looked)?;
        let residency = self.pages.residency();
        let mut samples: Vec<PageSample> = weights
            .into_iter()
            .map(|(page, weight)| PageSample { page, tier: residency[page as usize], weight })
            .filter(|sample| sample.tier != NOWHERE)
            .collect();
        let sums = sums(&samples, self.topology.tiers.len());
        let all: f64 = sums.iter().sum();
        let shares: Vec<f64> = sums.iter().map(|sum| if all > 0.0 { sum / all } else { 0.0 }).collect();
        let latencies = self.latencies(&accesses);
        let tracked: Vec<Tracked> =
            shares.iter().zip(latencies).map(|(&share, latency_ns)| Tracked { share, latency_ns }).collect();
        let readings = self.latency.read(&tracked);
        let accesses_per_weight =
            BASE_PAGES_PER_CHUNK * self.tracker.accesses_per_rate_s() * elapsed.as_secs_f64();
        let elapsed_ns = elapsed.as_nanos() as f64;
        let counters: Vec<TierCounters> = sums
            .iter()
            .enumerate()
            .map(|(at, sum)| {
                let reading = readings.get(at).copied().unwrap_or_default();
                let tracked = sum * accesses_per_weight / elapsed_ns;
                TierCounters {
                    rate_per_ns: reading.rate_per_ns.unwrap_or(tracked),
                    latency_ns: reading.latency_ns,
                }
            })
            .collect();
        let quantum_bytes = (self.settings.limit_bytes_per_s as f64 * elapsed.as_secs_f64()) as u64;
        // What is less than a chunk is kept for later, so that a low limit is kept to instead of stopping everything.
        self.budget_bytes =
            self.budget_bytes.saturating_add(quantum_bytes).min(quantum_bytes.saturating_add(CHUNK_BYTES));
        if matches!(self.policy.tracking(), Tracking::HintFaults { .. }) {
            // Such a policy wants the time to the next access, which is what the rate's inverse is.
            let rate_s = self.tracker.accesses_per_rate_s();
            samples.iter_mut().for_each(|sample| sample.weight = 1e9 / (sample.weight * rate_s));
        }
        let moves = if self.is_heard(&readings) {
            self.policy.decide(&Quantum {
                now_ns: self.now_ns(),
                elapsed_ns: elapsed_ns as u64,
                tiers: &counters,
                samples: &samples,
                accesses_per_weight,
                capacity_pages: &self.capacity_pages,
                residency: self.pages.residency(),
                move_bytes_max: self.budget_bytes,
            })
        } else {
            Vec::new()
        };
        let mut report = Report {
            time_s: self.begin.elapsed().as_secs_f64(),
            tiers: Vec::new(),
            accessed_bytes: samples.len() as u64 * CHUNK_BYTES,
            promoted_bytes: 0,
            demoted_bytes: 0,
            moves: Vec::new(),
            failures: crate::Failures::default(),
            postponed: 0,
            warnings: std::mem::take(&mut self.warnings),
        };
        self.carry_out(&moves, &counters, &mut report)?;
        report.tiers = self.tiers(&counters, &shares);
        self.counters.add(&report);
        Ok(report)
    }

    /// The mean latency of the accesses to each tier that the tracker has measured.
    fn latencies(&self, accesses: &[Access]) -> Vec<Option<f64>> {
        let residency = self.pages.residency();
        let mut sums = vec![(0.0, 0.0); self.topology.tiers.len()];
        for access in accesses {
            let Some(latency_ns) = access.latency_ns else { continue };
            for (page, weight) in self.pages.accessed(std::slice::from_ref(access)) {
                if let Some((cost, count)) = sums.get_mut(usize::from(residency[page as usize])) {
                    *cost += weight * latency_ns;
                    *count += weight;
                }
            }
        }
        sums.into_iter().map(|(cost, count)| (count > 0.0).then(|| cost / count)).collect()
    }

    /// Whether latencies are there to decide by. A counter that has stopped must not be acted on.
    fn is_heard(&mut self, readings: &[Reading]) -> bool {
        let is_missing = |reading: &Reading| reading.latency_ns.is_none() && reading.rate_per_ns.is_none();
        let missing = readings.len() < self.topology.tiers.len() || readings.iter().any(is_missing);
        if !missing {
            self.silent = 0;
            return true;
        }
        self.silent = self.silent.saturating_add(1);
        self.counters.quanta_without_latency += 1;
        if self.silent == SILENT_QUANTA {
            let source = self.latency.name();
            self.warnings
                .push(format!("the latency source {source} has stopped: nothing moves until it is back"));
        }
        false
    }

    fn carry_out(
        &mut self,
        moves: &[Move],
        counters: &[TierCounters],
        report: &mut Report,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        let pid = self.target.pid();
        // Its number may be another process's by now.
        if !moves.is_empty() && !self.target.runs() {
            return Ok(());
        }
        for (at, wanted) in moves.iter().enumerate() {
            let is_late =
                begin.elapsed().as_secs_f64() > self.settings.interval.as_secs_f64() * MOVE_TIME_PART;
            if is_late || self.budget_bytes < CHUNK_BYTES {
                report.postponed += (moves.len() - at) as u64;
                break;
            }
            let tiers = &self.topology.tiers;
            let (Some(from), Some(to), Some(address)) = (
                tiers.get(usize::from(wanted.from)),
                tiers.get(usize::from(wanted.to)),
                self.pages.address(wanted.page),
            ) else {
                continue;
            };
            let (from, to, total_bytes) = (from.node, to.node, to.total_bytes);
            let mut line = MoveReport { address, from, to, moved_bytes: 0 };
            self.budget_bytes -= CHUNK_BYTES;
            if self.settings.dry_run {
                report.moves.push(line);
                continue;
            }
            if free_bytes(&self.root, to).is_none_or(|free| free < reserve(total_bytes) / 2) {
                report.failures.full += 1;
                continue;
            }
            let outcome = match self.mover.move_chunk(pid, address, to) {
                Ok(outcome) => outcome,
                Err(_) if !self.target.runs() => {
                    report.failures.gone += 1;
                    break;
                }
                Err(source) if source.raw_os_error() == Some(EPERM) => {
                    return Err(Error::MayNotMove { pid, source });
                }
                Err(_) => {
                    report.failures.node += 1;
                    self.pages.hold(wanted.page, self.now_ns().saturating_add(HOLD_NS));
                    self.check_nodes()?;
                    continue;
                }
            };
            line.moved_bytes = outcome.moved_bytes;
            if outcome.there > outcome.left {
                self.pages.moved(wanted.page, wanted.to);
            } else {
                report.failures.gone += u64::from(outcome.there == 0 && outcome.left == 0);
                report.failures.full += u64::from(outcome.full > 0);
                report.failures.shared += u64::from(outcome.shared > 0);
                report.failures.busy += u64::from(outcome.busy > 0);
                // Room is found again, other reasons last.
                if outcome.full == 0 {
                    self.pages.hold(wanted.page, self.now_ns().saturating_add(HOLD_NS));
                }
            }
            let latency = |tier: u8| counters[usize::from(tier)].latency_ns.unwrap_or(0.0);
            let promoted = latency(wanted.to) <= latency(wanted.from);
            let sum = if promoted { &mut report.promoted_bytes } else { &mut report.demoted_bytes };
            *sum += outcome.moved_bytes;
            report.moves.push(line);
        }
        Ok(())
    }

    fn tiers(&self, counters: &[TierCounters], shares: &[f64]) -> Vec<TierReport> {
        let resident = self.pages.count(self.topology.tiers.len());
        let tiers = self.topology.tiers.iter().zip(counters).zip(shares).zip(resident);
        tiers
            .map(|(((tier, counters), share), chunks)| TierReport {
                node: tier.node,
                latency_ns: counters.latency_ns,
                share: *share,
                resident_bytes: chunks * CHUNK_BYTES,
                free_bytes: free_bytes(&self.root, tier.node).unwrap_or(0),
            })
            .collect()
    }
}

fn reserve(total_bytes: u64) -> u64 {
    (total_bytes / RESERVE_PART).max(RESERVE_BYTES_MIN)
}

fn sums(samples: &[PageSample], tiers: usize) -> Vec<f64> {
    let mut sums = vec![0.0; tiers];
    for sample in samples {
        if let Some(sum) = sums.get_mut(usize::from(sample.tier)) {
            *sum += sample.weight;
        }
    }
    sums
}
