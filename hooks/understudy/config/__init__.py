"""Configuration: what a replica is told, declared once, checked once and never adjusted.

``tree`` declares the options of ``understudy run``; ``option`` reads declarations; ``bundle`` has the keys that come from them;
``timings`` holds the profiles of lease timing.
"""
