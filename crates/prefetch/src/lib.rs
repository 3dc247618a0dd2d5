//! Warm starts: records what a program reads, finds bursts and triggers, and prefetches on later runs.
