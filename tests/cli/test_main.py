"""The entry point: errors of the machine are one line, and the help names every command."""

import signal
import subprocess
import sys

import pytest


def test_an_error_of_the_machine_is_one_line(tmp_path, monkeypatch, capsys):
    from kafkaframes.cli import main as module

    def fail():
        raise OSError(5, "Input/output error", "/dev/broken")

    monkeypatch.setattr(module, "cli", fail)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # main() sets its own
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            module.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kafkaframes: Input/output error (at /dev/broken)\n"


# Every import has such callbacks; Python ignores what is raised in them, by the handler of a signal, too.
SWALLOWING = """
import os, signal, sys, time, weakref
from kafkaframes.cli import main as module
class Thing: pass
def work():
    thing = Thing()
    def told(_):
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000): pass
    reference = weakref.ref(thing, told)
    del thing
    time.sleep(600)
module.cli = work
module.main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", -2)])
def test_a_signal_that_python_swallows_stops_a_command_all_the_same(name, status):
    ended = subprocess.run([sys.executable, "-c", SWALLOWING.format(name=name)], capture_output=True, timeout=200)
    assert ended.returncode == status
    assert b"ignored" not in ended.stderr
