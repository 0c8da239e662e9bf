"""Behaviours of tests/everyday, performed by other Python clients and by ours, and compared by their results.

A performance (``producing.py``, ``consuming.py`` ...) is written once, against the methods in ``interface.py``. An
adapter calls the client's own methods: ``ours.py``, ``confluent.py``, ``kafka_python.py``, ``aio.py``. Each client runs
in a process of its own (``performer.py``), the peers in the virtual environment of the other interop tests. The process
that runs the tests has the embedded broker and carries out what a performance requests (``stage.py``).
"""
