//! The published tables, filled from the runs.

use crate::figures;
use crate::published::{Against, Cell, POLICIES, Runs};

/// All cells with a published figure or a range, and `warm` beside them.
pub(crate) fn cells(runs: &Runs) -> Vec<Cell> {
    let mut all = Vec::new();
    gups(runs, &mut all);
    latencies(runs, &mut all);
    for (at, system) in figures::SYSTEMS.iter().enumerate() {
        for (level, x) in figures::CONTENTION.iter().enumerate() {
            for (of, latency) in figures::ALTERNATE_NS.iter().enumerate() {
                let (table, case) = if of == 0 {
                    ("gups", (*x).into())
                } else {
                    ("latency sweep", format!("{latency} ns {x}"))
                };
                let published = figures::LATENCY_GAIN[at][of][level];
                let name = format!("{latency} ns {x}");
                all.extend(gain(runs, (table, &case), ("latency sweep", &name), system, published, 0.10));
            }
            for (of, (size, _)) in figures::OBJECTS.iter().enumerate() {
                let name = format!("{size} B {x}");
                let published = figures::OBJECT_GAIN[at][of][level];
                let cell =
                    gain(runs, ("object size", &name), ("object size", &name), system, published, 0.20);
                // One window per size was fitted to HeMem's gains.
                all.extend(cell.map(|cell| Cell { fitted: at == 0, ..cell }));
            }
        }
        for (name, gains, allowed) in figures::APPLICATIONS {
            for (level, published) in gains[at].iter().enumerate() {
                let case = format!("{name} {}", figures::CONTENTION[level + 1]);
                let key = ("applications", case.as_str());
                let Some(cell) = gain(runs, key, key, system, *published, allowed) else { continue };
                let fitted = at == 0 && level == 2;
                if allowed.is_finite() {
                    all.push(Cell { fitted, ..cell });
                } else {
                    all.push(direction(Cell { fitted, ..cell }, *published));
                }
            }
        }
    }
    monotone(&mut all);
    dynamic(runs, &mut all);
    distance(runs, &mut all);
    all
}

fn cell(table: &str, case: &str, policy: &str, unit: &str, simulated: f64) -> Cell {
    Cell {
        table: table.into(),
        case: case.into(),
        policy: policy.into(),
        unit: unit.into(),
        simulated,
        published: None,
        range: None,
        ok: None,
        fitted: false,
    }
}

fn within(mut cell: Cell, published: Option<f64>, range: (f64, f64)) -> Cell {
    cell.published = published;
    cell.range = Some(range);
    cell.ok = Some(cell.simulated >= range.0 && cell.simulated <= range.1);
    cell
}

fn near(cell: Cell, published: f64, allowed: f64) -> Cell {
    within(cell, Some(published), (published * (1.0 - allowed), published * (1.0 + allowed)))
}

fn gups(runs: &Runs, all: &mut Vec<Cell>) {
    for (level, x) in figures::CONTENTION.iter().enumerate() {
        for (policy, published, allowed) in figures::GUPS {
            let simulated = if policy == "best" {
                runs.best.get(&("gups".into(), (*x).into())).map(|best| best.0)
            } else {
                runs.get("gups", x, policy).map(|run| run.gbps)
            };
            let Some(simulated) = simulated else { continue };
            let made = near(cell("gups", x, policy, "GB/s", simulated), published[level], allowed);
            // HeMem's eight throughputs, and MEMTIS' one for the cost of its splits.
            let fitted = policy.starts_with("hemem") || (policy == "memtis" && level == 0);
            all.push(Cell { fitted, ..made });
        }
        all.extend(runs.get("gups", x, "warm").map(|run| cell("gups", x, "warm", "GB/s", run.gbps)));
    }
}

fn latencies(runs: &Runs, all: &mut Vec<Cell>) {
    for (level, x) in figures::CONTENTION.iter().enumerate() {
        for (policy, published) in figures::LATENCY {
            let Some(run) = runs.get("gups", x, policy) else { continue };
            for (tier, name) in ["default", "alternate"].iter().enumerate() {
                let case = format!("{x} {name}");
                let made = cell("latencies", &case, policy, "ns", run.latency_ns[tier]);
                all.push(near(made, published[level][tier], 0.12));
            }
        }
        let Some(run) = runs.get("gups", x, "hemem+colloid") else { continue };
        let made = cell("latencies", &format!("{x} share"), "hemem+colloid", "share", run.default_share);
        match level {
            0 => {}
            1 => {
                all.push(within(made, Some(30.0 / 57.0), (0.44, 0.60)));
                let ratio = run.latency_ns[0] / run.latency_ns[1];
                let made = cell("latencies", "1x default / alternate", "hemem+colloid", "ratio", ratio);
                all.push(within(made, Some(163.0 / 162.0), (0.95, 1.05)));
            }
            2 => all.push(within(made, Some(2.0 / 56.0), (0.0, 0.06))),
            _ => all.push(within(made, Some(2.0 / 54.0), (0.0, 0.06))),
        }
    }
}

