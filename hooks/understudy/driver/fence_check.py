"""Whether a session's writers pass the fence: asked of the session itself, before its first claim and before each batch writer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from understudy.driver.java import java_class
from understudy.errors import EnvironmentProblem, UnderstudyError

P = ParamSpec("P")
T = TypeVar("T")

#: How the objects that have writers call their session.
_SESSIONS = ("_spark", "sparkSession", "_sparkSession", "_session")


class FenceCheck:
    """``refuse`` ends the driver: an exception would be the script's to swallow, and its rows gone with it."""

    def __init__(self, refuse: Callable[[UnderstudyError], NoReturn]) -> None:
        self.refuse = refuse
        self._settings: Any = None
        self._gateway: Any = None

    def attached(self, gateway: Any) -> None:
        self._gateway = gateway
        self._settings = java_class(gateway.jvm, "dev.understudy.fence.FenceSettings")

    def install(self, jconf: Any) -> None:
        """Put the fence into the configuration of a context that is about to be made."""
        self._answer(self._settings.install(jconf), "SparkConf")

    def session(self, session: Any, where: str = "SparkSession") -> None:
        """One call to the JVM: this comes before every batch that is written."""
        if session.sparkContext._gateway is not self._gateway:  # noqa: SLF001
            what = "the session's JVM was not started here, and has no fence"
            self.refuse(EnvironmentProblem(what, where=where, remedy="Let the script make a session without a gateway"))
        self._answer(self._settings.enforce(session._jsparkSession), where)  # noqa: SLF001

    def writer(self, target: Any) -> None:
        """``target``: the object whose method is about to write."""
        if (session := _session_of(target)) is not None:
            self.session(session)

    def refusing(self, call: Callable[P, T]) -> Callable[P, T]:
        """``call``, whose ``UnderstudyError`` ends the driver: it would come again at every start."""

        @functools.wraps(call)
        def called(*arguments: P.args, **options: P.kwargs) -> T:
            try:
                return call(*arguments, **options)
            except UnderstudyError as error:
                self.refuse(error)

        return called

    def _answer(self, foreign: str, where: str) -> None:
        if foreign:
            key, _, value = foreign.partition("=")
            self.refuse(foreign_setting(key, None if value == "null" else value, where))


def foreign_setting(key: str, value: str | None, where: str) -> EnvironmentProblem:
    what = f"{key} is not set" if value is None else f"{key} is {value}"
    return EnvironmentProblem(
        f"{what}, so a stale leader could write past the fence",
        where=where,
        remedy="Leave it to understudy: do not set it",
    )


def fence_class(gateway: Any, jar: str) -> Any:
    """The JVM's side. Raises ``EnvironmentProblem`` where the jar is not on its class path."""
    fence = java_class(gateway.jvm, "dev.understudy.fence.Fence")
    if isinstance(fence, JavaPackage):
        raise EnvironmentProblem(
            f"the JVM has started without {jar}",
            where="fence",
            remedy="See that it can be read, and that nothing replaces SPARK_DIST_CLASSPATH, by which Spark finds it",
        )
    return fence


def _session_of(target: Any) -> Any:
    if isinstance(target, SparkSession):
        return target
    for name in _SESSIONS:
        if isinstance(found := getattr(target, name, None), SparkSession):
            return found
    return SparkSession._instantiatedSession  # noqa: SLF001
