//! `warmset top`: the stores, tiering and prefetching of the programs on this machine.
//!
//! Invariant: it reads what programs publish, and changes nothing of theirs.

mod args;
mod live;
mod machine;
mod metrics;
mod rates;
mod sections;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use warmset_platform::status;

pub use args::TopArgs;
use live::Live;
use machine::{Machine, Of, StoreStatus};
use rates::History;
use sections::{Choice, Section};

use crate::command::printable;
use crate::tier::replace;

/// Version of the JSON records.
const SCHEMA: u32 = 1;
/// Looks after which `--once` does without the rates of programs that publish more slowly.
const LOOKS_MAX: u64 = 5;
/// How long a signal that asks to end waits for an answer at most.
const STEP: Duration = Duration::from_millis(50);

/// Shows what there is until it is told to end.
pub fn run(wanted: &TopArgs) -> io::Result<ExitCode> {
    let is_live = !wanted.once && !wanted.json && io::stdout().is_terminal();
    if !is_live && !wanted.once && !wanted.json && wanted.metrics.is_none() {
        return Err(io::Error::other("stdout is no terminal: use --once, --json or --metrics FILE"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let choice = Choice { sort: wanted.sort, reversed: false, filter: wanted.filter.clone() };
    let mut view = if is_live { Some(Live::start(choice.clone())?) } else { None };
    let mut looks = Looks::default();
    let interval = Duration::from_millis(wanted.interval);
    while !stop.load(Ordering::Relaxed) {
        looks.look();
        // Rates are of two looks at what a program has written again.
        let waits = wanted.once && looks.count < LOOKS_MAX && looks.lacks_rates(&choice);
        if !waits {
            if let Some(path) = &wanted.metrics {
                replace(path, &metrics::prometheus(&looks.machine))?;
            }
            if wanted.json {
                write_record(&choice, &looks)?;
            } else if wanted.once {
                write_tables(&choice, &looks)?;
            }
            if wanted.once {
                break;
            }
        }
        let until = Instant::now() + interval;
        match &mut view {
            Some(view) => {
                if view.show_until(&looks, until, &stop)? {
                    break;
                }
            }
            None => wait(until, &stop),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was seen.
#[derive(Default)]
struct Looks {
    machine: Machine,
    history: History,
    count: u64,
}

impl Looks {
    fn look(&mut self) {
        self.machine = Machine::read(status::read());
        self.history.add(&self.machine);
        self.count += 1;
    }

    fn lacks_rates(&self, choice: &Choice) -> bool {
        let lacks = |store: &&Of<StoreStatus>| !store.process.late && self.history.rates(store).is_none();
        choice.stores(&self.machine, &self.history).iter().any(lacks)
    }
}

fn wait(until: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(STEP));
    }
}

fn write_record(choice: &Choice, looks: &Looks) -> io::Result<()> {
    let machine = &looks.machine;
    let store = |store: &&Of<StoreStatus>| -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(store)?;
        value["rates"] = serde_json::to_value(looks.history.rates(store))?;
        Ok(value)
    };
    let shown = choice.stores(machine, &looks.history);
    let stores = shown.iter().map(store).collect::<Result<Vec<_>, _>>()?;
    let record = json!({
        "schema": SCHEMA, "stores": stores, "splits": choice.splits(machine, &shown), "tiers": choice.tiers(machine),
        "prefetches": choice.prefetches(machine), "problems": machine.problems,
    });
    let mut out = io::stdout().lock();
    writeln!(out, "{record}")?;
    out.flush()
}

fn write_tables(choice: &Choice, looks: &Looks) -> io::Result<()> {
    for problem in &looks.machine.problems {
        writeln!(io::stderr(), "warmset: {}", printable(Path::new(problem)))?;
    }
    let sections = choice.sections(&looks.machine, &looks.history);
    if sections.is_empty() {
        return writeln!(io::stderr(), "warmset: {}", nothing(choice));
    }
    let mut out = io::stdout().lock();
    for (n, section) in sections.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        write_table(&mut out, section)?;
    }
    out.flush()
}

/// Why there are no rows.
fn nothing(choice: &Choice) -> String {
    if choice.filter.is_empty() {
        "no store, tiering or prefetching of this user is running (root sees those of all users)".to_owned()
    } else {
        format!("nothing has `{}` in its program, process or directory", printable(Path::new(&choice.filter)))
    }
}

fn write_table(out: &mut impl Write, section: &Section) -> io::Result<()> {
    writeln!(out, "{}", section.title)?;
    let shown = section.fit(usize::MAX / 2);
    let heads: Vec<String> = section.columns.iter().map(|column| column.head.to_owned()).collect();
    for row in [&heads].into_iter().chain(&section.rows) {
        let cells = shown.iter().map(|&(n, width)| {
            let room = " ".repeat(width.saturating_sub(sections::width(&row[n])));
            if section.columns[n].right { format!("{room}{}", row[n]) } else { format!("{}{room}", row[n]) }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
