"""The entry point: errors of the machine are one line, and the help names every command."""

import shlex
import signal
import subprocess
import sys

import pytest
from tests.cli.calling import ask

from kafkaframes.cli.main import COMMAND_SECTIONS, COMMANDS, cli


def test_a_system_error_is_one_line(tmp_path, monkeypatch, capsys):
    from kafkaframes.cli import main as module

    def fail():
        raise OSError(5, "Input/output error", "/dev/broken")

    monkeypatch.setattr(module, "cli", fail)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # main() replaces the hook
    monkeypatch.setattr(module.atexit, "register", lambda _: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as exit_info:
            module.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "kafkaframes: Input/output error (at /dev/broken)\n"


# Every import has such callbacks. Python ignores exceptions in them, including those of signal handlers.
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


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_python_ignores_still_stops_a_command(name, status):
    process = subprocess.run([sys.executable, "-c", SWALLOWING.format(name=name)], capture_output=True, timeout=200)
    assert process.returncode == status
    assert b"ignored" not in process.stderr
    assert b"Traceback" not in process.stderr


# Like SWALLOWING, but the repeated signal arrives before the hook that sends it has returned.
SLOW_HOOK_CODE = """
import threading, time
start = threading.Thread.start
def slow(thread):
    start(thread)
    if thread.daemon:
        time.sleep(0.2)
threading.Thread.start = slow
"""


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_is_repeated_until_it_is_handled(name, status):
    code = SLOW_HOOK_CODE + SWALLOWING.format(name=name)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert process.returncode == status
    assert b"ignored" not in process.stderr


# A signal after the command: while it waits for threads (repeatedly, as a signal just before the wait is seen after
# it), while Python runs its exit handlers, and while modules are unloaded.
SIGNAL_AFTER_COMMAND_CODE = """
import atexit, os, signal, threading, time
from kafkaframes.cli import main as module
def send():
    os.kill(os.getpid(), signal.{name})
def wait():
    threading.main_thread().join()
    while True:
        send()
        time.sleep(0.05)
class Late:
    def __del__(self, send=send):
        send()
if "{when}" == "threads":
    threading.Thread(target=wait).start()
if "{when}" == "exit":
    atexit.register(send)  # called after main's own
if "{when}" == "modules":
    late = Late()
module.cli = lambda: print("done")
module.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("when", ["threads", "exit", "modules"])
def test_a_signal_after_the_command_does_not_change_its_output(when, name):
    script = SIGNAL_AFTER_COMMAND_CODE.format(name=name, when=when)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=50)
    status = 128 + signal.Signals[name] if when == "threads" else 0
    assert (process.returncode, process.stdout, process.stderr) == (status, b"done\n", b"")


def test_the_help_has_every_command_under_its_heading():
    lines = ask("--help").output.splitlines()
    headings = [f"{heading}:" for heading in COMMAND_SECTIONS]
    shown_lines = [
        line.strip() if line in headings else line.split()[0]
        for line in lines
        if line in headings or line[2:3].isalpha()
    ]
    expected_lines = [text for heading, rows in COMMAND_SECTIONS.items() for text in (f"{heading}:", *rows)]
    assert shown_lines[shown_lines.index(headings[0]) :] == expected_lines
    assert len(COMMANDS) == sum(map(len, COMMAND_SECTIONS.values()))


def test_each_line_of_the_help_fits_a_terminal():
    text = cli.get_help(cli.make_context("kafkaframes", [], resilient_parsing=True, terminal_width=80))
    width = max(map(len, COMMANDS))
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name.ljust(width)}  {summary}\n" in f"{text}\n", name


@pytest.mark.parametrize("command", ["info", "verify", "broker"])
def test_the_error_for_a_closed_standard_output_is_one_line(command, tmp_path):
    words = f"exec {shlex.quote(sys.executable)} -m kafkaframes {command} {shlex.quote(str(tmp_path))} >&-"
    process = subprocess.run(["sh", "-c", words], stderr=subprocess.PIPE, text=True, timeout=120)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert "standard output is closed" in process.stderr


def test_a_closed_standard_error_loses_no_result(tmp_path):
    words = f"exec {shlex.quote(sys.executable)} -m kafkaframes info {shlex.quote(str(tmp_path))} 2>&-"
    process = subprocess.run(["sh", "-c", words], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (process.returncode, process.stdout) == (2, "")
