//! Status as tables of text: the terminal view and `--once` show the same.
//!
//! Invariant: nothing in a cell moves the cursor or ends the line, whatever a program says of itself.

use std::cmp::{Ordering, Reverse};
use std::path::Path;

use warmset_tiering::Report;

use super::args::SortKey;
use super::machine::{
    Machine, Of, PrefetchStatus, Process, RegionStatus, SplitStatus, StoreStatus, TierStatus,
};
use super::rates::{History, Rates};
use crate::command::printable;
use crate::units;

/// Between two columns.
const GAP: usize = 2;
/// A cell is cut at so many letters.
const CELL_MAX: usize = 40;

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What is above it.
    pub head: &'static str,
    /// Where there is no room, the largest go first; 0 never goes.
    pub rank: u8,
    /// Numbers are set to the right.
    pub right: bool,
}

const fn number(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: true }
}

const fn text(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: false }
}

/// A table of text.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many cells in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Section {
    /// Which columns there is room for, and how wide each is.
    pub fn fit(&self, room: usize) -> Vec<(usize, usize)> {
        let width = |n: usize| {
            let cells = self.rows.iter().map(|row| row[n].chars().count());
            cells.chain([self.columns[n].head.len()]).max().unwrap_or(0)
        };
        let mut shown: Vec<(usize, usize)> = (0..self.columns.len()).map(|n| (n, width(n))).collect();
        while shown.iter().map(|(_, width)| width + GAP).sum::<usize>() > room + GAP {
            let Some(worst) = shown.iter().map(|(n, _)| self.columns[*n].rank).max().filter(|rank| *rank > 0)
            else {
                break;
            };
            shown.retain(|(n, _)| self.columns[*n].rank != worst);
        }
        shown
    }
}

/// Which rows, and in which order.
#[derive(Debug, Clone)]
pub struct Choice {
    /// What comes first.
    pub sort: SortKey,
    /// The other way round.
    pub reversed: bool,
    /// Only rows that have this.
    pub filter: String,
}

impl Choice {
    fn has(&self, process: &Process, more: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        let pid = process.pid.to_string();
        let mut texts = [process.program.as_str(), pid.as_str()].into_iter().chain(more.iter().copied());
        texts.any(|text| text.to_lowercase().contains(&wanted))
    }

    /// The stores that are shown, in order.
    pub fn stores<'a>(&self, machine: &'a Machine, history: &History) -> Vec<&'a Of<StoreStatus>> {
        let dirs = |store: &Of<StoreStatus>| store.status.dirs.join(" ");
        let has = |store: &&Of<StoreStatus>| self.has(&store.process, &[&dirs(store), &store.status.user]);
        let mut stores: Vec<&Of<StoreStatus>> = machine.stores.iter().filter(has).collect();
        let rate = |store: &Of<StoreStatus>, rate: fn(&Rates) -> f64| history.rates(store).map_or(0.0, rate);
        let order = |a: &&Of<StoreStatus>, b: &&Of<StoreStatus>| -> Ordering {
            let first = match self.sort {
                SortKey::Used => b.status.used_bytes.cmp(&a.status.used_bytes),
                SortKey::Cached => b.status.live_bytes.cmp(&a.status.live_bytes),
                SortKey::Wait => {
                    rate(b, |rates| rates.wait_s_per_s).total_cmp(&rate(a, |rates| rates.wait_s_per_s))
                }
                SortKey::Read => rate(b, |rates| rates.read_bytes_per_s)
                    .total_cmp(&rate(a, |rates| rates.read_bytes_per_s)),
                SortKey::Pid => a.process.pid.cmp(&b.process.pid),
            };
            let first = if self.reversed { first.reverse() } else { first };
            first.then_with(|| (a.process.pid, a.status.store).cmp(&(b.process.pid, b.status.store)))
        };
        stores.sort_by(order);
        stores
    }

    /// The processes that are shown.
    pub fn tiers<'a>(&self, machine: &'a Machine) -> Vec<&'a Of<TierStatus>> {
        let has = |tier: &&Of<TierStatus>| {
            self.has(&tier.process, &[&tier.status.target_name, &tier.status.target_pid.to_string()])
        };
        let mut tiers: Vec<&Of<TierStatus>> = machine.tiers.iter().filter(has).collect();
        tiers.sort_by_key(|tier| tier.status.target_pid);
        tiers
    }

    /// The programs that are shown.
    pub fn prefetches<'a>(&self, machine: &'a Machine) -> Vec<&'a Of<PrefetchStatus>> {
        let has = |fetch: &&Of<PrefetchStatus>| {
            self.has(&fetch.process, &[&fetch.status.program, &fetch.status.target_pid.to_string()])
        };
        let mut prefetches: Vec<&Of<PrefetchStatus>> = machine.prefetches.iter().filter(has).collect();
        prefetches.sort_by_key(|fetch| fetch.status.target_pid);
        prefetches
    }

    /// All but regions: what there is something of.
    pub fn sections(&self, machine: &Machine, history: &History) -> Vec<Section> {
        let stores = self.stores(machine, history);
        let (tiers, prefetches) = (self.tiers(machine), self.prefetches(machine));
        let sections =
            [stores_section(&stores, machine, history), tiers_section(&tiers), prefetch_section(&prefetches)];
        sections.into_iter().filter(|section| !section.rows.is_empty()).collect()
    }
}

