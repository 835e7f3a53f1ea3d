"""Savepoint, fork, and the rows of a run that was not interrupted, again and again; ``TIMES=3`` for fewer."""

from __future__ import annotations

import os
import signal

import pytest

from tests.spark.replicas import PATIENCE, Replicas
from tests.spark.test_savepoints import STORES, ask, feed, replicas, start, wait_for_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

TIMES = int(os.environ.get("TIMES", "20"))

__all__ = ["replicas"]  # a fixture


@pytest.mark.parametrize("store", STORES)
def test_each_fork_writes_what_the_job_writes_after_its_savepoint(replicas: Replicas, store: str) -> None:
    """Values come back, so that a fork without its state would write them once more."""
    start(replicas, *STORES[store])
    firsts: set[int] = set()
    rows = 0

    def feed_and_wait(*values: int) -> None:
        nonlocal rows
        feed(replicas, list(values))
        firsts.update(values)
        rows += len(values)
        wait_for_rows(replicas, firsts, rows)

    feed_and_wait(0, 1, 0)
    for time in range(1, TIMES + 1):
        code, said = ask(replicas, "savepoint")
        assert code == 0, said
        assert f"savepoint {time} is rehearsed" in said["text"]
        before = {out: replicas.rows(out) for out in ("out", "out-plain")}
        feed_and_wait(time - 1, time, time + 1, 1000 + time, time)

        code, made = replicas.ask("fork", "--from", str(time), "--cluster-id", f"copy-{time}", "--from-cluster", "job")
        assert code == 0, made
        conf = ("--conf", f"spark.test.out=other-{time}")
        copy = start(replicas, *STORES[store], *conf, cluster=f"copy-{time}")
        wait_for_rows(replicas, {int(each) for each in replicas.rows("out") - before["out"]}, 5, f"other-{time}")
        for out, rows_before in before.items():
            assert replicas.rows(out.replace("out", f"other-{time}", 1)) == replicas.rows(out) - rows_before
        copy.send_signal(signal.SIGTERM)
        assert copy.wait(PATIENCE) == 0
