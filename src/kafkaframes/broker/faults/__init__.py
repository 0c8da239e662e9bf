"""What a test can do to a broker: faults of requests and of the disk, the journal, and functions that inspect it."""
