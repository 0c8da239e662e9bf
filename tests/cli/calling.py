"""Call the command line in this process, as tests of several commands do."""

from __future__ import annotations

from click.testing import CliRunner, Result

from kafkaframes.cli.main import cli


def ask(*arguments: object, stdin: bytes | str | None = None) -> Result:
    """Run ``kafkaframes`` with these arguments; an exception is in the result."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)


def ask_or_raise(*arguments: object, stdin: bytes | str | None = None) -> Result:
    """Run ``kafkaframes`` with these arguments; raise what it raises."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


def run_and_describe(*arguments: object, stdin: bytes | str | None = None) -> tuple[int, str, BaseException | None]:
    """Return exit status, output and exception."""
    result = ask(*arguments, stdin=stdin)
    return result.exit_code, result.output, result.exception


def ask_spec(*arguments: object, status: int = 0) -> str:
    """Run ``kafkaframes spec``; return what it printed."""
    result = ask("spec", *arguments)
    assert result.exit_code == status, result.output
    return result.output
