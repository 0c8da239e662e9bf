"""Behaviours of tests/everyday, performed by other Python clients and by this package's client, with compared results.

A performance (``producing.py``, ``consuming.py`` ...) is a function that uses the methods in ``interface.py``. An
adapter calls the client's own methods: ``ours.py``, ``confluent.py``, ``kafka_python.py``, ``aio.py``. Each client runs
in a separate process (``performer.py``), the peers in the virtual environment of the other interop tests. The test
process has the embedded broker, and executes the operations on it that a performance requests (``stage.py``).
"""
