//! Huge pages, transparent and reserved.

use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::pages::{self, HugetlbPool, TransparentPages};

use super::finding::{Finding, State};
use warmset_platform::units::bytes;

/// The pool's frames have this size.
const FRAME_BYTES: u64 = 2 << 20;

/// Judges the huge pages.
pub fn findings(root: &Root) -> Vec<Finding> {
    let thp = pages::transparent(root);
    let pools = pages::hugetlb(root);
    vec![transparent(&thp, &pools), defrag(&thp), shmem(&thp), hugetlb(&pools)]
}

fn transparent(thp: &TransparentPages, pools: &[HugetlbPool]) -> Finding {
    let reserved = pools.iter().any(|pool| pool.page_bytes == FRAME_BYTES && pool.pages_free > 0);
    let (state, follows) = match thp.enabled.as_deref() {
        Some("madvise") => (State::Ok, "the pool is on huge pages, nothing else is"),
        Some("always") => {
            (State::Ok, "the pool is on huge pages; so is every other program that grows, unasked")
        }
        _ if reserved => {
            (State::Ok, "off, but reserved huge pages are there for the pool (hugePages=hugetlb)")
        }
        _ => (
            State::Warn,
            "the pool is on base pages: random access to cached data takes longer (measured in a virtual \
             machine: 1.04 to 1.07 times); echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    };
    Finding::new("thp", state, thp.enabled.clone().unwrap_or_else(|| "absent".to_owned()), follows).with(thp)
}

fn defrag(thp: &TransparentPages) -> Finding {
    let (state, follows) = match thp.defrag.as_deref() {
        Some("madvise" | "defer+madvise") => {
            (State::Ok, "pre-faulting the pool may compact memory; other programs do not wait for it")
        }
        Some("always") => {
            (State::Ok, "pre-faulting the pool may compact memory, and so may every other page fault")
        }
        Some("defer") => {
            (State::Warn, "on fragmented memory the pool starts on base pages and is promoted later, if ever")
        }
        Some("never") => {
            (State::Warn, "on fragmented memory the pool stays on base pages; set it to madvise")
        }
        _ => (State::Ok, "no such setting in this kernel"),
    };
    Finding::new("thp_defrag", state, thp.defrag.clone().unwrap_or_else(|| "absent".to_owned()), follows)
}

fn shmem(thp: &TransparentPages) -> Finding {
    let value = thp.shmem.clone().unwrap_or_else(|| "absent".to_owned());
    Finding::new("thp_shmem", State::Ok, value, "no matter for regions: the pool is anonymous memory")
}

fn hugetlb(pools: &[HugetlbPool]) -> Finding {
    let reserved: Vec<String> = pools
        .iter()
        .filter(|pool| pool.pages > 0)
        .map(|pool| format!("{} x {} ({} free)", pool.pages, bytes(pool.page_bytes), pool.pages_free))
        .collect();
    let (value, follows) = if reserved.is_empty() {
        ("none reserved".to_owned(), "not needed where transparent huge pages work")
    } else {
        (reserved.join(", "), "can back the pool (hugePages=hugetlb); no other program can use this memory")
    };
    Finding::new("hugetlb", State::Ok, value, follows).with(pools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thp(enabled: &str) -> TransparentPages {
        TransparentPages { enabled: Some(enabled.to_owned()), ..TransparentPages::default() }
    }

    #[test]
    fn huge_pages_that_are_off_cost_speed_unless_some_are_reserved() {
        assert_eq!(transparent(&thp("never"), &[]).state, State::Warn);
        assert_eq!(transparent(&TransparentPages::default(), &[]).state, State::Warn);
        let pool = HugetlbPool { page_bytes: FRAME_BYTES, pages: 8, pages_free: 8 };
        assert_eq!(transparent(&thp("never"), std::slice::from_ref(&pool)).state, State::Ok);
        assert_eq!(transparent(&thp("madvise"), &[]).state, State::Ok);
        assert!(hugetlb(&[pool]).value.contains("8 x 2.0 MiB"));
    }
}
