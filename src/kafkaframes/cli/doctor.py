"""``kafkaframes doctor``: checks this installation and its environment, and prints how to fix problems."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from kafkaframes import __version__
from kafkaframes.cli.options import make_json_option
from kafkaframes.cli.text import make_console
from kafkaframes.records.libraries import LIBRARIES
from kafkaframes.spark.runtime import _compat
from kafkaframes.spark.sessions import java

MIN_PYTHON_VERSION = (3, 11)
# codec -> (distribution, module)
CODEC_LIBRARIES = {
    "gzip": ("isal", "isal"),
    "gzip, libdeflate": ("deflate", "deflate"),
    "snappy": ("cramjam", "cramjam"),
    "lz4": ("lz4", "lz4"),
    "zstd": ("zstandard", "zstandard"),
    "CRC-32C": ("google-crc32c", "google_crc32c"),
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A line of the ``doctor`` report. ``state`` is ok, note (a feature is missing) or bad (no command works)."""

    what: str
    state: str
    result: str
    advice: str = ""


def check_python() -> Iterator[CheckResult]:
    """Check the version of the interpreter."""
    result = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < MIN_PYTHON_VERSION:
        yield CheckResult("Python", "bad", result, "install Python 3.11 or later")
    else:
        yield CheckResult("Python", "ok", result)
    yield CheckResult("kafkaframes", "ok", __version__)


def check_codecs() -> Iterator[CheckResult]:
    """Check the compression libraries."""
    for codec, (distribution, module) in CODEC_LIBRARIES.items():
        if importlib.util.find_spec(module) is None:
            yield CheckResult(codec, "bad", f"{distribution} is missing", f"pip install {distribution}")
        else:
            yield CheckResult(codec, "ok", f"{distribution} {importlib.metadata.version(distribution)}")


def check_decompression() -> Iterator[CheckResult]:
    """Check that the C functions of the libraries are accessible.

    These C functions decompress two to four times as fast.
    """
    slow_libraries = ", ".join(library.codec for library in LIBRARIES if not library.load_addresses())
    if slow_libraries:
        yield CheckResult(
            "decompression",
            "note",
            f"{slow_libraries}: the library lacks C functions, so decompression is slower",
            "install the wheel from PyPI",
        )
    else:
        yield CheckResult("decompression", "ok", "uses the C functions of the libraries")


def check_spark() -> Iterator[CheckResult]:
    """Check that PySpark is installed, and a Java version that it supports."""
    version = _compat.get_pyspark_version()
    if version is None:
        yield CheckResult("Spark", "note", "PySpark is not installed", "pip install 'kafkaframes[spark]'")
    elif version not in _compat.SUPPORTED_JAVA_VERSIONS:
        yield CheckResult("Spark", "note", f"PySpark {version[0]}.{version[1]}", "tested with PySpark 4.0 to 4.3 only")
    else:
        yield CheckResult("Spark", "ok", f"PySpark {importlib.metadata.version('pyspark')}")
    search = java.find_java(_compat.get_supported_java_versions(version))
    if search.java is not None:
        yield CheckResult("Java", "ok", str(search.java))
    else:
        fit_versions = java.describe_versions(_compat.get_supported_java_versions(version))
        yield CheckResult(
            "Java",
            "note",
            "; ".join(search.refused) or "Java was not found in JAVA_HOME or on PATH",
            f"Spark needs {fit_versions}: {_describe_java_installation(version)}",
        )


def _describe_java_installation(spark: tuple[int, int] | None) -> str:
    """Return how to install a Java version that this Spark release supports."""
    fits = java.EXTRA_JAVA_VERSION in _compat.get_supported_java_versions(spark)
    return (
        f"{'pip install ' + repr('kafkaframes[java]') if fits else java.NEWER_SPARK_COMMAND}, or {java.INSTALL_ADVICE}"
    )


def check_workers() -> Iterator[CheckResult]:
    """Check that the Python workers of a Spark session would run this interpreter.

    ``kafkaframes.spark.session()`` ensures this. Any other session runs PYSPARK_PYTHON, or else the first ``python3``
    in PATH, which may be another interpreter or lack kafkaframes.
    """
    subject, worker_python = "Spark's workers", os.environ.get("PYSPARK_PYTHON")
    interpreter = worker_python or shutil.which("python3")
    if interpreter is not None and os.path.realpath(interpreter) == os.path.realpath(sys.executable):
        yield CheckResult(subject, "ok", "run this Python")
    elif worker_python:
        yield CheckResult(
            subject, "note", f"PYSPARK_PYTHON={worker_python}", "unset it, or install kafkaframes for that Python"
        )
    else:
        advice = (
            f"use kafkaframes.spark.session(), or set PYSPARK_PYTHON={sys.executable} before you start another session"
        )
        yield CheckResult(
            subject,
            "ok",
            f"this Python with kafkaframes.spark.session(); {interpreter or 'none'} with other sessions",
            advice,
        )


