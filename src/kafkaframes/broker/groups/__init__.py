"""The group coordinator: classic groups, committed offsets, and their records in ``__consumer_offsets``."""
