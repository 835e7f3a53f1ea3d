"""Builders: plain functions from settings to plain Kubernetes objects, used by the program, by ``make render`` and by tests."""
