"""Programs made up and changed at random, for `benchmarks.fuzz_rules`."""
