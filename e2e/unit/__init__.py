"""Tests of the harness that need no cluster; `make test` runs them."""
