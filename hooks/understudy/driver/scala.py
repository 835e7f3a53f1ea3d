"""Scala's objects as py4j shows them: what has no getter, and what is no Java collection."""

from __future__ import annotations

from typing import Any

from understudy.driver.java import java_class


def private_field(java_object: Any, name: str) -> Any:
    """The value of a private field; Spark's writers and Delta's builders have no getters."""
    found = java_object.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found.get(java_object)


def as_java(session: Any, collection: Any) -> Any:
    """A Scala sequence or map as Python's code can iterate over it."""
    return java_class(session._jvm, "scala.jdk.javaapi.CollectionConverters").asJava(collection)  # noqa: SLF001
