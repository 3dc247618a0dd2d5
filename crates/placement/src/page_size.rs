//! Which page size the pool gets. Reused data goes on huge pages from its first touch; nothing else does.

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePageChoice {
    /// Huge pages where the kernel gives them.
    #[default]
    Auto,
    /// Huge pages or an error.
    On,
    /// Base pages.
    Off,
    /// Pages reserved through `vm.nr_hugepages`, or an error.
    Hugetlb,
}

/// What the machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSupport {
    /// `transparent_hugepage/enabled` is `always` or `madvise`.
    pub transparent: bool,
}

/// The pages of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolPages {
    /// `MADV_HUGEPAGE` before the first touch.
    Transparent,
    /// Reserved huge pages.
    Hugetlb,
    /// Base pages.
    Base,
}

impl PoolPages {
    /// The name used in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolPages::Transparent => "huge",
            PoolPages::Hugetlb => "hugetlb",
            PoolPages::Base => "base",
        }
    }
}

/// Decides the pool's pages; `None` when the user insists on what the machine does not offer.
#[must_use]
pub fn pool_pages(choice: HugePageChoice, support: PageSupport) -> Option<PoolPages> {
    match choice {
        HugePageChoice::Off => Some(PoolPages::Base),
        HugePageChoice::Hugetlb => Some(PoolPages::Hugetlb),
        HugePageChoice::On => support.transparent.then_some(PoolPages::Transparent),
        HugePageChoice::Auto if support.transparent => Some(PoolPages::Transparent),
        HugePageChoice::Auto => Some(PoolPages::Base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_wish_can_fail() {
        let without = PageSupport { transparent: false };
        assert_eq!(pool_pages(HugePageChoice::Auto, without), Some(PoolPages::Base));
        assert_eq!(pool_pages(HugePageChoice::On, without), None);
        let with = PageSupport { transparent: true };
        assert_eq!(pool_pages(HugePageChoice::Auto, with), Some(PoolPages::Transparent));
        assert_eq!(pool_pages(HugePageChoice::Off, with), Some(PoolPages::Base));
    }
}
