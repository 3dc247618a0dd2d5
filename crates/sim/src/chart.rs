//! Charts of what was simulated, as SVG.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figures::{CONTENTION, GUPS};
use crate::published::{POLICIES, Runs};
use crate::run::{Outcome, Point};

const SIZE: (u32, u32) = (900, 460);
const FONT: &str = "sans-serif";
const GREY: RGBColor = RGBColor(110, 110, 110);

/// What stops a chart: a file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ChartError {
    path: PathBuf,
    reason: String,
}

/// A policy's colour; Colloid's forms are lighter than what they are built on, `warm` stands out.
fn colour(policy: &str) -> RGBColor {
    match policy {
        "hemem" => RGBColor(31, 90, 150),
        "hemem+colloid" => RGBColor(105, 175, 230),
        "tpp" => RGBColor(40, 120, 60),
        "tpp+colloid" => RGBColor(130, 200, 130),
        "memtis" => RGBColor(110, 70, 150),
        "memtis+colloid" => RGBColor(185, 150, 220),
        "equal" => RGBColor(150, 110, 60),
        "best" => RGBColor(170, 170, 170),
        _ => RGBColor(220, 90, 30),
    }
}

/// A line or a row of bars.
struct Series {
    policy: String,
    values: Vec<(f64, f64)>,
    /// Published figures at the same places, for bars.
    published: Vec<Option<f64>>,
}

struct Chart<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    series: Vec<Series>,
    /// Names of groups of bars; none for lines.
    groups: &'a [&'a str],
}

/// Charts of the published experiments: throughput, latencies, the default tier's share, and dynamics.
///
/// # Errors
/// If a file cannot be written.
pub fn published(runs: &Runs, directory: &Path) -> Result<Vec<PathBuf>, ChartError> {
    let with_best = ["best"].into_iter().chain(POLICIES);
    let throughput = with_best.map(|policy| {
        let levels = CONTENTION.iter().enumerate();
        let values = levels.map(|(level, x)| (level as f64, gups(runs, x, policy).unwrap_or(0.0))).collect();
        let row = GUPS.iter().find(|row| row.0 == policy);
        Series {
            policy: policy.into(),
            values,
            published: (0..4).map(|at| row.map(|row| row.1[at])).collect(),
        }
    });
    let mut files = vec![write(
        directory,
        "gups-throughput",
        &Chart {
            title: "GUPS throughput by contention, simulated (marks: published)",
            x: "contention in the default tier",
            y: "GB/s",
            series: throughput.collect(),
            groups: &CONTENTION,
        },
    )?];
    for (tier, file, title) in [
        (0, "gups-latency-default", "Latency of the default tier, simulated"),
        (1, "gups-latency-alternate", "Latency of the alternate tier, simulated"),
    ] {
        let chart = Chart {
            title,
            x: "contention in the default tier",
            y: "ns",
            series: by_level(runs, |run| run.latency_ns[tier]),
            groups: &CONTENTION,
        };
        files.push(write(directory, file, &chart)?);
    }
    let chart = Chart {
        title: "Default tier's part of the accesses, simulated",
        x: "contention in the default tier",
        y: "%",
        series: by_level(runs, |run| 100.0 * run.default_share),
        groups: &CONTENTION,
    };
    files.push(write(directory, "gups-default-share", &chart)?);
    for (table, case, changes) in &runs.cases {
        if *changes {
            let outcomes: Vec<(&str, Outcome)> = POLICIES
                .into_iter()
                .filter(|policy| !policy.starts_with("tpp"))
                .filter_map(|policy| Some((policy, runs.get(table, case, policy)?.clone())))
                .collect();
            files.extend(timelines(case, &outcomes, directory)?);
        }
    }
    Ok(files)
}

fn gups(runs: &Runs, x: &str, policy: &str) -> Option<f64> {
    if policy == "best" {
        return runs.best.get(&("gups".into(), x.into())).map(|best| best.0);
    }
    runs.get("gups", x, policy).map(|run| run.gbps)
}

fn by_level(runs: &Runs, figure: impl Fn(&Outcome) -> f64) -> Vec<Series> {
    let series = POLICIES.into_iter().map(|policy| {
        let levels = CONTENTION.iter().enumerate();
        let values =
            levels.map(|(level, x)| (level as f64, runs.get("gups", x, policy).map_or(0.0, &figure)));
        Series { policy: policy.into(), values: values.collect(), published: Vec::new() }
    });
    series.collect()
}

