"""Carries objects between a bucket and a directory: input files there (or into a topic), the logs of checkpoints here.

So what watches a job on one machine (``testkit.observer``) watches it in a cluster, through nothing but S3's own list and get.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.harness.broker import Topic
from e2e.harness.objects import Bucket, Refusal

#: Pause between two looks into the bucket, in seconds.
_POLL = 0.05


@dataclass(slots=True)
class BucketSync:
    """``prefix`` in the bucket is ``directory`` here: ``input/`` goes there, ``output/checkpoints/<query>/…`` comes here."""

    bucket: Bucket
    prefix: str
    directory: Path
    queries: Sequence[str]
    #: Where input goes in place of the bucket.
    topic: Topic | None = None
    #: Seconds that the last look took: what this adds to a time that is measured here.
    look_s: float = 0.0
    problem: str = ""
    _next: dict[str, int] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    _have: set[str] = field(default_factory=set)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def lag_s(self) -> float:
        """How late a commit may be seen, with room for a look that took longer than the last one, in seconds."""
        return _POLL + 2 * self.look_s

    @property
    def input(self) -> Path:
        return self.directory / "input"

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def start(self) -> None:
        for query in self.queries:
            for log in ("offsets", "commits"):
                (self.output / "checkpoints" / query / log).mkdir(parents=True, exist_ok=True)
        self.send()
        for work in (self._sending, self._fetching):
            thread = threading.Thread(target=work, name=f"bucket_sync{work.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _sending(self) -> None:
        while not self._stopped.wait(_POLL):
            self._try(self.send)

    def _fetching(self) -> None:
        while not self._stopped.wait(_POLL):
            began = time.monotonic()
            self._try(self._fetch_logs)
            self.look_s = time.monotonic() - began

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, Refusal) as error:  # a store that is away for a moment; the next look sees what there is then
            self.problem = str(error)

    def send(self) -> None:
        """In the order of their names, which is that of their days: the store's clock counts seconds."""
        for name in sorted(name for name in os.listdir(self.input) if name not in self._sent):
            content = (self.input / name).read_bytes()
            if self.topic is None:
                self.bucket.put(f"{self.prefix}/input/{name}", content)
            else:
                self.topic.send(content)
            self._sent.add(name)

    def in_flight(self) -> tuple[str, int] | None:
        """A query and a batch of it that is planned and not committed, as it stands in the bucket; ``None`` if there is none."""
        latest = ((query, self._next.get(query, 0)) for query in self.queries)
        return next((each for each in latest if self._planned(f"output/checkpoints/{each[0]}", each[1])), None)

    def _planned(self, checkpoint: str, batch: int) -> bool:
        return self._exists(f"{checkpoint}/offsets/{batch}") and not self._exists(f"{checkpoint}/commits/{batch}")

    def _exists(self, name: str) -> bool:
        try:
            self.bucket.get(f"{self.prefix}/{name}")
        except Refusal as none_yet:
            if none_yet.status == 404:
                return False
            raise
        return True

    def _fetch_logs(self) -> None:
        """Ask for the one next commit of each query: Spark numbers batches without gaps, and a list costs the store much more."""
        for query in self.queries:
            log = f"output/checkpoints/{query}"
            while self._fetch_one(f"{log}/commits/{self._next.setdefault(query, 0)}", after=f"{log}/offsets"):
                self._next[query] += 1

    def _fetch_one(self, commit: str, *, after: str) -> bool:
        try:
            content = self.bucket.get(f"{self.prefix}/{commit}")
        except Refusal as none_yet:
            if none_yet.status == 404:
                return False
            raise
        # The observer of a commit looks at the offsets of its batch next.
        offsets = f"{after}/{commit.rpartition('/')[2]}"
        self._keep(offsets, self.bucket.get(f"{self.prefix}/{offsets}"))
        self._keep(commit, content)
        return True

    def _keep(self, name: str, content: bytes) -> None:
        target = self.directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(content)
        partial.rename(target)
        self._have.add(f"{self.prefix}/{name}")

    def fetch(self, below: str) -> None:
        """Bring what is new below a prefix, each file whole. What is removed there stays here."""
        for name in self.bucket.names(f"{self.prefix}/{below}"):
            if name in self._have or "/." in name or name.endswith("/"):
                continue
            try:
                content = self.bucket.get(name)
            except Refusal as gone:
                if gone.status == 404:
                    continue
                raise
            self._keep(name.removeprefix(f"{self.prefix}/"), content)

    def fetch_sinks(self, into: Path) -> None:
        """Every sink as its readers see it: of a streaming file sink only what its log names."""
        self.fetch("output/delays/")
        committed = {Path(path).name for path in logged_files(self.output / "delays" / "_spark_metadata")}
        (into / "delays").mkdir(parents=True, exist_ok=True)
        for path in (self.output / "delays").glob("*.parquet"):
            if path.name in committed:
                (into / "delays" / path.name).hardlink_to(path)
        self.fetch("output/flights/")
        (into / "flights").symlink_to(self.output / "flights")


def logged_files(log: Path) -> list[str]:
    """The files a streaming file sink has committed: the newest compacted entry, and the entries after it."""
    names = os.listdir(log)
    compacted = max((int(name.partition(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    wanted = [f"{compacted}.compact"] if compacted >= 0 else []
    wanted += [name for name in names if name.isdigit() and int(name) > compacted]
    lines = [line for name in wanted for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]]
    return [entry["path"] for entry in map(json.loads, lines) if entry.get("action") == "add"]
