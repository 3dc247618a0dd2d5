//! `warmset sim`: placement policies on tiered memory, simulated.

mod published;
mod scenario;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use warmset_sim::{SHIPPED, Scenario, Shipped};

use crate::args::SimArgs;

/// The largest scenario file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs the simulations and writes tables, JSON and charts.
pub fn run(args: &SimArgs) -> io::Result<ExitCode> {
    if args.list {
        return list();
    }
    if let Some(directory) = &args.svg {
        fs::create_dir_all(directory).map_err(|error| named(&directory.display().to_string(), &error))?;
    }
    let threads =
        args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    match &args.scenario {
        None => published::run(args, threads)?,
        Some(name) => {
            let text = read(name)?;
            if args.show {
                io::stdout().lock().write_all(text.as_bytes())?;
                return Ok(ExitCode::SUCCESS);
            }
            let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"));
            let mut known = Scenario::parse(&text).map_err(wrong)?;
            known.seed = args.seed.unwrap_or(known.seed);
            scenario::run(args, &known, threads)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a shipped scenario, or of a file.
fn read(name: &str) -> io::Result<String> {
    if let Some(known) = SHIPPED.iter().find(|known| known.name == name) {
        return Ok(known.text.into());
    }
    let length = match fs::metadata(name) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!(
                "{name}: no such file, and no scenario of that name; `warmset sim --list` lists them"
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Err(error) => return Err(named(name, &error)),
    };
    if length > FILE_BYTES_MAX {
        let text = format!("{name}: {length} bytes; a scenario has at most {FILE_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    fs::read_to_string(name).map_err(|error| named(name, &error))
}

fn named(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

fn list() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for Shipped { name, text, .. } in SHIPPED {
        let about = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        writeln!(out, "{name:<18} {about}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Names the charts that were written, on stderr.
fn say_charts(files: &[std::path::PathBuf]) {
    for file in files {
        let _ = writeln!(io::stderr(), "chart: {}", file.display());
    }
}
