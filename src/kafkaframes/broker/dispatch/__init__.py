"""From a request frame to its response, without I/O: the dispatcher, the table of APIs, and the fast path."""
