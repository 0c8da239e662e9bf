"""The dispatcher, the table of APIs, and the fast path, which turn a request frame into a response without I/O."""
