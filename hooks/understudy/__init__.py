"""High availability for PySpark drivers. Scripts need nothing of it; those that want to may ask :func:`current`, and mark functions
as :func:`rehearsable`.
"""

from understudy.leadership import Leadership, current, rehearsable

__all__ = ["Leadership", "current", "rehearsable"]

__version__ = "0.1.0"
