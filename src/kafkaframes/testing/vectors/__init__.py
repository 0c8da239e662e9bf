"""Conformance vectors for other libraries: bytes and their meaning, written to a directory as JSON and binary files."""

from kafkaframes.testing.vectors.write import write_vectors

__all__ = ["write_vectors"]
