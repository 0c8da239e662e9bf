"""Conformance vectors for other libraries: bytes with what they mean, written into a directory as JSON and files."""

from kafkaframes.testing.vectors.write import write_vectors

__all__ = ["write_vectors"]
