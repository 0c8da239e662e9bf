"""Convert logs to another record format or codec, offline, into a new directory or in place."""
