//! The published experiments: tables beside the published figures.

use std::io::{self, Write};

use warmset_sim::{Cell, Report, draw_published, report};

use crate::args::SimArgs;

/// Runs all of them.
pub fn run(args: &SimArgs, threads: usize) -> io::Result<()> {
    let report = report(args.seed.unwrap_or(1), threads, args.held_out);
    if let Some(directory) = &args.svg {
        super::say_charts(&draw_published(&report.runs, directory).map_err(io::Error::other)?);
    }
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report)?;
        return writeln!(out);
    }
    write_cells(&mut out, &report)?;
    write_warm(&mut out, &report)
}

fn write_cells(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let asked = report.cells.iter().filter_map(|cell| cell.ok);
    let ok = asked.clone().filter(|ok| *ok).count();
    writeln!(
        out,
        "Simulated (seed {}). {ok} of {} cells are as close as asked for.",
        report.seed,
        asked.count()
    )?;
    writeln!(out, "! = not as close as asked for; f = a constant was fitted to this cell")?;
    let mut table = "";
    for cell in &report.cells {
        if cell.table != table {
            table = &cell.table;
            writeln!(out, "\n{table}\n")?;
            writeln!(out, "case                    policy           simulated  published  deviation")?;
        }
        let published = cell.published.map_or_else(|| range(cell), |value| figure(cell, value));
        let deviation = cell.published.filter(|value| *value > 0.0).map(|value| cell.simulated / value - 1.0);
        let deviation = deviation.map_or("-".into(), |part| format!("{:+.1} %", part * 100.0));
        let marks = [(cell.ok == Some(false), " !"), (cell.fitted, " f")];
        let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
        let (case, policy, simulated) = (&cell.case, &cell.policy, figure(cell, cell.simulated));
        writeln!(out, "{case:<23} {policy:<15} {simulated:>10} {published:>10} {deviation:>10}{marks}")?;
    }
    Ok(())
}

fn range(cell: &Cell) -> String {
    match cell.range {
        Some((low, high)) if low.is_finite() && high.is_finite() => {
            format!("{}-{}", figure(cell, low), figure(cell, high))
        }
        Some((low, _)) if low.is_finite() => format!(">= {}", figure(cell, low)),
        Some((_, high)) => format!("<= {}", figure(cell, high)),
        None => "-".into(),
    }
}

fn figure(cell: &Cell, value: f64) -> String {
    match cell.unit.as_str() {
        "gain" | "ratio" => format!("{value:.2}"),
        "share" | "part" => format!("{:.1} %", value * 100.0),
        "ns" => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

fn write_warm(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "\n`warm` against the best of the six and the best static split\n")?;
    writeln!(
        out,
        "table           case               GB/s  of six                   of static  copied  settles (hemem+colloid)"
    )?;
    for row in &report.warm {
        writeln!(
            out,
            "{:<15} {:<15} {:>7.1} {:>7.3} {:<16} {:>9.3} {:>5.2} % {:>6.1} s ({:.1} s)",
            row.table,
            row.case,
            row.warm,
            row.of_six,
            row.best_of_six,
            row.of_static,
            row.migration_share * 100.0,
            row.convergence_s,
            row.convergence_hemem_colloid_s
        )?;
    }
    Ok(())
}
