"""Call ``kafkaframes dump-log``, as the tests of its parts do."""

from __future__ import annotations

from click.testing import CliRunner

from kafkaframes.cli.dump_log import command
from kafkaframes.errors import KafkaframesError


def run(*arguments: str, status: int = 0) -> str:
    return run_bytes(*arguments, status=status).decode()


def run_bytes(*arguments: str, status: int = 0) -> bytes:
    result = CliRunner().invoke(command, list(arguments))
    if isinstance(result.exception, KafkaframesError):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.stdout_bytes
