//! `warmset learn`: records a program.

use std::io::{self, Write};
use std::process::ExitCode;

use warmset_prefetch::{Learned, Options, Recorder, Store, Trigger, learn as learn_program};

use super::code_of;
use crate::args::LearnArgs;
use crate::command::{Command, printable};
use warmset_platform::units;

/// Records a program, or checks what starts its bursts if it was recorded before.
pub fn learn(wanted: &LearnArgs) -> io::Result<ExitCode> {
    let command = match Command::find(&wanted.command) {
        Ok(command) => command,
        Err(code) => return Ok(code),
    };
    let store = Store::of_user().map_err(io::Error::other)?;
    let is_pattern = wanted.pattern.is_some();
    let pattern = wanted.pattern.as_deref().map_or_else(|| command.arguments(), warmset_prefetch::words);
    let options =
        Options { user: wanted.user, exact: wanted.exact, disk_order: wanted.disk_order, is_pattern };
    let before = store.load(&Store::name(&command.program, &pattern)).ok();
    let learned = learn_program(command.invocation(), pattern, before, options).map_err(|error| {
        let name = printable(&command.program);
        io::Error::new(error.kind(), format!("cannot record {name}: {error}"))
    })?;
    let mut errors = io::stderr();
    if learned.is_whole() {
        let name = store.save(&learned.profile).map_err(io::Error::other)?;
        errors.write_all(described(&name, &learned).as_bytes())?;
    } else {
        writeln!(errors, "warmset: no profile: the program failed ({})", learned.status)?;
    }
    if learned.lost > 0 {
        writeln!(errors, "warmset: {} events were lost: some reads are not in the profile", learned.lost)?;
    }
    if learned.unknown_files > 0 {
        let (files, are) = if learned.unknown_files == 1 { ("file", "is") } else { ("files", "are") };
        let count = learned.unknown_files;
        writeln!(errors, "warmset: {count} {files} {are} left out: deleted meanwhile, or of unknown path")?;
    }
    Ok(code_of(learned.status))
}

/// What the profile holds, how it was recorded, what that may miss, and what to do next.
fn described(name: &str, learned: &Learned) -> String {
    let profile = &learned.profile;
    let (files, size) = (profile.files.len(), units::bytes(profile.bytes()));
    let how = match profile.recorder {
        Recorder::Tracepoints if profile.exact => {
            "recorded with tracepoints and by its pages in the cache".to_owned()
        }
        Recorder::Tracepoints => {
            "recorded with tracepoints: of files that are cached in large folios, parts may be missing \
             (`--exact` finds them)"
                .to_owned()
        }
        Recorder::Ptrace => {
            let reason = learned.no_tracepoints.as_ref();
            let reason = reason.map(|reason| format!(" (no tracepoints: {reason})")).unwrap_or_default();
            format!(
                "recorded with ptrace{reason}: what was mapped and unmapped again, or read by setuid programs, is missing"
            )
        }
    };
    let mut text = format!("warmset: profile {name}: {size} in {files} files; {how}\n");
    let late = profile.bursts.iter().skip(1);
    if learned.validated {
        for burst in late {
            let trigger = match &burst.trigger {
                Trigger::Launch => "fetched at launch".to_owned(),
                Trigger::File { path, nth } => {
                    format!("fetched when {} is opened (open {nth})", printable(path))
                }
                Trigger::Instruction { path, offset, .. } => {
                    format!("fetched when {}+{offset:#x} is executed", printable(path))
                }
            };
            text += &format!("warmset: burst at {} ms: {trigger}\n", burst.start_ms);
        }
    } else if late.clone().any(|burst| !burst.candidates.is_empty()) {
        let count = late.count();
        text += &format!(
            "warmset: it reads in {} bursts: run the same `warmset learn` once more to choose their triggers\n",
            count + 1
        );
    }
    text
}
