"""Whose settings a session has while queries start that were declared with different ones."""

from __future__ import annotations

import random
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver.session_snapshot import SessionSnapshot, SettingsInForce

#: What a start takes, in seconds, between its call and the copy that Spark makes.
RESOLVES = 0.01


class Session:
    """One setting. Its name in the JVM is its own."""

    def __init__(self, name: str = "only") -> None:
        self.now = "script"
        self._jsparkSession = SimpleNamespace(sessionUUID=lambda: name, of=self)


class Settings:
    """As ``SessionSettings`` in the JVM."""

    def __init__(self, value: str) -> None:
        self.value = value

    def inForce(self, java: Any) -> bool:  # noqa: N802 - Java's name
        return bool(java.of.now == self.value)

    def put(self, java: Any) -> str | None:
        if self.value == "refused":
            raise ValueError(self.value)
        before, java.of.now = java.of.now, self.value
        return None if before == self.value else before

    def replaced(self, java: Any, before: str) -> None:
        if java.of.now == self.value:
            java.of.now = before


def declared(value: str) -> SessionSnapshot:
    return SessionSnapshot(Settings(value), None)


def always() -> bool:
    return True


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_each_start_has_the_settings_that_it_was_declared_with_all_along() -> None:
    force, session, choose = SettingsInForce(), Session(), random.Random(1)
    wrong: list[tuple[str, str]] = []

    def start(value: str) -> None:
        with force.of(declared(value), session, always):
            for _ in range(2):
                if session.now != value:
                    wrong.append((value, session.now))
                time.sleep(RESOLVES)

    def read() -> None:
        with force.of_script(session):
            time.sleep(RESOLVES)
            if session.now != "script":
                wrong.append(("script", session.now))

    starts = [threading.Thread(target=start, args=(value,)) for value in ("script", "a", "b", "b", "script", "a")]
    threads = starts + [threading.Thread(target=read) for _ in range(3)]
    choose.shuffle(threads)
    run_all(threads)
    assert not wrong
    assert session.now == "script"
    assert not force._sessions, "nothing is kept of a session in which nothing starts"


@pytest.mark.parametrize("value", ["script", "other"])
def test_starts_that_agree_go_on_together_and_so_do_those_of_other_sessions(value: str) -> None:
    force, together = SettingsInForce(), threading.Barrier(4, timeout=30)
    one, another = Session("one"), Session("another")

    def start(session: Session, given: str) -> None:
        with force.of(declared(given), session, always):
            together.wait()

    agreeing = [threading.Thread(target=start, args=(one, value)) for _ in range(3)]
    run_all([*agreeing, threading.Thread(target=start, args=(another, "elsewhere"))])
    assert not together.broken
    assert (one.now, another.now) == ("script", "script")


def test_a_start_that_ends_takes_the_settings_from_none_that_it_agrees_with() -> None:
    force, session = SettingsInForce(), Session()
    with force.of(declared("a"), session, always):
        with force.of(declared("a"), session, always):
            pass
        with force.of(declared("a"), session, always):  # looks whether the first one needs them still
            pass
        assert session.now == "a"
    assert session.now == "script"


def test_a_start_that_calls_a_listener_back_holds_nothing_any_more() -> None:
    """The listener may start a query, and that start waits for the listener."""
    force, session, copied = SettingsInForce(), Session(), False
    with force.of(declared("a"), session, lambda: not copied):
        copied = True
        with force.of_script(session):
            assert session.now == "script"
        with force.of(declared("b"), session, always):
            assert session.now == "b"
    assert session.now == "script"
    assert not force._sessions


def test_what_the_script_sets_meanwhile_stays() -> None:
    force, session = SettingsInForce(), Session()
    with force.of(declared("a"), session, always):
        session.now = "set by the script"
    assert session.now == "set by the script"


def test_settings_that_cannot_be_had_any_more_fail_one_start_and_hold_up_none() -> None:
    force, session = SettingsInForce(), Session()
    with pytest.raises(ValueError, match="refused"), force.of(declared("refused"), session, always):
        pytest.fail("it has started")
    with force.of(declared("a"), session, always):
        assert session.now == "a"
    assert session.now == "script"
