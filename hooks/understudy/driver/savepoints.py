"""A savepoint: copies of the checkpoints at a boundary that is held, made in the JVM, and proven by what could go wrong with them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from understudy.driver.error_text import first_line
from understudy.driver.java import java_class
from understudy.driver.parallel import call_each, in_background
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsals import Rehearsals
from understudy.errors import EnvironmentProblem, UnderstudyError
from understudy.protocol.messages import Message, Save, Saved
from understudy.protocol.savepoint import SavedQuery

#: Kinds of rehearsal that run a batch on the checkpoint they are given.
_ON_IT = frozenset({"live", "synthetic"})
_AT_MOST = 8
#: Seconds beyond its time for which the JVM may take to say what it has waited for.
_SAYS = 0.2
#: What was to be written is there already.
_STOOD_THERE = "org.apache.hadoop.fs.FileAlreadyExistsException"
#: What a directory's name may not have: it becomes a part of a blob's.
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True, eq=False, kw_only=True)
class Savepoints:
    """Not guaranteed: that what the last batch has written of its state can be loaded. It is copied byte for byte, and a rehearsal begins
    from the state before.
    """

    registry: QueryRegistry
    rehearsals: Rehearsals
    send: Callable[[Message], None]

    def refusal(self) -> str:
        """Why nothing can be saved of one of the queries; empty if everything can."""
        queries = self._queries()
        if not queries:
            return "the script has no streaming query, so it has no checkpoint"
        for each in queries:
            if each.no_boundary:
                return f"query {each.name} has no savepoints: it {each.no_boundary}"
            if each.checkpoint is None:
                return (
                    f"query {each.name} (sink {each.sink.kind}) has a temporary checkpoint, which ends with its driver. "
                    "Give it a checkpointLocation"
                )
        return ""

    def take(self, asked: Save, copied: Callable[[], float]) -> None:
        """Send ``Saved``, after the time for the copies and that for their proof at the latest, whether or not the storage answers. Batches are
        held; ``copied`` is called once they need not be any more, and tells for how long they were. What has failed is removed after it was told.
        """
        problem, held, copying = "", 0.0, 0.0
        queries = self._queries()
        named = list(zip(queries, _directories([each.name for each in queries]), strict=True))
        saved: list[SavedQuery] = []
        made: list[tuple[PendingQuery, str]] = []  # what stood there before is not ours to remove

        def copy(each: tuple[PendingQuery, str]) -> SavedQuery:
            with _naming(each[0]):
                try:
                    done = _copy(each[0], asked, each[1])
                except BaseException as error:
                    if not _stood_there(error):
                        made.append(each)
                    raise
            made.append(each)
            return done

        began = time.monotonic()
        work: list[Future[list[SavedQuery]]] = []
        try:
            work.append(in_background(lambda: call_each(copy, named, at_most=_AT_MOST)))
            saved = _in_time(work[0], asked, "copied")
            copying = time.monotonic() - began
            held = copied()
            work.append(in_background(lambda: self._prove(asked, queries, saved)))
            saved = _in_time(work[1], asked, "proven")
        except BaseException as error:  # noqa: BLE001 - LeadershipLost too; the supervisor decides what follows
            problem = str(error) if isinstance(error, UnderstudyError) else first_line(error)
        spark = queries[0].session.version if queries else ""
        self.send(Saved(asked.request, asked.number, problem, spark, held, copying, [] if problem else saved))
        if problem:
            wait(work)
            _discard(asked, made)

    def _queries(self) -> list[PendingQuery]:
        return self.registry.queries()

    def _prove(self, asked: Save, queries: Sequence[PendingQuery], saved: Sequence[SavedQuery]) -> list[SavedQuery]:
        """Read every file of the copies; then run a batch on each, and write that to scratch. Raises what goes wrong.

        Digests of files that the store copied by itself are known from here on.
        """
        pairs = list(zip(queries, saved, strict=True))
        until = time.monotonic() + asked.timeout

        def prove(pair: tuple[PendingQuery, SavedQuery]) -> SavedQuery:
            query, copy = pair
            if copy.batch < 0:
                return copy
            target = f"{asked.place}/{copy.directory}"
            with _naming(query):
                digest = _copies(query).verify(target, _conf(query), _milliseconds(asked))
                return replace(copy, digest=str(digest), how=self._rehearse(query, target, asked, until))

        return call_each(prove, pairs, at_most=_AT_MOST)

    def _rehearse(self, query: PendingQuery, target: str, asked: Save, until: float) -> str:
        """How the copy was rehearsed; empty where no rehearsal is to run batches on it. Cancelled at ``until``, by the monotonic clock."""
        rehearsal = self.rehearsals.made(query, target, f"savepoint-{asked.number}/{target.rpartition('/')[2]}")
        late = threading.Timer(max(until - time.monotonic(), 0.0), rehearsal.cancel)
        late.daemon = True
        late.start()
        try:
            how = str(json.loads(rehearsal.round())["how"])
        finally:
            late.cancel()
            rehearsal.close()
        return how if how in _ON_IT else ""


def _in_time(work: Future[list[SavedQuery]], asked: Save, done: str) -> list[SavedQuery]:
    """Raises ``EnvironmentProblem`` where it takes longer than was asked for, and what it raises."""
    try:
        return work.result(asked.timeout + _SAYS)
    except TimeoutError:
        raise EnvironmentProblem(
            f"the checkpoints are not {done} within {asked.timeout:g} s, and the storage does not say why",
            where=asked.place,
        ) from None


def _stood_there(error: BaseException) -> bool:
    return isinstance(error, Py4JJavaError) and str(error.java_exception.getClass().getName()) == _STOOD_THERE


def _directories(names: Sequence[str]) -> list[str]:
    """A directory's name for each query, no two the same."""
    found: list[str] = []
    for number, name in enumerate(names):
        plain = _ODD.sub("-", name).strip(".-")[:100] or "query"
        found.append(plain if plain not in found else f"{plain}.{number}")
    return found


