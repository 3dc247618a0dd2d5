//! The whole loop with scripted latencies: the share of accesses that each node serves follows them.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use warmset_platform::sysinfo::Root;
use warmset_tiering::latency::ScriptedSource;
use warmset_tiering::mover::KernelMover;
use warmset_tiering::tracker::DamonTracker;
use warmset_tiering::{Daemon, Mover, Report, Settings, Target, Topology};

use crate::workload::Workload;

const CHUNKS: usize = 64;
const HOT: usize = 20;
/// Quanta in which a balance must be found.
const STEPS_MAX: usize = 150;
const STEPS_QUIET: usize = 12;

struct Balance {
    workload: Workload,
    daemon: Daemon,
    script: PathBuf,
    /// How often each chunk moved since it was last cleared.
    moves: HashMap<u64, u32>,
}

impl Balance {
    fn start(policy: &str, lines: &[(f64, f64)]) -> Self {
        // It would move pages back to where the processors are.
        fs::write("/proc/sys/kernel/numa_balancing", "0").expect("a setting");
        let workload = Workload::start(CHUNKS, HOT, true);
        let script = PathBuf::from(format!("/tmp/latency-{}", workload.pid()));
        write(&script, lines);
        let interval = Duration::from_millis(200);
        let tracker = Box::new(DamonTracker::start(workload.pid(), interval).expect("DAMON"));
        let settings =
            Settings { policy: policy.into(), dry_run: false, limit_bytes_per_s: 1 << 30, interval };
        let target = Target::new(workload.pid()).expect("the workload");
        let topology = Topology::read(&Root::live(), workload.pid(), false).expect("nodes");
        let latency = Box::new(ScriptedSource::open(&script).expect("a script"));
        let mover = Box::new(KernelMover::default());
        let daemon =
            Daemon::new(Root::live(), settings, target, topology, tracker, latency, mover).expect("a daemon");
        Self { workload, daemon, script, moves: HashMap::new() }
    }

    fn step(&mut self) -> Report {
        let report = self.daemon.step().expect("a quantum");
        for line in &report.moves {
            *self.moves.entry(line.address).or_default() += 1;
        }
        report
    }

    /// The part of the hot chunks that is on each node, as the kernel says.
    fn shares(&self) -> [f64; 3] {
        let addresses: Vec<u64> = (0..HOT).map(|at| self.workload.chunk(at)).collect();
        let places = KernelMover::default().locations(self.workload.pid(), &addresses).expect("locations");
        [0, 1, 2].map(|node| places.iter().filter(|place| **place == node).count() as f64 / HOT as f64)
    }

    /// Steps until the share on node 0 is as wanted and nothing moves for a while.
    fn settle(&mut self, wanted: f64, tolerance: f64) {
        let mut quiet = 0;
        let mut last = String::new();
        for step in 0..STEPS_MAX {
            let report = self.step();
            let share = self.shares()[0];
            quiet =
                if report.moves.is_empty() && (share - wanted).abs() <= tolerance { quiet + 1 } else { 0 };
            if quiet == STEPS_QUIET {
                return println!("share {share:.2} (wanted {wanted:.2}) after {step} quanta");
            }
            let tracked: Vec<_> = report.tiers.iter().map(|t| (t.latency_ns, t.share)).collect();
            last = format!(
                "share {share:.2}, tracked {tracked:?}, {} moves, {:?}, {} postponed",
                report.moves.len(),
                report.failures,
                report.postponed
            );
        }
        panic!("the share does not settle at {wanted:.2}: {last}");
    }
}

fn write(script: &PathBuf, lines: &[(f64, f64)]) {
    let lines = lines.iter().map(|(base, slope)| format!(r#"{{"base_ns": {base}, "slope_ns": {slope}}}"#));
    let text = format!("[{}]", lines.collect::<Vec<_>>().join(", "));
    let aside = script.with_extension("new");
    fs::write(&aside, text).and_then(|()| fs::rename(&aside, script)).expect("a script");
}

pub fn share_follows_the_latencies() {
    // Equal at p where 100 + 100 p = 120 + 100 (1 - p).
    let mut balance = Balance::start("equal", &[(100.0, 100.0), (120.0, 100.0)]);
    balance.settle(0.6, 0.16);
    let twice = balance.moves.values().filter(|count| **count > 1).count();
    assert!(twice * 10 <= HOT, "{twice} chunks moved more than once: {:?}", balance.moves);
    balance.workload.check();
    // Contention on node 0: 200 + 100 p = 120 + 100 (1 - p).
    balance.moves.clear();
    write(&balance.script, &[(200.0, 100.0), (120.0, 100.0)]);
    balance.settle(0.1, 0.16);
    // And back.
    write(&balance.script, &[(100.0, 100.0), (120.0, 100.0)]);
    balance.settle(0.6, 0.16);
    // The latencies stop: nothing moves, and it says so.
    write(&balance.script, &[]);
    let mut warnings = Vec::new();
    for _ in 0..10 {
        let report = balance.step();
        assert!(report.moves.is_empty(), "{report:?}");
        warnings.extend(report.warnings);
    }
    assert!(warnings.iter().any(|text| text.contains("has stopped")), "{warnings:?}");
    balance.workload.end();
}

pub fn published_policies_harm_nothing() {
    for policy in ["hemem", "hemem+colloid", "tpp+colloid", "memtis+colloid"] {
        let mut balance = Balance::start(policy, &[(300.0, 100.0), (120.0, 100.0)]);
        for _ in 0..15 {
            balance.step();
        }
        println!("{policy}: {} chunks moved, shares {:?}", balance.moves.len(), balance.shares());
        balance.workload.check();
        let Balance { workload, daemon, .. } = balance;
        drop(daemon);
        workload.end();
    }
}

pub fn three_tiers_are_balanced() {
    // Equal where p0 = 0.6, p1 = 0.3, p2 = 0.1.
    let lines = [(100.0, 100.0), (130.0, 100.0), (150.0, 100.0)];
    let mut balance = Balance::start("equal", &lines);
    let mut shares = [0.0; 3];
    let near =
        |shares: &[f64; 3]| shares.iter().zip([0.6, 0.3, 0.1]).all(|(now, goal)| (now - goal).abs() < 0.16);
    let mut steps = 0;
    let mut quiet = 0;
    while quiet < STEPS_QUIET {
        assert!(steps < STEPS_MAX, "shares {shares:?}");
        let report = balance.step();
        shares = balance.shares();
        quiet = if report.moves.is_empty() && near(&shares) { quiet + 1 } else { 0 };
        steps += 1;
    }
    println!("shares {shares:?} after {steps} quanta");
    balance.workload.end();
}
