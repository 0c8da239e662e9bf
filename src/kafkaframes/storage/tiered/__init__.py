"""Tiered storage: segments that a broker has uploaded to an object store, read as parts of their log."""
