"""Copies of topics, batch by batch: between clusters and log directories, once or for as long as it runs."""
