"""One file per API; see ``kafkaframes.broker`` for what a file declares, and ``table.py`` for who finds it."""
