"""Work that is divided among processes."""

import io
import sys

import click
import pytest
from tests.cli.calling import CliRunner

from kafkaframes.cli import workers
from kafkaframes.cli.text import print_note, quiet_option
from kafkaframes.kernels import demand


def test_several_processes_return_results_in_order():
    tasks = list(range(40))
    assert [*workers.run_in_order(str, tasks, size_of=int, workers=2)] == [*map(str, tasks)]


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("is_quiet", [False, True])
def test_bars_and_notes_are_shown_unless_a_command_is_quiet(is_quiet, monkeypatch):
    terminal = FakeTerminal()
    monkeypatch.setenv("TERM", "xterm")  # progress bars need a capable terminal

    @click.command(params=[quiet_option])
    def command():
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            assert [
                *workers.run_in_order(str, [3, 4], size_of=lambda _: workers.MAX_SINGLE_PROCESS_BYTES // 4, workers=1)
            ] == ["3", "4"]
            print_note("starting")
            demand.print_progress("compiling")

    result = CliRunner().invoke(command, ["--quiet"] if is_quiet else [], catch_exceptions=False)
    assert result.exit_code == 0
    shown_words = [word in terminal.getvalue() for word in ("reading", "starting", "compiling")]
    assert shown_words == [not is_quiet] * 3
    assert not demand.is_quiet
