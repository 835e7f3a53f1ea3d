"""Versioned documents that other replicas can see, and compare-and-set on them.

What is stored in them is none of this room's business.
"""
