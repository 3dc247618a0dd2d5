//! The counters in Prometheus' text form, for node_exporter's textfile collector.
//!
//! Invariant: a family is written once, and each of its series once, whatever programs say of themselves (the collector
//! refuses a file with two values of one series); labels are escaped.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};

use warmset_tiering::{Managed, prometheus as tier_families};

use super::machine::{Machine, Of, PrefetchStatus, Process, SplitStatus, StoreStatus};

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// All families that there is something for.
pub fn prometheus(machine: &Machine) -> String {
    let mut text = String::new();
    stores(&mut text, &machine.stores);
    splits(&mut text, &machine.splits);
    prefetches(&mut text, &machine.prefetches);
    if !machine.tiers.is_empty() {
        let managed = machine.tiers.iter().map(|tier| {
            let status = &tier.status;
            Managed { pid: status.target_pid, counters: &status.counters, last: &status.last }
        });
        text += &tier_families(&managed.collect::<Vec<_>>());
    }
    family(
        &mut text,
        "top_problems",
        GAUGE,
        "Status files that could not be read.",
        [(String::new(), machine.problems.len())],
    );
    text
}

fn family<V: Display>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    series: impl IntoIterator<Item = (String, V)>,
) {
    let _ = writeln!(text, "# HELP warmset_{name} {help}\n# TYPE warmset_{name} {kind}");
    let mut seen = HashSet::new();
    for (labels, value) in series {
        if !seen.insert(labels.clone()) {
            continue;
        }
        let _ = match labels.as_str() {
            "" => writeln!(text, "warmset_{name} {value}"),
            labels => writeln!(text, "warmset_{name}{{{labels}}} {value}"),
        };
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

fn process_labels(process: &Process) -> String {
    format!(
        "pid=\"{}\",program=\"{}\",user_id=\"{}\"",
        process.pid,
        escaped(&process.program),
        process.user_id
    )
}

fn stores(text: &mut String, stores: &[Of<StoreStatus>]) {
    if stores.is_empty() {
        return;
    }
    let labels = |store: &Of<StoreStatus>| {
        let dirs = escaped(&store.status.dirs.join(","));
        format!("{},store=\"{}\",dir=\"{dirs}\"", process_labels(&store.process), store.status.store)
    };
    let mut one = |name: &str, kind: &str, help: &str, value: &dyn Fn(&StoreStatus) -> f64| {
        let series = stores.iter().map(|store| (labels(store), value(&store.status)));
        family(text, &format!("store_{name}"), kind, help, series);
    };
    one("budget_bytes", GAUGE, "The most memory.", &|store| store.budget_bytes as f64);
    one("pool_bytes", GAUGE, "Memory taken.", &|store| store.pool_bytes as f64);
    one("used_bytes", GAUGE, "Memory in use, in whole huge pages.", &|store| store.used_bytes as f64);
    one("window_bytes", GAUGE, "Memory in use beside the pool.", &|store| store.window_bytes as f64);
    one("huge_bytes", GAUGE, "Memory on huge pages.", &|store| store.huge_bytes as f64);
    one("flash_bytes", GAUGE, "Disk space taken.", &|store| store.flash_bytes as f64);
    one("regions", GAUGE, "Regions.", &|store| store.regions as f64);
    one("segments", GAUGE, "Segments.", &|store| store.segments as f64);
    one("accessed_bytes_total", COUNTER, "Accessed, by whole segments.", &|store| {
        store.accessed_bytes_total as f64
    });
    one("read_bytes_total", COUNTER, "Read from disk.", &|store| store.read_bytes_total as f64);
    one("written_bytes_total", COUNTER, "Written to disk.", &|store| store.written_bytes_total as f64);
    one("promotions_total", COUNTER, "Segments brought to memory.", &|store| store.promotions_total as f64);
    one("demotions_total", COUNTER, "Segments taken from memory.", &|store| store.demotions_total as f64);
    one("streamed_total", COUNTER, "Segments that only passed through memory.", &|store| {
        store.streamed_total as f64
    });
    one("waits_total", COUNTER, "Times that readers waited.", &|store| store.waits_total as f64);
    one("wait_seconds_total", COUNTER, "Time that readers waited.", &|store| {
        store.wait_ns_total as f64 / 1e9
    });
    one("evictions_total", COUNTER, "Regions given up for room.", &|store| store.evictions_total as f64);
    let tiers = stores.iter().flat_map(|store| {
        let (status, labels) = (&store.status, labels(store));
        let absent = status.live_bytes.saturating_sub(status.resident_bytes);
        [("dram", status.resident_bytes), ("flash", absent)]
            .map(|(tier, bytes)| (format!("{labels},tier=\"{tier}\""), bytes))
    });
    family(text, "store_resident_bytes", GAUGE, "Cached bytes, by where they are.", tiers);
}

fn splits(text: &mut String, splits: &[Of<SplitStatus>]) {
    if splits.is_empty() {
        return;
    }
    let mut one = |name: &str, kind: &str, help: &str, value: &dyn Fn(&SplitStatus) -> u64| {
        let series = splits.iter().map(|split| (process_labels(&split.process), value(&split.status)));
        family(text, &format!("split_{name}"), kind, help, series);
    };
    one("budget_bytes", GAUGE, "The budget of heap and pool.", &|split| split.total_bytes);
    one("heap_committed_bytes", GAUGE, "The heap.", &|split| split.heap_committed_bytes);
    one("heap_live_bytes", GAUGE, "What lives on the heap.", &|split| split.heap_live_bytes);
    one("heap_allowed_bytes", GAUGE, "What the heap may grow to.", &|split| split.heap_allowed_bytes);
    one("pool_budget_bytes", GAUGE, "What the pool may grow to.", &|split| split.pool_budget_bytes);
    one("moves_total", COUNTER, "Moves of memory between them.", &|split| split.moves_total);
}

fn prefetches(text: &mut String, prefetches: &[Of<PrefetchStatus>]) {
    if prefetches.is_empty() {
        return;
    }
    let labels = |fetch: &Of<PrefetchStatus>| {
        let status = &fetch.status;
        format!("pid=\"{}\",program=\"{}\"", status.target_pid, escaped(&status.program))
    };
    let mut one = |name: &str, kind: &str, help: &str, value: &dyn Fn(&PrefetchStatus) -> u64| {
        let series = prefetches.iter().map(|fetch| (labels(fetch), value(&fetch.status)));
        family(text, &format!("prefetch_{name}"), kind, help, series);
    };
    one("profile_bytes", GAUGE, "What the profile has.", &|fetch| fetch.bytes);
    one("fetched_bytes_total", COUNTER, "Asked for.", &|fetch| fetch.fetched_bytes);
    one("stale_bytes_total", COUNTER, "Left out, since the files have changed.", &|fetch| fetch.stale_bytes);
    one("triggers_waiting", GAUGE, "Bursts that wait for their trigger.", &|fetch| fetch.triggers_waiting);
    one("triggers_fired_total", COUNTER, "Triggers that have fired.", &|fetch| fetch.triggers_fired);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_written_once_and_its_labels_are_escaped() {
        let fetch = |fetched_bytes| Of {
            process: Process {
                key: String::new(),
                pid: 1,
                program: "warmset".to_owned(),
                user_id: 0,
                at_ns: 0,
                late: false,
            },
            status: PrefetchStatus {
                target_pid: 7,
                program: "/a\"\\\nb".to_owned(),
                bytes: 9,
                fetched_bytes,
                stale_bytes: 0,
                triggers_waiting: 0,
                triggers_fired: 0,
            },
        };
        let machine = Machine { prefetches: vec![fetch(3), fetch(4)], ..Machine::default() };
        let text = prometheus(&machine);
        let fetched: Vec<&str> =
            text.lines().filter(|line| line.starts_with("warmset_prefetch_fetched")).collect();
        assert_eq!(fetched, [r#"warmset_prefetch_fetched_bytes_total{pid="7",program="/a\"\\\nb"} 3"#]);
        let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(families.len(), 6, "{families:?}");
        assert!(text.ends_with("\nwarmset_top_problems 0\n"), "{text}");
    }
}
