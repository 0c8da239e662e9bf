"""The jobs: a folder each, from settings to a plan of tasks, to their results, to one result."""
