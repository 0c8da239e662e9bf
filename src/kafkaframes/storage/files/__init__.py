"""The files of a log directory as Python values: names, indexes, snapshots, checkpoints and locks.

Each file format has a module.
"""
