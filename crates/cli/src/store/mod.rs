//! `warmset store`: the tables and arrays of a store's directory.
//!
//! Invariant: only `rm` changes anything, and only what it names.

mod args;
mod ls;
mod verify;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use warmset_tables::Directory;

pub use args::StoreCommand;

use crate::command::printable;
use warmset_platform::units;

/// Version of the JSON of `ls` and `verify`.
const SCHEMA: u32 = 1;

/// Does what was asked for.
pub fn run(what: &StoreCommand) -> io::Result<ExitCode> {
    match what {
        StoreCommand::Ls { dir, name, json } => {
            let (directory, names) = find(dir, name.as_deref())?;
            ls::run(&directory, &names, *json)
        }
        StoreCommand::Verify { dir, name, json } => {
            let (directory, names) = find(dir, name.as_deref())?;
            verify::run(&directory, &names, *json)
        }
        StoreCommand::Rm { dir, names, all } => {
            let (directory, found) = find(dir, None)?;
            remove(&directory, &found, if *all { &found } else { names })
        }
    }
}

/// A store's directory, and the names that are meant: one, or all.
fn find(dir: &Path, name: Option<&str>) -> io::Result<(Directory, Vec<String>)> {
    let directory = Directory::find(dir).map_err(io::Error::other)?;
    let names = directory.names().map_err(io::Error::other)?;
    match name {
        None => Ok((directory, names)),
        Some(name) => {
            check(&directory, &names, name)?;
            Ok((directory, vec![name.to_owned()]))
        }
    }
}

fn check(directory: &Directory, names: &[String], name: &str) -> io::Result<()> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let (name, dir) = (printable(Path::new(name)), printable(directory.path()));
    Err(io::Error::other(format!("there is no `{name}` in {dir}: `warmset store ls` lists what there is")))
}

fn remove(directory: &Directory, known: &[String], names: &[String]) -> io::Result<ExitCode> {
    names.iter().try_for_each(|name| check(directory, known, name))?;
    let mut left = names.to_vec();
    left.sort();
    left.dedup();
    for name in left {
        // A damaged file, or what is none, goes as well.
        let size = directory.entry(&name).map(|entry| format!(", {}", units::bytes(entry.file_bytes)));
        directory.remove(&name).map_err(io::Error::other)?;
        let name = printable(Path::new(&name));
        writeln!(io::stderr(), "warmset: removed {name}{}", size.unwrap_or_default())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A time in UTC, to the second.
fn time(at: std::time::SystemTime) -> String {
    let printer = DateTimePrinter::new().precision(Some(0));
    Timestamp::try_from(at).map_or_else(|_| "-".to_owned(), |at| printer.timestamp_to_string(&at))
}

fn write_json(value: &serde_json::Value) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::time;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(UNIX_EPOCH + Duration::from_millis(1_764_000_000_999)), "2025-11-24T16:00:00Z");
        assert_eq!(time(UNIX_EPOCH + Duration::from_secs(1 << 50)), "-");
    }
}
