//! How far ahead of demand free frames are faulted in.

const AHEAD_BYTES_MIN: u64 = 32 << 20;

/// Bytes of free frames that should be ready to write: a quarter of what is in use, so that a growing cache
/// is never far ahead of its frames, at least 32 MiB, and never past the budget (a small user stays small).
#[must_use]
pub fn prefault_target(used_bytes: u64, budget_bytes: u64) -> u64 {
    AHEAD_BYTES_MIN.max(used_bytes / 4).min(budget_bytes.saturating_sub(used_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_by_the_budget() {
        assert_eq!(prefault_target(0, 8 << 30), 32 << 20);
        assert_eq!(prefault_target(4 << 30, 8 << 30), 1 << 30);
        assert_eq!(prefault_target(8 << 30, 8 << 30), 0);
        assert_eq!(prefault_target(9 << 30, 8 << 30), 0);
        assert_eq!(prefault_target(0, 4 << 20), 4 << 20);
    }
}
