//! The published figures, and how far off a simulated one may be.

/// Contention levels: antagonist cores in units of five.
pub const CONTENTION: [&str; 4] = ["0x", "1x", "2x", "3x"];

/// GUPS: GB/s at 0x, 1x, 2x, 3x; the part that a cell may be off.
pub const GUPS: [(&str, [f64; 4], f64); 7] = [
    ("best", [78.5, 59.4, 56.3, 52.5], 0.05),
    ("hemem", [77.5, 49.1, 34.1, 22.7], 0.05),
    ("hemem+colloid", [77.3, 57.8, 56.1, 54.0], 0.05),
    ("tpp", [75.5, 44.0, 30.7, 22.2], 0.10),
    ("tpp+colloid", [72.5, 57.1, 56.4, 54.3], 0.10),
    ("memtis", [69.8, 42.1, 30.5, 21.3], 0.10),
    ("memtis+colloid", [69.8, 51.4, 51.2, 48.0], 0.10),
];

/// `HeMem`'s latencies in ns: default and alternate tier at 0x to 3x; alone, then with Colloid.
pub const LATENCY: [(&str, [[f64; 2]; 4]); 2] = [
    ("hemem", [[107.0, 150.0], [176.0, 150.0], [265.0, 150.0], [323.0, 150.0]]),
    ("hemem+colloid", [[115.0, 150.0], [163.0, 162.0], [225.0, 186.0], [250.0, 186.0]]),
];

/// The systems that Colloid was added to.
pub const SYSTEMS: [&str; 3] = ["hemem", "tpp", "memtis"];

/// Unloaded latency of the alternate tier, ns.
pub const ALTERNATE_NS: [f64; 4] = [135.0, 148.0, 168.0, 192.0];

/// Gain by Colloid: per system, per latency, per contention.
pub const LATENCY_GAIN: [[[f64; 4]; 4]; 3] = [
    [[1.01, 1.17, 1.65, 2.36], [1.00, 1.09, 1.54, 2.19], [0.99, 1.02, 1.37, 1.97], [0.99, 1.01, 1.25, 1.76]],
    [[0.97, 1.25, 1.81, 2.36], [1.00, 1.19, 1.66, 2.14], [0.99, 1.13, 1.52, 1.97], [1.01, 1.03, 1.42, 1.76]],
    [[1.02, 1.11, 1.56, 2.24], [1.02, 1.07, 1.54, 2.01], [1.01, 1.02, 1.29, 1.81], [0.99, 1.01, 1.24, 1.63]],
];

/// Object sizes in bytes, and the lines that a core keeps in flight: one figure per size, the same in both tiers and
/// at any load, since the prefetcher fills what the core has; fitted to `HeMem`'s four gains.
pub const OBJECTS: [(u32, f64); 3] = [(256, 13.0), (1024, 17.0), (4096, 16.0)];

/// Gain by Colloid: per system, per object size, per contention.
pub const OBJECT_GAIN: [[[f64; 4]; 3]; 3] = [
    [[1.17, 1.40, 1.50, 1.68], [1.31, 1.38, 1.49, 1.52], [1.25, 1.33, 1.47, 1.51]],
    [[1.18, 1.45, 1.55, 1.72], [1.35, 1.46, 1.56, 1.60], [1.27, 1.37, 1.53, 1.56]],
    [[1.21, 1.43, 1.51, 1.65], [1.35, 1.43, 1.54, 1.55], [1.29, 1.32, 1.49, 1.55]],
];

/// Gain by Colloid at 1x, 2x, 3x, per system; the part that a cell may be off.
pub const APPLICATIONS: [(&str, [[f64; 3]; 3], f64); 3] = [
    ("pagerank", [[1.05, 1.41, 1.92], [1.05, 1.30, 1.48], [1.12, 1.56, 2.12]], 0.15),
    // Only the direction is asked for: a gain where there was one.
    ("silo", [[1.00, 1.13, 1.25], [1.02, 1.09, 1.17], [1.03, 1.08, 1.17]], f64::INFINITY),
    ("cachelib", [[1.01, 1.37, 1.74], [1.03, 1.42, 1.79], [1.04, 1.48, 1.93]], 0.15),
];

/// Seconds until throughput settles: scenario, policy, the least and the most.
pub const CONVERGENCE: [(&str, &str, f64, f64); 11] = [
    ("contention-change", "hemem+colloid", 7.0, 13.0),
    ("contention-change", "memtis+colloid", 15.0, 30.0),
    ("contention-change", "tpp+colloid", 245.0, 335.0),
    ("hot-set-move", "hemem", 8.0, 10.0),
    ("hot-set-move", "hemem+colloid", 13.0, 15.0),
    ("hot-set-move", "tpp", 250.0, f64::INFINITY),
    ("hot-set-move", "tpp+colloid", 250.0, f64::INFINITY),
    ("hot-set-move", "memtis", 15.0, 25.0),
    ("hot-set-move", "memtis+colloid", 15.0, 25.0),
    ("hot-set-move-3x", "hemem+colloid", 3.0, 5.0),
    ("hot-set-move-3x", "tpp+colloid", 120.0, 170.0),
];

/// With Colloid, the part of the best static split's throughput that a system may miss, with two points of allowance.
pub const DISTANCE: [(&str, f64); 3] =
    [("hemem+colloid", 0.05), ("tpp+colloid", 0.10), ("memtis+colloid", 0.15)];