/// The gain of a system by Colloid.
fn gain(
    runs: &Runs,
    (table, case): (&str, &str),
    (into, name): (&str, &str),
    system: &str,
    published: f64,
    allowed: f64,
) -> Option<Cell> {
    let with = runs.get(table, case, &format!("{system}+colloid"))?.gbps;
    let without = runs.get(table, case, system)?.gbps;
    Some(near(cell(into, name, system, "gain", with / without), published, allowed))
}

/// Only the direction counts: no loss beyond 3 %, and a gain where a gain of over 5 % was published.
fn direction(cell: Cell, published: f64) -> Cell {
    let least = if published > 1.05 { 1.0 } else { 0.97 };
    within(cell, Some(published), (least, f64::INFINITY))
}

/// The gain falls with the alternate tier's latency: HeMem's and the others' three steps, 1 % of noise allowed.
fn monotone(all: &mut Vec<Cell>) {
    for system in figures::SYSTEMS {
        for x in &figures::CONTENTION[1..] {
            let gains: Vec<f64> = figures::ALTERNATE_NS
                .iter()
                .filter_map(|latency| {
                    let name = format!("{latency} ns {x}");
                    let found = all
                        .iter()
                        .find(|c| c.table == "latency sweep" && c.case == name && c.policy == system);
                    found.map(|cell| cell.simulated)
                })
                .collect();
            let rise = gains.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::MIN, f64::max);
            let made = cell("latency sweep", &format!("{x} largest rise"), system, "gain", rise);
            all.push(within(made, None, (f64::NEG_INFINITY, 0.01)));
        }
    }
}

fn dynamic(runs: &Runs, all: &mut Vec<Cell>) {
    for (table, case, changes) in &runs.cases {
        if !changes || table != "dynamic" {
            continue;
        }
        for policy in POLICIES {
            let Some(run) = runs.get(table, case, policy) else { continue };
            let made = cell("convergence", case, policy, "s", run.convergence_s);
            let asked = figures::CONVERGENCE.iter().find(|asked| asked.0 == case && asked.1 == policy);
            all.push(match asked {
                Some((_, _, least, most)) => within(made, None, (*least, *most)),
                None => made,
            });
        }
    }
}

fn distance(runs: &Runs, all: &mut Vec<Cell>) {
    for (policy, allowed) in figures::DISTANCE {
        let parts = figures::CONTENTION.iter().filter_map(|x| {
            let best = runs.best.get(&("gups".into(), (*x).into()))?.0;
            Some(1.0 - runs.get("gups", x, policy)?.gbps / best)
        });
        let worst = parts.fold(f64::MIN, f64::max);
        let made = cell("distance to best", "worst", policy, "part", worst);
        all.push(within(made, Some(allowed - 0.02), (f64::NEG_INFINITY, allowed)));
    }
}

/// `warm` in all scenarios.
pub(crate) fn warm(runs: &Runs) -> Vec<Against> {
    let mut all = Vec::new();
    for (table, case, changes) in &runs.cases {
        let figure = |policy: &str| {
            runs.get(table, case, policy).map(|run| if *changes { run.gbps_from_change } else { run.gbps })
        };
        // TPP's runs are stretched where something changes: its mean is over another time.
        let others = POLICIES[..6].iter().filter(|policy| !(*changes && policy.starts_with("tpp")));
        let best =
            others.filter_map(|policy| Some((*policy, figure(policy)?))).max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(best), Some(warm), Some(run)) = (best, figure("warm"), runs.get(table, case, "warm"))
        else {
            continue;
        };
        let fixed = runs.best.get(&(table.clone(), case.clone())).map_or(f64::NAN, |best| best.0);
        all.push(Against {
            table: table.clone(),
            case: case.clone(),
            warm,
            of_six: warm / best.1,
            best_of_six: best.0.into(),
            of_static: run.gbps / fixed,
            migration_share: run.migration_share,
            convergence_s: run.convergence_s,
            convergence_hemem_colloid_s: runs
                .get(table, case, "hemem+colloid")
                .map_or(0.0, |run| run.convergence_s),
        });
    }
    all
}
