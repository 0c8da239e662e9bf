"""The handlers, a file for each family of APIs; each is decorated with what is to know of its API (``Api``)."""
