"""What tests, end-to-end tests and benchmarks share: observer, process killer, feeds, row comparison, fault injectors.

Sees the product from outside, as files, processes and requests; imports none of its code.
"""
