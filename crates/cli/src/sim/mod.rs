//! `warmset sim`: the published experiments with tiered memory, simulated.

use std::io::{self, Write};
use std::process::ExitCode;

use warmset_sim::{Report, report};

use crate::args::SimArgs;

/// Runs the simulations and writes the tables.
pub fn run(args: &SimArgs) -> io::Result<ExitCode> {
    let report = report(args.seed);
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write_tables(&mut out, &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_tables(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "GUPS, GB/s, simulated (published, deviation; ! = outside what is allowed)\n")?;
    writeln!(out, "policy          contention  simulated  published  deviation  default's share")?;
    for cell in &report.gups {
        let published = cell.published_gbps.map_or("-".into(), |gbps| format!("{gbps:.1}"));
        let deviation = cell.deviation.map_or("-".into(), |part| format!("{:+.1} %", part * 100.0));
        let share = cell.default_share.map_or("-".into(), |part| format!("{:.1} %", part * 100.0));
        let mark = if cell.ok == Some(false) { " !" } else { "" };
        let (policy, contention, gbps) = (&cell.policy, cell.contention, cell.simulated_gbps);
        writeln!(
            out,
            "{policy:<15} {contention:>9}x {gbps:>10.1} {published:>10} {deviation:>10} {share:>16}{mark}"
        )?;
    }
    writeln!(out, "\nDynamic scenarios, simulated\n")?;
    writeln!(out, "scenario             policy          convergence  mean GB/s after the change")?;
    for row in &report.dynamic {
        let (scenario, policy) = (&row.scenario, &row.policy);
        writeln!(out, "{scenario:<20} {policy:<15} {:>9.1} s {:>10.1}", row.convergence_s, row.gbps)?;
    }
    Ok(())
}
