"""Configuration: what a replica is told, declared once, checked once and never adjusted."""
