"""A broker's life from start to stop: the class ``Broker``, the opening of directories, and the periodic work."""
