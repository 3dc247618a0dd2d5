"""What the benchmarks share: data, engines in child processes, memory groups, statistics, and where results go."""
