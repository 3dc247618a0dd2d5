//! A profile's reads over time, as text and as SVG.

use std::fmt::Write as _;

use warmset_prefetch::{Burst, Profile, Trigger};

use crate::units;

const COLUMNS: usize = 60;
const ROWS: usize = 6;
/// An eighth of a character cell each.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bytes per column of time.
fn histogram(profile: &Profile, columns: usize) -> (Vec<u64>, u64) {
    let end_ms = profile.reads.iter().map(|read| read.at_ms).max().unwrap_or(0);
    let end_ms = end_ms.max((profile.seconds * 1e3) as u64).max(1);
    let mut bytes = vec![0u64; columns];
    for read in &profile.reads {
        let column = (u128::from(read.at_ms) * columns as u128 / (u128::from(end_ms) + 1)) as usize;
        bytes[column] = bytes[column].saturating_add(read.bytes());
    }
    (bytes, end_ms)
}

/// What starts a burst's fetching, in a few words.
fn trigger(burst: &Burst) -> String {
    match &burst.trigger {
        Trigger::Launch => "launch".to_owned(),
        Trigger::File { path, nth } => format!("open {nth} of {}", path.display()),
        Trigger::Instruction { path, offset, .. } => format!("instruction {}+{offset:#x}", path.display()),
    }
}

/// The reads as a bar chart over time, and a line for each burst.
pub fn text(profile: &Profile) -> String {
    let (files, size) = (profile.files.len(), units::bytes(profile.bytes()));
    let mut text = format!("{} {}\n", profile.program.display(), profile.arguments.join(" "));
    let _ = writeln!(text, "{size} in {files} files; the recorded run took {:.2} s\n", profile.seconds);
    let (bytes, end_ms) = histogram(profile, COLUMNS);
    let most = bytes.iter().copied().max().unwrap_or(0).max(1);
    for row in (0..ROWS).rev() {
        let label = if row == ROWS - 1 { units::bytes(most) } else { String::new() };
        let line: String = bytes.iter().map(|&bytes| cell(bytes, most, row)).collect();
        let _ = writeln!(text, "{label:>10} │{line}");
    }
    let mut marks = vec!['─'; COLUMNS];
    for burst in profile.bursts.iter().skip(1) {
        let column = u128::from(burst.start_ms) * COLUMNS as u128 / (u128::from(end_ms) + 1);
        marks[(column as usize).min(COLUMNS - 1)] = '┴';
    }
    let _ = writeln!(text, "{:>10} └{}", "", marks.iter().collect::<String>());
    let end = format!("{end_ms} ms");
    let _ = writeln!(text, "{:>10}  0{end:>width$}\n", "", width = COLUMNS - 1);
    let _ = writeln!(text, "{:>10} {:>10} {:>10}  trigger", "start ms", "quiet ms", "size");
    for (burst, reads) in profile.divided() {
        let size = units::bytes(reads.iter().fold(0, |sum, read| sum + read.bytes()));
        let lead = burst.lead_ms.map_or_else(String::new, |lead| format!(", {lead} ms before the burst"));
        let _ = writeln!(
            text,
            "{:>10} {:>10} {size:>10}  {}{lead}",
            burst.start_ms,
            burst.quiet_ms,
            trigger(burst)
        );
    }
    text
}

/// One character of the chart.
fn cell(bytes: u64, most: u64, row: usize) -> char {
    let eighths = (u128::from(bytes) * (ROWS * 8) as u128).div_ceil(u128::from(most)) as usize;
    BLOCKS[eighths.saturating_sub(row * 8).min(8)]
}

/// The same as a drawing: reads over time, bursts shaded, and a line where each trigger fired.
pub fn svg(profile: &Profile) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 260.0;
    const MARGIN: f64 = 60.0;
    const BARS: usize = 240;
    let (bytes, end_ms) = histogram(profile, BARS);
    let most = bytes.iter().copied().max().unwrap_or(0).max(1);
    let x = |at_ms: f64| MARGIN + at_ms / end_ms as f64 * (WIDTH - MARGIN - 20.0);
    let floor = HEIGHT - 40.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{}</text>\n",
        escaped(&format!("{} {}", profile.program.display(), profile.arguments.join(" ")))
    );
    for burst in &profile.bursts {
        let (left, right) = (x(burst.start_ms as f64), x(burst.end_ms as f64));
        let width = (right - left).max(1.0);
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"40\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"#ffe8cc\"/>",
            floor - 40.0
        );
        if let Some(lead) = burst.lead_ms {
            let at = x((burst.start_ms as f64 - lead as f64).clamp(0.0, end_ms as f64));
            let _ = writeln!(
                text,
                "<line x1=\"{at:.1}\" y1=\"34\" x2=\"{at:.1}\" y2=\"{floor}\" stroke=\"#d9480f\"><title>{}</title></line>",
                escaped(&trigger(burst))
            );
        }
    }
    for (index, bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
        let left = x(index as f64 / BARS as f64 * end_ms as f64);
        let height = *bytes as f64 / most as f64 * (floor - 50.0);
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"3\" height=\"{height:.1}\" fill=\"#1c7ed6\"/>",
            floor - height
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{MARGIN}\" y1=\"{floor}\" x2=\"{}\" y2=\"{floor}\" stroke=\"black\"/>\n<text x=\"{MARGIN}\" \
         y=\"{}\">0</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{end_ms} ms</text>\n<text x=\"4\" \
         y=\"54\">{}</text>\n</svg>",
        WIDTH - 20.0,
        HEIGHT - 22.0,
        WIDTH - 20.0,
        HEIGHT - 22.0,
        units::bytes(most)
    );
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
