"""The demo, the failover benchmark and the soak run: they kill Understudy and compare what is left row by row."""
