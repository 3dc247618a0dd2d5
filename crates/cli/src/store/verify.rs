//! `warmset store verify`: which parts of which files are not what was written.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use warmset_tables::{Damage, Directory};

use super::{SCHEMA, write_json};
use crate::command::printable;
use crate::progress::progress;
use warmset_platform::units;

/// Compares these names.
pub fn run(directory: &Directory, names: &[String], as_json: bool) -> io::Result<ExitCode> {
    // What cannot be read is found out when it is its turn.
    let total = names.iter().filter_map(|name| directory.entry(name).ok()).map(|entry| entry.bytes).sum();
    let bar = progress(total, false);
    let mut checked = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let mut compared_bytes = 0;
        let outcome = directory.verify(name, |bytes| {
            compared_bytes += bytes;
            bar.inc(bytes);
        });
        let outcome = outcome.map_err(|error| error.to_string());
        if !matches!(&outcome, Ok(damage) if damage.is_empty()) {
            code = ExitCode::from(1);
        }
        if as_json {
            checked.push(name_json(name, compared_bytes, &outcome));
        } else {
            bar.suspend(|| write_lines(name, compared_bytes, &outcome))?;
        }
    }
    bar.finish_and_clear();
    if as_json {
        write_json(&json!({ "schema": SCHEMA, "dir": directory.path(), "entries": checked }))?;
    }
    Ok(code)
}

fn name_json(name: &str, bytes: u64, outcome: &Result<Vec<Damage>, String>) -> Value {
    match outcome {
        Ok(found) => {
            let found: Vec<Value> = found
                .iter()
                .map(|part| json!({ "file": part.path, "offset": part.offset, "bytes": part.bytes }))
                .collect();
            json!({ "name": name, "ok": found.is_empty(), "bytes": bytes, "damage": found })
        }
        Err(problem) => json!({ "name": name, "ok": false, "bytes": bytes, "problem": problem }),
    }
}

fn write_lines(name: &str, bytes: u64, outcome: &Result<Vec<Damage>, String>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let name = printable(Path::new(name));
    match outcome {
        Ok(found) if found.is_empty() => writeln!(out, "ok   {name}  {}", units::bytes(bytes)),
        Ok(found) => found.iter().try_for_each(|part| {
            let (path, bytes, offset) = (printable(&part.path), part.bytes, part.offset);
            writeln!(out, "bad  {name}  {path}: {bytes} bytes at offset {offset} are not what was written")
        }),
        Err(problem) => writeln!(out, "bad  {name}  {}", printable(Path::new(problem))),
    }
}
