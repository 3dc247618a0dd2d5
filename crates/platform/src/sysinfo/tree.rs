//! Which process was started by which.
//!
//! A process whose parent has ended belongs to nobody any more: it is not found below its former ancestors.

use std::collections::{HashMap, HashSet};

use super::Root;

fn parent(root: &Root, process: u32) -> Option<u32> {
    root.text(format!("/proc/{process}/stat")).as_deref().and_then(parse_parent)
}

/// The fourth word of `/proc/PID/stat`. The name before it may hold blanks and brackets.
fn parse_parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// A process and all that it, or one of these, started.
pub fn family(root: &Root, ancestor: u32) -> Vec<u32> {
    let numbers = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let parents: HashMap<u32, u32> =
        numbers.filter_map(|process| Some((process, parent(root, process)?))).collect();
    let mut members = HashSet::from([ancestor]);
    loop {
        let before = members.len();
        let born = parents.iter().filter(|(_, parent)| members.contains(parent)).map(|(process, _)| *process);
        let born: Vec<u32> = born.collect();
        members.extend(born);
        if members.len() == before {
            return members.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_parents() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        for (process, name, parent) in
            [(1, "init", 0), (7, "a) b (", 1), (8, "sh", 7), (9, "sh", 8), (10, "x", 1)]
        {
            let folder = directory.path().join(format!("proc/{process}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{process} ({name}) S {parent} 0 0 0")).unwrap();
        }
        let mut found = family(&root, 7);
        found.sort_unstable();
        assert_eq!(found, [7, 8, 9]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = parse_parent(&text);
        }
    }
}
