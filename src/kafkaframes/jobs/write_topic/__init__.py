"""Rows into topics from many tasks: packing, sequences, the transaction's time."""
