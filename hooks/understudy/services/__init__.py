"""High-availability services by name: what ``--ha`` chooses between, and how another package adds one (docs/high-availability.md)."""
