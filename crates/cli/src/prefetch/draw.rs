//! A profile's reads over time, as text and as SVG.

use std::fmt::Write as _;

use warmset_prefetch::{Burst, Profile, Trigger, total_bytes};

use crate::command::{line, printable};
use warmset_platform::units;

const COLUMNS: usize = 60;
const ROWS: usize = 6;
/// An eighth of a character cell each.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The end of the axis of time: the last read, or the end of the run.
fn end_ms(profile: &Profile) -> u64 {
    let last_ms = profile.reads.iter().map(|read| read.at_ms).max().unwrap_or(0);
    last_ms.max((profile.seconds * 1e3) as u64).max(1)
}

/// Bytes per column of time.
fn histogram(profile: &Profile, columns: usize) -> Vec<u64> {
    let end_ms = end_ms(profile);
    let mut bytes = vec![0u64; columns];
    for read in &profile.reads {
        let column = (u128::from(read.at_ms) * columns as u128 / (u128::from(end_ms) + 1)) as usize;
        bytes[column] = bytes[column].saturating_add(read.bytes());
    }
    bytes
}

/// What starts a burst's fetching, in a few words.
fn trigger(burst: &Burst) -> String {
    match &burst.trigger {
        Trigger::Launch => "launch".to_owned(),
        Trigger::File { path, nth } => format!("open {nth} of {}", printable(path)),
        Trigger::Instruction { path, offset, .. } => format!("instruction {}+{offset:#x}", printable(path)),
    }
}

/// The reads as a bar chart over time, and a line for each burst.
pub fn text(profile: &Profile) -> String {
    let (files, size) = (profile.files.len(), units::bytes(profile.bytes()));
    let mut text = line(profile) + "\n";
    let _ = writeln!(text, "{size} in {files} files; the recorded run took {:.2} s\n", profile.seconds);
    let (bytes, end_ms) = (histogram(profile, COLUMNS), end_ms(profile));
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
        let size = units::bytes(total_bytes(reads));
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
    const BARS_MAX: u64 = 240;
    let end_ms = end_ms(profile);
    let bars = end_ms.min(BARS_MAX) as usize;
    let bytes = histogram(profile, bars);
    let most = bytes.iter().copied().max().unwrap_or(0).max(1);
    let scale = (WIDTH - MARGIN - 20.0) / end_ms as f64;
    // Bursts of a profile that somebody made up may lie outside of the run.
    let x = |at_ms: f64| MARGIN + at_ms.clamp(0.0, end_ms as f64) * scale;
    let bar_ms = end_ms as f64 / bars as f64;
    let floor = HEIGHT - 40.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{}</text>\n",
        escaped(&line(profile))
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
            let at = x(burst.start_ms as f64 - lead as f64);
            let _ = writeln!(
                text,
                "<line x1=\"{at:.1}\" y1=\"34\" x2=\"{at:.1}\" y2=\"{floor}\" stroke=\"#d9480f\"><title>{}</title></line>",
                escaped(&trigger(burst))
            );
        }
    }
    for (index, bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
        let left = x(index as f64 * bar_ms);
        let width = (bar_ms * scale - 0.5).max(1.0);
        let height = *bytes as f64 / most as f64 * (floor - 50.0);
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#1c7ed6\"/>",
            floor - height
        );
    }
    let (right, below) = (WIDTH - 20.0, HEIGHT - 22.0);
    let _ = writeln!(
        text,
        "<line x1=\"{MARGIN}\" y1=\"{floor}\" x2=\"{right}\" y2=\"{floor}\" stroke=\"black\"/>\n\
         <text x=\"{MARGIN}\" y=\"{below}\">0</text>\n\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{end_ms} ms</text>\n\
         <text x=\"4\" y=\"54\">{most}</text>\n\
         <text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">blue: bytes per {bar_ms:.1} ms; shaded: bursts; \
         orange line: a burst's trigger</text>\n</svg>",
        most = units::bytes(most),
        middle = WIDTH / 2.0,
    );
    text
}

/// As the content of an element; XML has no way to write most control characters.
fn escaped(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use warmset_prefetch::{FileRecord, Read, Recorder};

    use super::*;

    /// A profile that anybody may have written: it passes the parser.
    fn malicious() -> Profile {
        let mtime_ns = 0;
        let (device, inode, size_bytes, rotational) = (0, 0, u64::MAX, false);
        let file = FileRecord { path: "/nowhere".into(), device, inode, size_bytes, mtime_ns, rotational };
        let read = |at_ms| Read { file: 0, start: 0, end: u64::MAX, at_ms, disk_offset: 0 };
        let trigger = Trigger::File { path: PathBuf::from("/\u{1b}[2J<&\n"), nth: 1 };
        let burst = |start_ms, lead_ms| Burst {
            reads: 2,
            start_ms,
            end_ms: 0,
            quiet_ms: u64::MAX,
            trigger: trigger.clone(),
            candidates: Vec::new(),
            lead_ms: Some(lead_ms),
        };
        let profile = Profile {
            program: PathBuf::from("/bin/\u{7}x"),
            arguments: vec!["</svg>\u{0}\u{1b}]0;title\u{7}\n".to_owned()],
            is_pattern: false,
            recorder: Recorder::Ptrace,
            exact: false,
            disk_order: false,
            seconds: f64::MAX,
            files: vec![file],
            reads: vec![read(0), read(u64::MAX), read(1), read(1)],
            bursts: vec![burst(u64::MAX, i64::MIN), burst(0, i64::MAX)],
        };
        Profile::parse(&profile.to_bytes().unwrap()).unwrap()
    }

    #[test]
    fn a_malicious_profile_is_drawn_inside_of_its_frame() {
        let profile = malicious();
        let text = text(&profile);
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
        let drawing = svg(&profile);
        assert!(!drawing.contains(|letter: char| letter.is_control() && letter != '\n'), "{drawing:?}");
        assert_eq!(drawing.matches("</svg>").count(), 1);
        for place in drawing.split(" x=\"").skip(1) {
            let at: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=900.0).contains(&at), "{at} in {drawing}");
        }
    }
}
