//! `warmset store ls`: one line for each table or array.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use warmset_tables::{Directory, Entry, Kind};

use super::{SCHEMA, time, write_json};
use crate::command::printable;
use warmset_platform::units;

/// Columns of a table that a line names.
const COLUMNS_MAX: usize = 4;

/// Lists these names.
pub fn run(directory: &Directory, names: &[String], as_json: bool) -> io::Result<ExitCode> {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        match directory.entry(name) {
            Ok(entry) => entries.push((name.as_str(), entry)),
            Err(error) => problems.push((name, error.to_string())),
        }
    }
    if as_json {
        let entries: Vec<Value> = entries.iter().map(|(name, entry)| entry_json(name, entry)).collect();
        let listed = problems.iter().map(|(name, problem)| json!({ "name": name, "problem": problem }));
        let listed: Vec<Value> = listed.collect();
        let dir = directory.path();
        write_json(&json!({ "schema": SCHEMA, "dir": dir, "entries": entries, "unreadable": listed }))?;
    } else {
        write_lines(&entries)?;
        for (_, problem) in &problems {
            writeln!(io::stderr(), "warmset: {}", printable(Path::new(problem)))?;
        }
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn entry_json(name: &str, entry: &Entry) -> Value {
    let mut value = json!({
        "name": name, "rows": entry.rows, "bytes": entry.bytes, "file_bytes": entry.file_bytes,
        "modified": time(entry.modified),
    });
    match (&entry.array, entry.kind) {
        (Some(array), Kind::Array) => {
            value["kind"] = json!("array");
            value["dtype"] = json!(array.dtype);
            value["shape"] = json!(array.shape);
        }
        _ => {
            let columns = entry.schema.fields().iter().map(|field| {
                let (name, kind) = (field.name(), field.data_type().to_string());
                json!({ "name": name, "type": kind, "nullable": field.is_nullable() })
            });
            value["kind"] = json!("table");
            value["columns"] = columns.collect();
        }
    }
    value
}

fn write_lines(entries: &[(&str, Entry)]) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let head = ["name", "kind", "rows", "bytes", "written", "columns, or type and shape"].map(str::to_owned);
    let lines = entries.iter().map(|(name, entry)| {
        [
            printable(Path::new(name)),
            match entry.kind {
                Kind::Table => "table".to_owned(),
                Kind::Array => "array".to_owned(),
            },
            entry.rows.to_string(),
            units::bytes(entry.bytes),
            time(entry.modified),
            printable(Path::new(&shape(entry))),
        ]
    });
    let lines: Vec<[String; 6]> = [head].into_iter().chain(lines).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut out = io::stdout().lock();
    for [name, kind, rows, bytes, written, shape] in &lines {
        let [name_width, kind_width, rows_width, bytes_width, written_width, _] = widths;
        writeln!(
            out,
            "{name:name_width$}  {kind:kind_width$}  {rows:>rows_width$}  {bytes:>bytes_width$}  \
             {written:written_width$}  {shape}"
        )?;
    }
    out.flush()
}

/// The first columns of a table, or an array's type and shape.
fn shape(entry: &Entry) -> String {
    if let Some(array) = &entry.array {
        let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
        return format!("{} [{}]", array.dtype, shape.join(", "));
    }
    let fields = entry.schema.fields();
    let columns: Vec<String> = fields
        .iter()
        .take(COLUMNS_MAX)
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    let more = match fields.len().saturating_sub(COLUMNS_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    columns.join(", ") + &more
}
