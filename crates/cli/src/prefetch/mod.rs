//! `warmset learn`, `warmset run` and `warmset profile`: warm starts for any program.

mod draw;
mod launch;
mod learn;

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use serde_json::json;
use warmset_prefetch::Store;

pub use launch::{run, run_early};
pub use learn::learn;

use crate::args::ProfileCommand;
use crate::command::line;
use warmset_platform::units;

const STALE_SHARE_MAX: f64 = 0.1;

/// Lists, shows, checks and removes profiles.
pub fn profile(what: &ProfileCommand) -> io::Result<ExitCode> {
    let store = Store::of_user().map_err(io::Error::other)?;
    match what {
        ProfileCommand::List { json } => list(&store, *json),
        ProfileCommand::Show { name, json, svg } => {
            let profile = store.named(name).and_then(|name| store.load(&name)).map_err(io::Error::other)?;
            if let Some(path) = svg {
                return std::fs::write(path, draw::svg(&profile))
                    .map(|()| ExitCode::SUCCESS)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
            let text = if *json {
                serde_json::to_string_pretty(&json!({ "schema": 2, "profile": profile }))? + "\n"
            } else {
                draw::text(&profile)
            };
            io::stdout().write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ProfileCommand::Check => check(&store),
        ProfileCommand::Rm { names } => {
            for name in names {
                store.named(name).and_then(|name| store.remove(&name)).map_err(io::Error::other)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(store: &Store, as_json: bool) -> io::Result<ExitCode> {
    let mut rows = Vec::new();
    let mut failed = false;
    for name in store.names().map_err(io::Error::other)? {
        match store.load(&name) {
            Ok(profile) => rows.push((name, profile)),
            Err(error) => {
                writeln!(io::stderr(), "warmset: {error}")?;
                failed = true;
            }
        }
    }
    let mut out = io::stdout().lock();
    if as_json {
        let rows = rows.iter().map(|(name, profile)| {
            let (program, arguments, bytes) = (&profile.program, &profile.arguments, profile.bytes());
            json!({ "name": name, "program": program, "arguments": arguments, "bytes": bytes })
        });
        let rows: Vec<_> = rows.collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&json!({ "schema": 1, "profiles": rows }))?)?;
    } else {
        for (name, profile) in &rows {
            writeln!(out, "{name}  {}  {}", units::bytes(profile.bytes()), line(profile))?;
        }
    }
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn check(store: &Store) -> io::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for name in store.names().map_err(io::Error::other)? {
        match store.load(&name) {
            Ok(profile) => {
                let stale = profile.stale_bytes() as f64 / profile.bytes().max(1) as f64;
                let advice = if stale > STALE_SHARE_MAX { ": run `warmset learn` again" } else { "" };
                writeln!(io::stdout(), "{name}  {:.0} % of its bytes have changed{advice}", stale * 100.0)?;
                if stale > STALE_SHARE_MAX {
                    code = ExitCode::from(1);
                }
            }
            Err(error) => {
                writeln!(io::stdout(), "{error}")?;
                code = ExitCode::from(1);
            }
        }
    }
    Ok(code)
}

/// What a shell makes of it: 128 and the signal for a program that a signal ended.
pub fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
