"""``python -m tests.interop [pytest's arguments]`` runs the tests in this folder in a temporary directory.

Brokers, Spark and their libraries write to this directory. It is removed after a successful run; otherwise it stays and
its path is printed. Every child process has a mark in its environment. A marked process that still runs at the end is
reported and killed, and the run fails: it would hold its ports and data. A run of whole files writes its trials of
other clients into docs/clients.md; ``--clients`` selects those files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.interop import clients_page

MARK_VARIABLE = "KAFKAFRAMES_INTEROP"
PATIENCE_SECONDS = 20  # time for Spark's JVMs, which end when they notice that Python has ended
TIMEOUT_SECONDS = 1200  # time limit of a test, which may run several JVMs on a busy machine
PROC_FOLDER = Path("/proc")
ROWS_FILE = "clients.json"
CLIENT_TESTS = ("test_other_clients.py", "test_frameworks.py", "test_streams_kills.py", "test_tools.py")


def main(arguments: list[str]) -> int:
    if "--clients" in arguments:
        arguments.remove("--clients")
        arguments += [str(Path(__file__).with_name(name)) for name in CLIENT_TESTS]
    place = Path(tempfile.mkdtemp(prefix="kafkaframes-interop-"))
    status = 1
    try:
        status = _pytest(place, arguments)
        if not any(
            argument.startswith("-k") or "::" in argument for argument in arguments
        ):  # otherwise the run has only some of a client's trials
            clients_page.write(place / ROWS_FILE)
    finally:
        running_processes = _find_running(place)
        for process, command in running_processes.items():
            os.kill(process, signal.SIGKILL)
            print(f"still running at the end, and killed now: {process} {command}")
        if running_processes or status:
            print(f"logs and data of the processes: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)
            print("no process is left running, and no file is left in the temporary directory")
    return status or bool(running_processes)


def _pytest(place: Path, arguments: list[str]) -> int:
    """Run pytest. After an interrupt, pytest still tears down its fixtures, which stops the brokers."""
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={place} -XX:-UsePerfData"
    environment = os.environ | {"TMPDIR": str(place), "JAVA_TOOL_OPTIONS": java.strip(), MARK_VARIABLE: str(place)}
    environment[clients_page.ROWS_FILE_VARIABLE] = str(place / ROWS_FILE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rf",
        "--timeout",
        str(TIMEOUT_SECONDS),
        *arguments,
    ]
    if not any((Path.cwd() / argument.partition("::")[0]).exists() for argument in arguments):
        command.append(str(Path(__file__).parent))
    running = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends Ctrl-C to pytest as well
    signal.signal(signal.SIGTERM, lambda *_: running.send_signal(signal.SIGINT))
    return running.wait()


def _find_running(place: Path) -> dict[int, str]:
    """Return the marked processes that do not end by themselves."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (marked_processes := _find_marked(f"{MARK_VARIABLE}={place}".encode())) and time.monotonic() < deadline:
        time.sleep(0.5)
    return marked_processes


def _find_marked(mark: bytes) -> dict[int, str]:
    commands = {}
    for folder in PROC_FOLDER.glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if command:  # otherwise the process has ended and waits for its parent
                    commands[int(folder.name)] = command[:200]
        except OSError:  # the process has ended in the meantime, or is another user's
            continue
    return commands


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
