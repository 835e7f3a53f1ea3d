"""What a script may ask of the replica that runs it. A script that never asks is held and fenced all the same.

It is for effects that understudy cannot see: requests to services, files that Python writes, a model that is pushed to a registry.

    with understudy.current().step() as token:
        requests.post(url, json=report, headers={"Fencing-Token": str(token)})
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_REHEARSABLE = "_understudy_rehearsable"


class Leadership(Protocol):
    """``epoch`` is the leader's, 0 on a standby. ``token`` grows with every start of a driver that leads, over all replicas; 0 on a
    standby. A service that keeps the highest token it has seen, and refuses lower ones, is fenced. ``rehearsing``: this thread runs
    a :func:`rehearsable` function in a rehearsal, which leads nothing; false everywhere else.
    """

    @property
    def leads(self) -> bool: ...

    @property
    def epoch(self) -> int: ...

    @property
    def token(self) -> int: ...

    @property
    def rehearsing(self) -> bool: ...

    def step(self) -> AbstractContextManager[int]:
        """Wait until this replica leads, then run the block; its value is the token. Raises ``LeadershipLost``.

        A leader that is told to stop waits for a block that has begun, for as long as ``--stop-patience`` says (in a
        ``foreachBatch`` only if that one usually ends within it). *Not* guaranteed: that a block runs once. A successor's script
        begins at its first line, and a leader that is frozen in a block goes on with it when it thaws. A service that must not
        be called twice compares tokens. In a rehearsal no block is run: the function's rehearsal ends there.
        """
        ...


class _WithoutReplicas:
    """Under plain Python or spark-submit every script leads: there is no other replica."""

    leads = True
    epoch = 0
    token = 0
    rehearsing = False

    @contextmanager
    def step(self) -> Iterator[int]:
        yield 0


_leadership: Leadership = _WithoutReplicas()


def current() -> Leadership:
    """The leadership as it stands now; ask again rather than keep an answer."""
    return _leadership


def rehearsable(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a ``foreachBatch`` function as one that standbys may call in rehearsals, with real batches and their numbers.

    Its Spark writers are redirected then, and :attr:`Leadership.rehearsing` is true. *Not* guaranteed: anything about effects
    without Spark. Requests, files that Python writes and connections that it opens by itself happen in rehearsals, too, unless the
    function asks. So does what it gives to any thread made before, as through a queue: that thread is no part of the rehearsal, and
    writes at the grant what it got in one, unless it tried to before. Elsewhere the mark changes nothing.
    """

    @functools.wraps(function)
    def marked(*arguments: P.args, **options: P.kwargs) -> T:
        return function(*arguments, **options)

    setattr(marked, _REHEARSABLE, marked)
    return marked


def is_rehearsable(function: Callable[..., Any]) -> bool:
    """Whether this very function is marked: a decorator around it, with code of its own, may have copied its attributes."""
    plain = getattr(function, "__func__", function)  # of a method
    return getattr(plain, _REHEARSABLE, None) is plain


def install(leadership: Leadership) -> None:
    """The driver's call, before the script's first line."""
    global _leadership  # noqa: PLW0603 - one process runs one script
    _leadership = leadership
