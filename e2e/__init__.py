"""A real cluster, and the tests, harness and benchmarks that need one."""
