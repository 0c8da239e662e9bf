"""The group coordinator: classic, consumer and share groups, committed offsets, and their records.

State machines without sockets, threads or a time of their own: ``ports.py`` says what they need from outside,
``broker/coordinators.py`` gives it to them. Start reading at ``coordinator.py``.
"""
