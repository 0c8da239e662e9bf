"""Verify logs: every checksum and every index."""
