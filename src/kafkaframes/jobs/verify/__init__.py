"""Verify a log: every checksum, every index."""
