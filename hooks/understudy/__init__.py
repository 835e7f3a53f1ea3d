"""High availability for PySpark drivers. Scripts need nothing of it; those that want to may ask :func:`current`."""

from understudy.leadership import Leadership, current

__all__ = ["Leadership", "current"]

__version__ = "0.1.0"
