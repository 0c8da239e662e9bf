"""Offline rewrites of logs: another record format, another codec, a compaction. A new directory, complete or absent."""
