//! The page-cache-free file path: a preload library that serves reads and writes of memory files by copying.
