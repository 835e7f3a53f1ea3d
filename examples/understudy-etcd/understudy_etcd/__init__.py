"""``--ha etcd``: Understudy's lock and documents in etcd. ``PLUGIN`` is what the entry point names."""

from understudy_etcd.services import PLUGIN

__all__ = ["PLUGIN"]