def check_kernels() -> Iterator[CheckResult]:
    """Check that the kernels are compiled, or that they can be compiled into a directory. List rejected ones."""
    from kafkaframes.kernels import demand, directories, workers

    if directories.requires_plain():
        advice = f"unset {directories.PLAIN_KERNELS_VARIABLE}, which is for debugging"
        yield CheckResult("kernels", "note", "kernels run as plain Python, several hundred times slower", advice)
    units = demand.list_kernel_units()
    is_ready = [unit for unit in units if unit.file is not None]
    result = f"{len(is_ready)} of {len(units)} kernel files are compiled"
    if len(is_ready) == len(units):
        location = sorted({str(unit.file.parent) for unit in is_ready if unit.file is not None})
        yield CheckResult("kernels", "ok", f"{result}, in {', '.join(location)}")
    else:
        advice = (
            "the first use compiles the kernels that it needs; run kafkaframes kernels warm to compile all of them now"
        )
        if not workers.has_numba():
            advice = f"the others run as plain Python, several hundred times slower; {workers.NUMBA_INSTALL_COMMAND}"
        yield CheckResult("kernels", "note", result, advice)
    for entry in directories.list_folders():
        if entry.distrust:
            yield CheckResult("kernels", "note", f"{entry.folder} is not used", entry.distrust)
    if directories.cache_folder() is None and len(is_ready) < len(units):
        advice = (
            f"set {directories.CACHE_FOLDER_VARIABLE} to a folder that only you can write to; otherwise each process "
            "compiles its kernels"
        )
        yield CheckResult("kernels", "note", "no safe folder is writable", advice)


def check_extras() -> Iterator[CheckResult]:
    """List the installed extras, and the others. A checkout that is not installed has no list of extras."""
    try:
        requirements = importlib.metadata.requires("kafkaframes") or []
    except importlib.metadata.PackageNotFoundError:
        return
    is_installed: dict[str, bool] = {}  # by extra: whether all of its packages are installed
    for requirement in requirements:
        package, extra = _PACKAGE_NAME.match(requirement), _EXTRA_CONDITION.search(requirement)
        if package and extra and extra[1] not in _SEPARATE_EXTRAS:
            is_installed[extra[1]] = is_installed.get(extra[1], True) and _has_package(package[0])
    installed, missing = (
        sorted(name for name in is_installed if is_installed[name] is state) for state in (True, False)
    )
    advice = f"not installed: {', '.join(missing)}; pip install 'kafkaframes[{missing[0]}]' adds one" if missing else ""
    yield CheckResult("extras", "ok", ", ".join(installed) or "none", advice)


# The parts of a requirement of an extra, such as: pandas<4,>=2.2; extra == 'pandas'
_PACKAGE_NAME = re.compile(r"[\w.-]+")
_EXTRA_CONDITION = re.compile(r"\bextra == ['\"]([\w-]+)['\"]")
_SEPARATE_EXTRAS = ("spark", "java", "compile")  # extras with lines of their own: Spark, Java and kernels


def _has_package(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


CHECKS: tuple[Callable[[], Iterator[CheckResult]], ...] = (
    check_python,
    check_codecs,
    check_decompression,
    check_kernels,
    check_spark,
    check_workers,
    check_extras,
)


def run_checks() -> list[CheckResult]:
    """Run every check."""
    return [finding for check in CHECKS for finding in check()]


@click.command()
@make_json_option("Print the findings as JSON.")
@click.option("--only", metavar="WHAT", help="Check a single component (Java, Spark, zstd); exit 1 if it is not ok.")
def command(as_json: bool, only: str | None) -> None:
    """Check the installation (Python, Java, Spark, codecs, kernel cache, extras) and show how to fix its problems.

    Exit status: 1 if something that every command needs is missing.
    """
    findings = [finding for finding in run_checks() if only is None or finding.what.lower() == only.lower()]
    if only is not None and not findings:
        raise click.BadParameter(
            f"unknown component {only}; run `kafkaframes doctor` for the list", param_hint="--only"
        )
    if as_json:
        rows = [{"what": row.what, "state": row.state, "found": row.result, "advice": row.advice} for row in findings]
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_findings(findings)
    if any(finding.state == "bad" or (only and finding.state != "ok") for finding in findings):
        sys.exit(1)


def _print_findings(findings: list[CheckResult]) -> None:
    from rich.markup import escape
    from rich.table import Table

    marks_by_state = {"ok": "[green]✓[/]", "note": "[yellow]![/]", "bad": "[red]✗[/]"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(marks_by_state[finding.state], f"[bold]{escape(finding.what)}[/]", escape(finding.result))
        if finding.advice:
            table.add_row("", "", f"[yellow]{escape(finding.advice)}[/]")
    make_console().print(table)