def _copy(query: PendingQuery, asked: Save, directory: str) -> SavedQuery:
    assert query.checkpoint is not None, "it was asked for"
    target = f"{asked.place}/{directory}"
    done = json.loads(_copies(query).copy(query.checkpoint, target, _conf(query), _milliseconds(asked)))
    return SavedQuery(
        query.name,
        query.checkpoint,
        query.sink.kind,
        query.table or query.sink.directory or "",
        int(done["batch"]),
        directory,
        int(done["files"]),
        int(done["bytes"]),
        str(done["digest"]),
        within=int(done["within"]),
    )


def _discard(asked: Save, made: Sequence[tuple[PendingQuery, str]]) -> None:
    """What was copied goes; what cannot be removed is left to ``understudy dispose``."""
    for query, directory in made:
        with suppress(Py4JError, OSError):
            _copies(query).discard(f"{asked.place}/{directory}", _conf(query))


@contextmanager
def _naming(query: PendingQuery) -> Iterator[None]:
    """Raises ``EnvironmentProblem`` that names the query, for what Java or the channel to it raises."""
    try:
        yield
    except (Py4JError, OSError) as error:
        raise EnvironmentProblem(_told(error), where=f"query {query.name}") from error


def _told(error: Exception) -> str:
    """In a line, without the names of classes that Java puts before it."""
    if not isinstance(error, Py4JJavaError):
        return first_line(error)
    java = error.java_exception
    lines = str(java.getMessage() or "").splitlines()
    return lines[0] if lines else str(java.getClass().getSimpleName())


def _milliseconds(asked: Save) -> int:
    return round(asked.timeout * 1000)


def _copies(query: PendingQuery) -> Any:
    return java_class(query.session._jvm, "dev.understudy.savepoint.CheckpointCopy")  # noqa: SLF001


def _conf(query: PendingQuery) -> Any:
    return query.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
