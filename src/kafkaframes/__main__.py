"""``python -m kafkaframes`` is the command ``kafkaframes``."""

from kafkaframes.cli.main import main

main()
