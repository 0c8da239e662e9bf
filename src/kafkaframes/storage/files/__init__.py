"""The files of a log directory as values: names, indexes, snapshots, checkpoints, locks. Each format has a module."""