/// Throughput, default tier's share, and migration over time, of one scenario.
///
/// # Errors
/// If a file cannot be written.
pub fn timelines(name: &str, runs: &[(&str, Outcome)], directory: &Path) -> Result<Vec<PathBuf>, ChartError> {
    type Figure = fn(&Point) -> f64;
    let charts: [(&str, &str, &str, Figure); 3] = [
        ("throughput", "throughput", "GB/s", |point| point.gbps),
        ("share", "default tier's part of the accesses", "%", |point| 100.0 * point.default_share),
        ("migration", "migration, both ways", "GB/s", |point| point.migration_gbps),
    ];
    let mut files = Vec::new();
    for (file, what, unit, figure) in charts {
        let series = runs.iter().map(|(policy, run)| Series {
            policy: (*policy).into(),
            values: run.timeline.iter().map(|point| (point.at_s, figure(point))).collect(),
            published: Vec::new(),
        });
        let title = format!("{name}: {what}, simulated");
        let chart = Chart { title: &title, x: "seconds", y: unit, series: series.collect(), groups: &[] };
        files.push(write(directory, &format!("{name}-{file}"), &chart)?);
    }
    Ok(files)
}

fn write(directory: &Path, name: &str, chart: &Chart<'_>) -> Result<PathBuf, ChartError> {
    let path = directory.join(format!("{name}.svg"));
    let mut text = String::new();
    let drawn = draw(&mut text, chart).map_err(|error| error.to_string());
    let written = drawn.and_then(|()| std::fs::write(&path, &text).map_err(|error| error.to_string()));
    written.map_err(|reason| ChartError { path: path.clone(), reason })?;
    Ok(path)
}

fn draw(text: &mut String, chart: &Chart<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, legend) = area.split_horizontally(SIZE.0 as i32 - 165);
    let most = chart.series.iter().flat_map(|series| &series.values).map(|at| at.1).fold(0.0, f64::max);
    let end = chart.series.iter().flat_map(|series| &series.values).map(|at| at.0).fold(0.0, f64::max);
    let range =
        if chart.groups.is_empty() { 0.0..end.max(1.0) } else { -0.5..chart.groups.len() as f64 - 0.5 };
    let mut grid = ChartBuilder::on(&plot)
        .caption(chart.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(range, 0.0..(most * 1.08).max(1.0))?;
    let mut mesh = grid.configure_mesh();
    mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(RGBColor(225, 225, 225));
    mesh.x_desc(chart.x).y_desc(chart.y).label_style((FONT, 14)).axis_desc_style((FONT, 14)).axis_style(GREY);
    if !chart.groups.is_empty() {
        mesh.x_labels(0);
    }
    mesh.draw()?;
    let count = chart.series.len() as f64;
    for (at, series) in chart.series.iter().enumerate() {
        let fill = colour(&series.policy);
        if chart.groups.is_empty() {
            let width = if series.policy == "warm" { 3 } else { 2 };
            grid.draw_series(LineSeries::new(series.values.iter().copied(), fill.stroke_width(width)))?;
            continue;
        }
        let width = 0.84 / count;
        let left = |x: f64| x - 0.42 + width * at as f64;
        grid.draw_series(
            series.values.iter().map(|(x, y)| {
                Rectangle::new([(left(*x), 0.0), (left(*x) + width * 0.92, *y)], fill.filled())
            }),
        )?;
        let marks = series.values.iter().zip(&series.published).filter_map(|((x, _), y)| Some((*x, (*y)?)));
        grid.draw_series(marks.map(|(x, y)| {
            PathElement::new(
                [(left(x) - width * 0.05, y), (left(x) + width * 0.97, y)],
                BLACK.stroke_width(2),
            )
        }))?;
    }
    let style = TextStyle::from((FONT, 14)).pos(Pos::new(HPos::Center, VPos::Top));
    for (at, group) in chart.groups.iter().enumerate() {
        let (x, y) = grid.backend_coord(&(at as f64, 0.0));
        area.draw(&Text::new((*group).to_owned(), (x, y + 6), style.clone()))?;
    }
    for (at, series) in chart.series.iter().enumerate() {
        let y = 60 + 24 * at as i32;
        legend.draw(&Rectangle::new([(6, y), (20, y + 12)], colour(&series.policy).filled()))?;
        legend.draw(&Text::new(series.policy.clone(), (27, y), (FONT, 14)))?;
    }
    area.present()?;
    drop(grid);
    Ok(())
}
