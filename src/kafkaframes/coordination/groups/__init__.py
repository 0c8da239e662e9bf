"""The group coordinator: classic, consumer, share and streams groups, their committed offsets, and their records.

The state machines have no sockets, no threads and no clock. ``ports.py`` defines the interfaces that the coordinators
need, and ``broker/state/coordinators.py`` implements them. Start reading at ``coordinator.py``.
"""
