"""A request of a connection, the declaration of its API, its errors and its quotas. The lowest layer of the broker."""
