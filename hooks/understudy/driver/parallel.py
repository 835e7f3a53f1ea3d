"""Calls at the same time, in threads of our own.

``concurrent.futures`` refuses work once the main thread has ended, and a script may live on in other threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Background(Generic[B]):
    """A call in a thread of its own, for whose answer one waits as long as one likes."""

    def __init__(self, function: Callable[[], B]) -> None:
        self._function = function
        self._answers: list[B] = []
        self._error: BaseException | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._call, daemon=True).start()

    def answer(self, within: float) -> B:
        """Raises what the call raised, and ``TimeoutError`` after so many seconds: it goes on then."""
        if not self._ended.wait(within):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def wait(self) -> None:
        """Until it has ended, however."""
        self._ended.wait()

    def _call(self) -> None:
        try:
            self._answers.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            self._error = error
        finally:
            self._ended.set()


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
