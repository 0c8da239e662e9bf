"""The log on disk: directories, segments, indexes, snapshots, checkpoints."""