fn cell(text: &str) -> String {
    let text = printable(Path::new(text));
    let letters = text.chars().count();
    if letters <= CELL_MAX {
        return text;
    }
    // The end of a path tells more.
    let end: String = text.chars().skip(letters - CELL_MAX + 3).collect();
    format!("...{end}")
}

fn program(process: &Process, name: &str) -> String {
    cell(&format!("{name}{}", if process.late { " (not answering)" } else { "" }))
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.0} %", part as f64 / of as f64 * 100.0) }
}

fn per_s(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| units::bytes(rate as u64))
}

fn optional(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), units::bytes)
}

/// Stores in this order.
pub fn stores_section(stores: &[&Of<StoreStatus>], machine: &Machine, history: &History) -> Section {
    let columns = vec![
        number("pid", 0),
        text("program", 0),
        text("directory", 2),
        number("used", 0),
        number("budget", 1),
        number("huge", 3),
        number("cached", 0),
        number("in memory", 1),
        number("on disk", 4),
        number("hits", 0),
        number("read/s", 1),
        number("written/s", 4),
        number("waiting", 1),
        number("moved/s", 5),
        number("regions", 5),
        number("heap", 3),
        number("heap limit", 4),
    ];
    let rows = stores.iter().map(|store| {
        let (status, rates) = (&store.status, history.rates(store));
        let split: Option<&SplitStatus> = machine.split_of(&store.process);
        let hits = rates.and_then(|rates| rates.hit_ratio);
        let moved = rates.map(|rates| rates.promotions_per_s + rates.demotions_per_s);
        vec![
            store.process.pid.to_string(),
            program(&store.process, &store.process.program),
            cell(&status.dirs.join(", ")),
            units::bytes(status.used_bytes),
            units::bytes(status.budget_bytes),
            percent(status.huge_bytes, status.pool_bytes),
            units::bytes(status.live_bytes),
            percent(status.resident_bytes, status.live_bytes),
            units::bytes(status.flash_bytes),
            hits.map_or_else(|| "-".to_owned(), |hits| format!("{:.0} %", hits * 100.0)),
            per_s(rates.map(|rates| rates.read_bytes_per_s)),
            per_s(rates.map(|rates| rates.written_bytes_per_s)),
            rates.map_or_else(|| "-".to_owned(), |rates| format!("{:.0} ms/s", rates.wait_s_per_s * 1e3)),
            moved.map_or_else(|| "-".to_owned(), |moved| format!("{moved:.0}")),
            status.regions.to_string(),
            optional(split.map(|split| split.heap_committed_bytes)),
            optional(split.map(|split| split.heap_allowed_bytes)),
        ]
    });
    let mut section = Section { title: "Stores".to_owned(), columns, rows: rows.collect() };
    if machine.splits.is_empty() {
        // The last two.
        section.columns.truncate(section.columns.len() - 2);
        section.rows.iter_mut().for_each(|row| row.truncate(section.columns.len()));
    }
    section
}

