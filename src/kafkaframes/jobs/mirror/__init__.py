"""Copy topics batch by batch between clusters and log directories, once or continuously."""
