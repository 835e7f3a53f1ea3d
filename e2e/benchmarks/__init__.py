"""Benchmarks that need a cluster: ``python -m e2e --run e2e.benchmarks.failover``."""
