"""Measure what messages and records cost on the wire, and what they would cost with another layout."""
