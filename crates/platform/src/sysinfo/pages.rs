//! Huge pages: the transparent ones' settings, and what is reserved as hugetlb.

use serde::Serialize;

use super::Root;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const HUGETLB: &str = "/sys/kernel/mm/hugepages";

/// The settings of transparent huge pages; a field is `None` where the kernel has no such file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TransparentPages {
    /// `always`, `madvise` or `never`: which memory may get huge pages.
    pub enabled: Option<String>,
    /// How hard a page fault works to find a huge page.
    pub defrag: Option<String>,
    /// The same as `enabled`, for tmpfs and shared memory.
    pub shmem: Option<String>,
    /// The size of a huge page.
    pub page_bytes: Option<u64>,
}

/// Reserved huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugetlbPool {
    /// The size of one page.
    pub page_bytes: u64,
    /// How many are reserved.
    pub pages: u64,
    /// How many of them are unused.
    pub pages_free: u64,
}

/// Reads the settings of transparent huge pages.
pub fn transparent(root: &Root) -> TransparentPages {
    let choice = |name: &str| root.text(format!("{THP}/{name}")).and_then(|text| chosen(&text));
    TransparentPages {
        enabled: choice("enabled"),
        defrag: choice("defrag"),
        shmem: choice("shmem_enabled"),
        page_bytes: root.number(format!("{THP}/hpage_pmd_size")).and_then(|bytes| bytes.try_into().ok()),
    }
}

/// Reads the reserved huge pages, smallest size first.
pub fn hugetlb(root: &Root) -> Vec<HugetlbPool> {
    let mut pools: Vec<HugetlbPool> = root
        .names(HUGETLB)
        .iter()
        .filter_map(|name| {
            let count = |file: &str| root.number(format!("{HUGETLB}/{name}/{file}"))?.try_into().ok();
            Some(HugetlbPool {
                page_bytes: size_in_name(name)?,
                pages: count("nr_hugepages")?,
                pages_free: count("free_hugepages")?,
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// The word in brackets: `always [madvise] never` gives `madvise`.
pub fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// `hugepages-2048kB` gives 2 MiB in bytes.
fn size_in_name(name: &str) -> Option<u64> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(chosen("]["), None);
        assert_eq!(chosen("[]"), None);
    }

    #[test]
    fn the_size_of_a_pool_is_in_its_name() {
        assert_eq!(size_in_name("hugepages-1048576kB"), Some(1 << 30));
        assert_eq!(size_in_name("hugepages-kB"), None);
        assert_eq!(size_in_name("hugepages-99999999999999999999kB"), None);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*", name in "hugepages-[0-9]{0,25}kB") {
            chosen(&text);
            size_in_name(&name);
        }
    }
}
