//! Status as tables of text: the terminal view and `--once` show the same.
//!
//! Invariant: nothing in a cell moves the cursor or ends the line, whatever a program says of itself.

use std::cmp::{Ordering, Reverse};
use std::path::Path;

use ratatui::text::Span;
use warmset_tiering::{Report, TierReport};

use super::args::SortKey;
use super::machine::{
    Machine, Of, PrefetchStatus, Process, RegionStatus, SplitStatus, StoreStatus, TierStatus,
};
use super::rates::{History, Rates};
use crate::command::printable;
use warmset_platform::units;

/// Between two columns.
const GAP: usize = 2;
/// A cell is cut at so many letters.
const CELL_MAX: usize = 40;
/// A process's name, which the kernel keeps to 15 bytes.
const NAME_MAX: usize = 20;
/// `1023.9 MiB`: a column of bytes keeps its width, whatever is in it.
const BYTES_WIDTH: usize = 10;
/// Nodes of a process that are listed.
const NODES_MAX: usize = 8;
/// `100 %`.
const PERCENT_WIDTH: usize = 5;

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What is above it.
    pub head: &'static str,
    /// Where there is no room for all, the smallest are shown.
    pub rank: u8,
    /// Numbers are set to the right.
    pub right: bool,
    /// Columns on the screen that it takes at least.
    width_min: usize,
}

const fn number(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: true, width_min: 0 }
}

const fn bytes(head: &'static str, rank: u8) -> Column {
    Column { width_min: BYTES_WIDTH, ..number(head, rank) }
}

const fn share(head: &'static str, rank: u8) -> Column {
    Column { width_min: PERCENT_WIDTH, ..number(head, rank) }
}

const fn text(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: false, width_min: 0 }
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
    /// Which columns there is room for, in order, and how wide each is. No cell is cut: half a number is a wrong one.
    pub fn fit(&self, room: usize) -> Vec<(usize, usize)> {
        let wide = |n: usize| {
            let cells = self.rows.iter().map(|row| width(&row[n]));
            let column = &self.columns[n];
            cells.chain([column.head.len(), column.width_min]).max().unwrap_or(0)
        };
        let mut by_rank: Vec<usize> = (0..self.columns.len()).collect();
        by_rank.sort_by_key(|&n| self.columns[n].rank);
        let (mut shown, mut left) = (Vec::new(), room.saturating_add(GAP));
        for n in by_rank {
            let width = wide(n);
            if width + GAP <= left {
                left -= width + GAP;
                shown.push((n, width));
            }
        }
        shown.sort_unstable();
        shown
    }
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
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

    /// The splits of processes that are shown, or of which a store is.
    pub fn splits<'a>(&self, machine: &'a Machine, stores: &[&Of<StoreStatus>]) -> Vec<&'a Of<SplitStatus>> {
        let has = |split: &&Of<SplitStatus>| {
            let of_store = stores.iter().any(|store| store.process.key == split.process.key);
            of_store || self.has(&split.process, &[])
        };
        machine.splits.iter().filter(has).collect()
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
    end_of(text, CELL_MAX)
}

/// The end of a path tells more than its beginning.
fn end_of(text: &str, letters_max: usize) -> String {
    let text = printable(Path::new(text));
    let letters = text.chars().count();
    if letters <= letters_max {
        return text;
    }
    let end: String = text.chars().skip(letters - letters_max + 3).collect();
    format!("...{end}")
}

fn program(process: &Process, name: &str, letters_max: usize) -> String {
    let name = end_of(name, letters_max);
    if process.late { format!("{name} (not answering)") } else { name }
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
        text("program", 2),
        text("directory", 11),
        bytes("used", 1),
        bytes("budget", 8),
        share("huge", 9),
        bytes("cached", 3),
        share("in memory", 5),
        bytes("region files", 13),
        share("hits", 4),
        bytes("read/s", 6),
        bytes("written/s", 12),
        number("waiting", 7),
        number("moved/s", 16),
        number("regions", 15),
        bytes("heap", 10),
        bytes("heap limit", 14),
    ];
    let rows = stores.iter().map(|store| {
        let (status, rates) = (&store.status, history.rates(store));
        let split: Option<&SplitStatus> = machine.split_of(&store.process);
        let hits = rates.and_then(|rates| rates.hit_ratio);
        let moved = rates.map(|rates| rates.promotions_per_s + rates.demotions_per_s);
        vec![
            store.process.pid.to_string(),
            program(&store.process, &store.process.program, NAME_MAX),
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

/// At most `rows_max` regions of a store, the largest first.
pub fn regions_section(store: &Of<StoreStatus>, rows_max: usize) -> Section {
    let status = &store.status;
    let columns = vec![
        text("region", 0),
        bytes("cached", 1),
        share("in memory", 2),
        bytes("region files", 4),
        number("segments", 5),
        number("held", 3),
    ];
    let mut regions: Vec<&RegionStatus> = status.largest_regions.iter().collect();
    regions.sort_by_key(|region| (Reverse(region.bytes), region.id));
    regions.truncate(rows_max);
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
    let (program, pid) = (end_of(&store.process.program, NAME_MAX), store.process.pid);
    let shown = match status.regions as usize {
        all if all > regions.len() => format!("the {} largest of {all} regions", regions.len()),
        1 => "1 region".to_owned(),
        all => format!("{all} regions"),
    };
    Section { title: format!("{program} ({pid}): {shown}"), columns, rows: rows.collect() }
}

fn nodes(last: &Report) -> String {
    let node = |tier: &TierReport| {
        let latency = tier.latency_ns.map_or_else(String::new, |ns| format!(" {ns:.0} ns,"));
        let resident = units::bytes(tier.resident_bytes);
        cell(&format!("{}:{latency} {:.0} %, {resident}", tier.node, tier.share * 100.0))
    };
    last.tiers.iter().take(NODES_MAX).map(node).collect::<Vec<_>>().join("; ")
}

/// Processes whose pages are placed.
pub fn tiers_section(tiers: &[&Of<TierStatus>]) -> Section {
    let columns = vec![
        number("pid", 0),
        text("program", 1),
        text("policy", 5),
        text("nodes: latency, accesses, memory", 2),
        bytes("promoted", 3),
        bytes("demoted", 4),
        number("decisions", 6),
    ];
    let rows = tiers.iter().map(|tier| {
        let status = &tier.status;
        let dry_run = if status.dry_run { " (dry run)" } else { "" };
        vec![
            status.target_pid.to_string(),
            program(&tier.process, &status.target_name, NAME_MAX),
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
        text("program", 1),
        bytes("profile", 3),
        bytes("fetched", 2),
        bytes("changed files", 5),
        number("triggers left", 4),
        number("fired", 6),
    ];
    let rows = prefetches.iter().map(|fetch| {
        let status = &fetch.status;
        vec![
            status.target_pid.to_string(),
            program(&fetch.process, &status.program, CELL_MAX),
            units::bytes(status.bytes),
            units::bytes(status.fetched_bytes),
            units::bytes(status.stale_bytes),
            status.triggers_waiting.to_string(),
            status.triggers_fired.to_string(),
        ]
    });
    Section { title: "Prefetching".to_owned(), columns, rows: rows.collect() }
}
