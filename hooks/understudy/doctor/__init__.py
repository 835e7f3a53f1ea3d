"""What ``understudy doctor`` finds: facts are gathered by I/O, findings are made of them by pure functions. Nothing is repaired."""
