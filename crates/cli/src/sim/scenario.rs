//! Policies side by side on one scenario.

use std::io::{self, Write};

use serde::Serialize;
use warmset_sim::{
    KNOWN_POLICIES, Outcome, POLICIES, Point, Scenario, best_static, draw_timelines, run as simulate,
};

use crate::args::SimArgs;

#[derive(Serialize)]
struct Output<'a> {
    schema: u32,
    simulated: bool,
    scenario: &'a str,
    seed: u64,
    best_static_gbps: f64,
    policies: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    policy: &'a str,
    gbps: f64,
    gbps_from_change: f64,
    default_share: f64,
    latency_ns: &'a [f64],
    convergence_s: f64,
    migration_share: f64,
    timeline: &'a [Point],
}

/// Runs the policies on the scenario as it is.
pub fn run(args: &SimArgs, scenario: &Scenario, threads: usize) -> io::Result<()> {
    let wanted: Vec<&str> = if args.compare.is_empty() {
        POLICIES.to_vec()
    } else {
        args.compare.iter().map(String::as_str).collect()
    };
    if let Some(unknown) = wanted.iter().find(|policy| !KNOWN_POLICIES.contains(policy)) {
        let known = KNOWN_POLICIES.join(", ");
        let text = format!("--compare: there is no policy {unknown}; policies: {known}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let outcomes = all(scenario, &wanted, threads);
    if let Some(directory) = &args.svg {
        let files = draw_timelines(&scenario.name, &outcomes, directory).map_err(io::Error::other)?;
        super::say_charts(&files);
    }
    let (best, share) = best_static(scenario);
    let mut out = io::stdout().lock();
    if args.json {
        let policies = outcomes.iter().map(|(policy, run)| Row {
            policy,
            gbps: run.gbps,
            gbps_from_change: run.gbps_from_change,
            default_share: run.default_share,
            latency_ns: &run.latency_ns,
            convergence_s: run.convergence_s,
            migration_share: run.migration_share,
            timeline: &run.timeline,
        });
        let output = Output {
            schema: 2,
            simulated: true,
            scenario: &scenario.name,
            seed: scenario.seed,
            best_static_gbps: best,
            policies: policies.collect(),
        };
        serde_json::to_writer(&mut out, &output)?;
        return writeln!(out);
    }
    let tier = &scenario.tiers[0].name;
    writeln!(out, "{}: simulated, seed {}\n", scenario.name, scenario.seed)?;
    writeln!(
        out,
        "policy           GB/s at the end  from the change  settles after  in {tier}  copied  latencies, ns"
    )?;
    for (policy, run) in &outcomes {
        let latencies: Vec<String> = run.latency_ns.iter().map(|latency| format!("{latency:.0}")).collect();
        writeln!(
            out,
            "{policy:<16} {:>15.1} {:>16.1} {:>12.1} s {:>w$.0} % {:>5.2} %  {}",
            run.gbps,
            run.gbps_from_change,
            run.convergence_s,
            run.default_share * 100.0,
            run.migration_share * 100.0,
            latencies.join(" "),
            w = tier.len() + 2,
        )?;
    }
    writeln!(out, "best static      {best:>15.1} {:>31} {:>w$.0} %", "", share * 100.0, w = tier.len() + 2)
}

fn all<'a>(scenario: &Scenario, wanted: &[&'a str], threads: usize) -> Vec<(&'a str, Outcome)> {
    let mut done = Vec::new();
    for part in wanted.chunks(threads.max(1)) {
        let ran = std::thread::scope(|scope| {
            let started: Vec<_> =
                part.iter().map(|policy| scope.spawn(|| simulate(scenario, policy))).collect();
            started.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Vec<Option<Outcome>>>()
        });
        done.extend(part.iter().zip(ran).filter_map(|(policy, run)| Some((*policy, run?))));
    }
    done
}
