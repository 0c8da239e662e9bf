"""A broker from start to stop: the class ``Broker``, opening its directories, and its periodic work."""
