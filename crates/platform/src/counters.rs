//! Counters of memory controllers and caches over perf: those of one event, on all units of one kind, summed.
//!
//! Invariant: an event is encoded as this kernel's own `format` files say; a field that they do not have is an error.

use std::fs::File;
use std::io::{self, Read};

use crate::perf;
use crate::sysinfo::Root;
use crate::sysinfo::numa::listed;

pub(crate) const DEVICES: &str = "/sys/bus/event_source/devices";
const EVERY_PROCESS: i32 = -1;

/// A sum of counters.
#[derive(Debug)]
pub struct Counter {
    files: Vec<File>,
}

impl Counter {
    /// Opens an event on every unit whose name is `unit`, or `unit_` and a number, as far as its processor is one of
    /// `on_cpus`.
    ///
    /// # Errors
    /// `NotFound` where this processor has no such unit, `PermissionDenied` without `CAP_PERFMON`.
    pub fn open(root: &Root, unit: &str, terms: &[(&str, u64)], on_cpus: &[u32]) -> io::Result<Self> {
        let mut files = Vec::new();
        for name in root.names(DEVICES).iter().filter(|name| is_unit(name, unit)) {
            let (kind, config) = encoded(root, name, terms)?;
            let mask = root.text(format!("{DEVICES}/{name}/cpumask")).unwrap_or_default();
            for cpu in listed(&mask).into_iter().filter(|cpu| on_cpus.contains(cpu)) {
                files.push(open(kind, &config, cpu)?);
            }
        }
        if files.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("this processor has no {unit} counters"),
            ));
        }
        Ok(Self { files })
    }

    /// How many units are summed.
    #[must_use]
    pub fn units(&self) -> usize {
        self.files.len()
    }

    /// The sum since it was opened.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut sum = 0_u64;
        for file in &mut self.files {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes)?;
            sum = sum.wrapping_add(u64::from_ne_bytes(bytes));
        }
        Ok(sum)
    }
}

fn is_unit(name: &str, unit: &str) -> bool {
    let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    name == unit || name.strip_prefix(unit).and_then(|rest| rest.strip_prefix('_')).is_some_and(digits)
}

/// The kind of the unit, and the three words that stand for an event.
pub(crate) fn encoded(root: &Root, name: &str, terms: &[(&str, u64)]) -> io::Result<(u32, [u64; 3])> {
    let missing =
        |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("{DEVICES}/{name}/{what} is missing"));
    let kind = root.number(format!("{DEVICES}/{name}/type")).and_then(|kind| u32::try_from(kind).ok());
    let kind = kind.ok_or_else(|| missing("type"))?;
    let mut config = [0; 3];
    for (field, value) in terms {
        let format = root.text(format!("{DEVICES}/{name}/format/{field}"));
        let placed = format.and_then(|format| place(&format, *value, &mut config));
        placed.ok_or_else(|| missing(&format!("format/{field}, or it has too few bits:")))?;
    }
    Ok((kind, config))
}

/// Puts a value's bits where a format such as `config:8-15,32-55` says, lowest first; `None` if it does not fit.
fn place(format: &str, value: u64, config: &mut [u64; 3]) -> Option<()> {
    let (word, ranges) = format.trim().split_once(':')?;
    let word = config.get_mut(match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    })?;
    let mut left = u128::from(value);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        let bits = last - first + 1;
        *word |= ((left & ((1 << bits) - 1)) as u64) << first;
        left >>= bits;
    }
    (left == 0).then_some(())
}

/// A unit's event belongs to no process, and is counted on one processor.
fn open(kind: u32, config: &[u64; 3], cpu: u32) -> io::Result<File> {
    let mut attr = perf::attributes(kind, config[0]);
    attr.__bindgen_anon_3.config1 = config[1];
    attr.__bindgen_anon_4.config2 = config[2];
    let cpu = i32::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(perf::open(&mut attr, EVERY_PROCESS, cpu)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_as_the_format_says() {
        let mut config = [0; 3];
        place("config:0-7\n", 0x35, &mut config).unwrap();
        place("config:8-15,32-55", 0xC816_FE01, &mut config).unwrap();
        place("config1:3", 1, &mut config).unwrap();
        assert_eq!(config, [0x00C8_16FE_0000_0135, 8, 0]);
        assert_eq!(place("config:0-7", 0x100, &mut config), None, "too large");
        assert_eq!(place("config:9-70", 1, &mut config), None);
        assert_eq!(place("none", 1, &mut config), None);
    }

    #[test]
    fn units_have_a_number_or_none() {
        assert!(is_unit("uncore_cha_12", "uncore_cha") && is_unit("amd_l3", "amd_l3"));
        assert!(!is_unit("uncore_cha_free", "uncore_cha") && !is_unit("amd_l30", "amd_l3"));
    }

    #[test]
    fn a_unit_that_is_not_there_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let error = Counter::open(&Root::at(empty.path()), "uncore_cha", &[("event", 1)], &[0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("uncore_cha"));
    }
}
