"""A log on disk: files, log, recovery, partition, tiered storage, copies and the cleaner."""
