"""Doubles of servers, clocks and files that several rooms of tests use."""
