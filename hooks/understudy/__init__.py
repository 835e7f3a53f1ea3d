"""High availability for PySpark drivers. Scripts need nothing of it; those that want to may ask :func:`current`."""

from understudy.lead import Lead, current

__all__ = ["Lead", "current"]

__version__ = "0.1.0"
