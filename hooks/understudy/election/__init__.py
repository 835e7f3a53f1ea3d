"""Who leads.

``records`` says what stands in a lock document, ``inputs`` what the machine is told, ``state`` what it remembers, ``commands`` what it
wants done; ``machine`` decides and does nothing else, ``elector`` does what was decided.

An election is *not* a fence: its holder may be frozen between a decision and a write. The resource refuses such a write
(DESIGN: fencing by claim). Nor is an election fair: a replica that is ready and named as successor goes first.
"""
