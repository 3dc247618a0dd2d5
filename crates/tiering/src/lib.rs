//! Trackers, latency sources and movers that manage a running process over several memory nodes.
