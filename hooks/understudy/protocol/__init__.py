"""What crosses the border of a process or of a language: formats, and pure functions that write and read them.

| module | format | between |
| --- | --- | --- |
| ``driver_spec`` | environment variables and the specification in them | supervisor → driver |
| ``messages`` | JSON lines over a socketpair | supervisor ↔ driver |
| ``savepoint`` | what a savepoint holds of a query, in messages and in the manifest | driver → supervisor, command line |
| ``gate`` | a page of shared memory: may this replica write now | supervisor → driver, JVM |
| ``activity`` | a page of shared memory: what runs that the gate cannot hold | driver, its children, JVM → supervisor |
| ``counters`` | a page of shared memory: what the fence let through | JVM → driver, supervisor |
| ``claim`` | JSON in a checkpoint root, a sink or a document | every replica, Python and JVM |
| ``token`` | the fencing token as one integer | everywhere |
| ``names`` | labels, annotations and names of objects in the cluster | replicas, bundle, users |

``strict_json`` and ``typed`` read JSON without ambiguities, and check types. Nothing here opens a file, maps a page or waits: that is
for the rooms above. ``tests/vectors`` holds examples of the pages and of claims, valid and invalid, which the tests of both languages
read.
"""
