"""What the benchmarks share: data, engines in child processes, cgroups, statistics, and where results go."""