/// The regions of a store, the largest first.
pub fn regions_section(store: &Of<StoreStatus>) -> Section {
    let status = &store.status;
    let columns = vec![
        text("region", 0),
        number("cached", 0),
        number("in memory", 0),
        number("on disk", 1),
        number("segments", 2),
        number("held", 2),
    ];
    let mut regions: Vec<&RegionStatus> = status.largest_regions.iter().collect();
    regions.sort_by_key(|region| (Reverse(region.bytes), region.id));
    let rows = regions.iter().map(|region| {
        vec![
            region.name.as_deref().map_or_else(|| format!("#{}", region.id), cell),
            units::bytes(region.bytes),
            percent(region.resident_bytes, region.bytes),
            units::bytes(region.file_bytes),
            region.segments.to_string(),
            region.pins.to_string(),
        ]
    });
    let (program, pid) = (cell(&store.process.program), store.process.pid);
    let shown = match status.regions as usize {
        all if all > regions.len() => format!("the {} largest of {all} regions", regions.len()),
        1 => "1 region".to_owned(),
        all => format!("{all} regions"),
    };
    Section { title: format!("{program} ({pid}): {shown}"), columns, rows: rows.collect() }
}

fn nodes(last: &Report) -> String {
    let node = |tier: &warmset_tiering::TierReport| {
        let latency = tier.latency_ns.map_or_else(String::new, |ns| format!(" {ns:.0} ns,"));
        format!("{}:{latency} {:.0} %, {}", tier.node, tier.share * 100.0, units::bytes(tier.resident_bytes))
    };
    last.tiers.iter().map(node).collect::<Vec<_>>().join("; ")
}

/// Processes whose pages are placed.
pub fn tiers_section(tiers: &[&Of<TierStatus>]) -> Section {
    let columns = vec![
        number("pid", 0),
        text("program", 0),
        text("policy", 2),
        text("nodes: latency, accesses, memory", 0),
        number("promoted", 0),
        number("demoted", 0),
        number("decisions", 2),
    ];
    let rows = tiers.iter().map(|tier| {
        let status = &tier.status;
        let dry_run = if status.dry_run { " (dry run)" } else { "" };
        vec![
            status.target_pid.to_string(),
            program(&tier.process, &status.target_name),
            cell(&format!("{}{dry_run}", status.policy)),
            nodes(&status.last),
            units::bytes(status.counters.promoted_bytes),
            units::bytes(status.counters.demoted_bytes),
            status.counters.quanta.to_string(),
        ]
    });
    Section { title: "Tiering".to_owned(), columns, rows: rows.collect() }
}

/// Programs whose files are fetched.
pub fn prefetch_section(prefetches: &[&Of<PrefetchStatus>]) -> Section {
    let columns = vec![
        number("pid", 0),
        text("program", 0),
        number("profile", 0),
        number("fetched", 0),
        number("changed files", 1),
        number("triggers left", 1),
        number("fired", 2),
    ];
    let rows = prefetches.iter().map(|fetch| {
        let status = &fetch.status;
        vec![
            status.target_pid.to_string(),
            program(&fetch.process, &status.program),
            units::bytes(status.bytes),
            units::bytes(status.fetched_bytes),
            units::bytes(status.stale_bytes),
            status.triggers_waiting.to_string(),
            status.triggers_fired.to_string(),
        ]
    });
    Section { title: "Prefetching".to_owned(), columns, rows: rows.collect() }
}
