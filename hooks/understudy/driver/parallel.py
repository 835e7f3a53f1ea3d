"""Calls at the same time, in threads of our own.

``concurrent.futures`` refuses work once the main thread has ended, and a script may live on in other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def in_background(function: Callable[[], B]) -> Future[B]:
    """Call it in a daemon thread of its own: one that hangs keeps the interpreter from nothing, as a pool's would."""
    future: Future[B] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def call_each(function: Callable[[A], B], arguments: Sequence[A], *, at_most: int) -> list[B]:
    """The answers in the order of ``arguments``. Raises what a call raised, the first in that order, once all have ended."""
    left = iter(range(len(arguments)))
    answers: dict[int, B] = {}
    errors: dict[int, BaseException] = {}
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            try:
                answers[number] = function(arguments[number])
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                errors[number] = error

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(at_most, len(arguments)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[min(errors)]
    return [answers[number] for number in range(len(arguments))]
