"""Make a release: ``make release VERSION=1.2.3``, or ``python tools/release.py 1.2.3``.

Dates the changelog's section, sets the version, updates the lock file, builds and checks the files of the release, and
commits and tags the result. Nothing is pushed: the last line of output is the command that does it. The workflow
``release.yml`` publishes a tag when it is pushed.

A failed step restores the files that were changed. Steps are shell commands, which options replace.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[1]
CHANGELOG: Final = "CHANGELOG.md"
VERSION_FILES: Final = {  # file -> text before and after the version
    "src/kafkaframes/_version.py": ('__version__ = "', '"'),
    "tools/conda/recipe.yaml": ('\n  version: "', '"'),
}
LOCK_FILE: Final = "uv.lock"
SECTIONS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_UNRELEASED: Final = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^### (.*)$", re.MULTILINE)

Version = tuple[int, int, int]


class ReleaseError(Exception):
    """Raised if a condition of a release is not met, or a step failed."""


class Repository:
    """A git checkout.

    Attributes:
        top: its directory.
    """

    def __init__(self, top: Path) -> None:
        self.top = top

    def git(self, *arguments: str) -> str:
        """Return the output of a git command.

        Raises:
            ReleaseError: the command failed.
        """
        result = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ReleaseError(f"git {arguments[0]} failed: {result.stderr.strip()}")
        return result.stdout.strip()

    def run_step(self, command: str) -> None:
        """Run a shell command, with its output shown.

        Raises:
            ReleaseError: the command failed.
        """
        print(f"== {command}", flush=True)
        status = subprocess.run(command, shell=True, cwd=self.top, check=False).returncode
        if status != 0:
            raise ReleaseError(f"{command!r} ended with status {status}; the release was not made")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return (self.top / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write the text of a file."""
        (self.top / path).write_text(text, encoding="utf-8")


def parse_version(text: str) -> Version:
    """Return the numbers of a version.

    Raises:
        ReleaseError: it is not three numbers.
    """
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", text):
        raise ReleaseError(f"{text!r} is not a version; expected three numbers, such as VERSION=1.2.3")
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def check_repository(repository: Repository, version: str, branch: str) -> None:
    """Check that a version can be released from a checkout.

    Raises:
        ReleaseError: the tree is dirty, another branch is checked out, the tag exists, or the version does not follow
            the last one.
    """
    current_branch = repository.git("branch", "--show-current")
    if current_branch != branch:
        raise ReleaseError(f"the branch is {current_branch!r}; releases are made from {branch!r}")
    if changes := repository.git("status", "--porcelain"):
        raise ReleaseError(
            f"the tree has uncommitted changes: {', '.join(changes.split()[1::2][:5])}; commit them first"
        )
    tags = repository.git("tag", "--list", "v*").split()
    if f"v{version}" in tags:
        raise ReleaseError(f"the tag v{version} exists; a version is released once")
    old_versions = sorted(parse_version(tag[1:]) for tag in tags if re.fullmatch(r"v\d+\.\d+\.\d+", tag))
    if old_versions and (number := parse_version(version)) not in (successors := next_versions(old_versions[-1])):
        choices = ", ".join(_text(successor) for successor in successors)
        raise ReleaseError(f"{_text(number)} does not follow {_text(old_versions[-1])}; expected one of {choices}")


def next_versions(version: Version) -> tuple[Version, Version, Version]:
    """Return the next patch, minor and major version."""
    major, minor, patch = version
    return (major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)


def date_changelog(text: str, version: str, today: datetime.date) -> str:
    """Return the changelog with its unreleased changes under a version, and an empty section for the next one.

    Raises:
        ReleaseError: there are no unreleased changes, a heading is not one of Keep a Changelog, or the changes require
            a minor or a major version.
    """
    match = _UNRELEASED.search(text)
    if match is None or not match[1].strip():
        raise ReleaseError(f"{CHANGELOG} has no changes under '## Unreleased'")
    headings = _HEADING.findall(match[1])
    if unknown := [heading for heading in headings if heading not in SECTIONS]:
        raise ReleaseError(f"{CHANGELOG} has the heading {unknown[0]!r}; expected one of {', '.join(SECTIONS)}")
    _, minor, patch = parse_version(version)
    if "Removed" in headings and (minor or patch):
        raise ReleaseError(f"{version} removes names; only a major version may do that")
    if patch and (features := [heading for heading in ("Added", "Deprecated") if heading in headings]):
        raise ReleaseError(f"{version} is a patch version, but {CHANGELOG} has changes under '{features[0]}'")
    return text.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {today.isoformat()}\n", 1)


def set_version(text: str, version: str, before: str, after: str) -> str:
    """Return a file's text with another version.

    Raises:
        ReleaseError: the file does not contain the version once.
    """
    new_text, count = re.subn(rf"(?<={re.escape(before)})\d+\.\d+\.\d+(?={re.escape(after)})", version, text)
    if count != 1:
        raise ReleaseError(f"{before.strip()!r} with a version is {count} times in the file; expected once")
    return new_text


def release(repository: Repository, options: argparse.Namespace) -> None:
    """Make a release.

    Raises:
        ReleaseError: a condition is not met, or a step failed. The checkout is then as before.
    """
    version = options.version
    parse_version(version)
    check_repository(repository, version, options.branch)
    texts = {CHANGELOG: date_changelog(repository.read(CHANGELOG), version, options.date)}
    for path, around in VERSION_FILES.items():
        texts[path] = set_version(repository.read(path), version, *around)
    try:
        for path, text in texts.items():
            repository.write(path, text)
        for command in (options.lock_command, options.build_command, options.check_command):
            repository.run_step(command)
        repository.git("commit", "--quiet", "--message", f"Release {version}", "--", *texts, LOCK_FILE)
    except BaseException:
        repository.git("restore", "--staged", "--worktree", "--", *texts, LOCK_FILE)
        raise
    repository.git("tag", "--annotate", f"v{version}", "--message", f"kafkaframes {version}")
    print(f"Release {version} is committed and tagged. To publish it:\n  git push origin {options.branch} v{version}")


def main(arguments: Sequence[str], top: Path = TOP) -> int:
    """Make a release; return 1 if it was not made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    python = shlex.quote(sys.executable)
    parser.add_argument("version", help="three numbers, such as 1.2.3")
    parser.add_argument("--branch", default="main", help="the branch that releases are made from (default: main)")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today(), metavar="YYYY-MM-DD")
    parser.add_argument("--lock-command", default=f"{python} -m uv lock", metavar="COMMAND")
    parser.add_argument("--build-command", default="make dist", metavar="COMMAND")
    parser.add_argument("--check-command", default=f"{python} -m tools.check_dist dist", metavar="COMMAND")
    options = parser.parse_args(arguments)
    try:
        release(Repository(top), options)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _text(version: Version) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
