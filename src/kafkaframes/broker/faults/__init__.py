"""Tools for tests of clients: faults of requests and of the disk, the journal, and functions that inspect a broker."""
