"""Who leads.

``records`` says what stands in a lock document, ``facts`` what the machine is told and what it answers, ``machine`` decides and does
nothing else, ``elector`` does what was decided.

What an election is *not*: a fence. Its holder may be frozen between a decision and a write; the resource refuses (DESIGN:
fencing by claim). And it is not fair: whoever is ready and named goes first.
"""
