//! `warmset learn`, `warmset run` and `warmset profile`: warm starts for any program.

use std::env;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::json;
use warmset_platform::detach::detached;
use warmset_platform::sysinfo::{Root, memory};
use warmset_prefetch::{Profile, Store, bursts, fetch, record};

use crate::args::ProfileCommand;
use crate::units;

/// What a shell returns for a program that is not found.
pub const NOT_FOUND: u8 = 127;
/// Part of the memory that is available which a start may fill.
const MEMORY_SHARE: u64 = 4;
const STALE_SHARE_MAX: f64 = 0.1;
const BAR_COLUMNS: usize = 50;

/// Records a program.
pub fn learn(command: &[String]) -> io::Result<ExitCode> {
    let Some(program) = found(&command[0]) else { return Ok(not_found(&command[0])) };
    let store = Store::of_user().map_err(io::Error::other)?;
    let recorded = record(program, command[1..].to_vec()).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::other(
            "recording uses the kernel's page-cache tracepoints and fanotify, which need root: run it with sudo and \
             XDG_DATA_HOME set to your own ~/.local/share",
        ),
        _ => io::Error::new(error.kind(), format!("cannot record {}: {error}", command[0])),
    })?;
    let mut errors = io::stderr();
    if recorded.status.success() {
        let name = store.save(&recorded.profile).map_err(io::Error::other)?;
        let (files, size) = (recorded.profile.files.len(), units::bytes(recorded.profile.bytes()));
        writeln!(
            errors,
            "warmset: profile {name}: {size} in {files} files; recorded with tracepoints, as root"
        )?;
    } else {
        writeln!(errors, "warmset: no profile: the program failed ({})", recorded.status)?;
    }
    if recorded.lost > 0 {
        writeln!(errors, "warmset: {} events were lost: some reads are not in the profile", recorded.lost)?;
    }
    if recorded.unknown_files > 0 {
        writeln!(
            errors,
            "warmset: {} files are left out: their paths are not known",
            recorded.unknown_files
        )?;
    }
    Ok(code_of(recorded.status))
}

/// Starts a program while its profile is fetched. Returns only if the program could not be started.
pub fn run(command: &[String]) -> io::Result<ExitCode> {
    let Some(program) = found(&command[0]) else { return Ok(not_found(&command[0])) };
    let name = Store::name(&program, &command[1..]);
    match Store::of_user() {
        Ok(store) if store.path(&name).exists() => {
            let started = detached(move || fetch_profile(&store, &name));
            if let Err(error) = started {
                let _ = writeln!(io::stderr(), "warmset: {} runs without prefetching: {error}", command[0]);
            }
        }
        Ok(_) => {
            let line = command.join(" ");
            let _ = writeln!(io::stderr(), "warmset: no profile yet; to record one: warmset learn -- {line}");
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "warmset: {} runs without prefetching: {error}", command[0]);
        }
    }
    let error = Command::new(&program).arg0(&command[0]).args(&command[1..]).exec();
    writeln!(io::stderr(), "warmset: cannot start {}: {error}", program.display())?;
    Ok(ExitCode::from(NOT_FOUND - 1))
}

/// Reads the profile here, beside the program's own start. What is wrong with it `warmset profile check` says.
fn fetch_profile(store: &Store, name: &str) {
    let available = memory::read(&Root::live()).available_bytes.unwrap_or(0);
    if let Ok(profile) = store.load(name) {
        let _ = fetch(&profile, available / MEMORY_SHARE);
    }
}

/// Lists, shows, checks and removes profiles.
pub fn profile(what: &ProfileCommand) -> io::Result<ExitCode> {
    let store = Store::of_user().map_err(io::Error::other)?;
    match what {
        ProfileCommand::List { json } => list(&store, *json),
        ProfileCommand::Show { name, json } => {
            let profile = store.load(name).map_err(io::Error::other)?;
            let text = if *json {
                serde_json::to_string_pretty(&json!({ "schema": 1, "profile": profile }))? + "\n"
            } else {
                drawn(&profile)
            };
            io::stdout().write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ProfileCommand::Check => check(&store),
        ProfileCommand::Rm { names } => {
            for name in names {
                store.remove(name).map_err(io::Error::other)?;
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
            let (size, program) = (units::bytes(profile.bytes()), profile.program.display());
            writeln!(out, "{name}  {size}  {program} {}", profile.arguments.join(" "))?;
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

/// The bursts, a line each, with a bar as long as their share of the bytes.
fn drawn(profile: &Profile) -> String {
    let total = profile.bytes().max(1);
    let (files, size) = (profile.files.len(), units::bytes(profile.bytes()));
    let mut text = format!("{} {}\n", profile.program.display(), profile.arguments.join(" "));
    let _ = writeln!(text, "{size} in {files} files; the recorded run took {:.2} s", profile.seconds);
    let _ = writeln!(text, "{:>10} {:>10} {:>10}  burst", "start ms", "quiet ms", "size");
    for burst in bursts(profile) {
        let columns = (burst.bytes as f64 / total as f64 * BAR_COLUMNS as f64).ceil() as usize;
        let (size, bar) = (units::bytes(burst.bytes), "#".repeat(columns.min(BAR_COLUMNS)));
        let _ = writeln!(text, "{:>10} {:>10} {size:>10}  {bar}", burst.start_ms, burst.quiet_ms);
    }
    text
}

/// The program as the shell would find it.
pub fn found(name: &str) -> Option<PathBuf> {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(|path| runs(path));
    }
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(name)).find(|path| runs(path))
}

pub fn not_found(name: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "warmset: {name}: there is no such program on the PATH");
    ExitCode::from(NOT_FOUND)
}

/// What a shell makes of it: 128 and the signal for a program that a signal ended.
fn code_of(status: std::process::ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
