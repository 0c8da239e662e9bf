"""``tools/release.py`` in a temporary repository, with short commands instead of the build."""

from __future__ import annotations

import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.release import (
    CHANGELOG,
    LOCK_FILE,
    SECTIONS,
    VERSION_FILES,
    ReleaseError,
    date_changelog,
    next_versions,
    parse_version,
)

import kafkaframes

ROOT = Path(__file__).parents[1]
UNRELEASED = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A feature.\n"
FAST_OPTIONS = ("--lock-command", "true", "--build-command", "true", "--check-command", "true", "--date", "2027-01-31")


class ReleaseCheckout:
    def __init__(self, top: Path) -> None:
        self.top = top
        for path in (*VERSION_FILES, "tools/release.py"):
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, top / path)
        self.write(LOCK_FILE, "lock\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.email", "maintainer@example.org")
        self.git("config", "user.name", "Maintainer")
        self.commit(UNRELEASED)

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.top / path).write_text(text)

    def commit(self, changelog: str) -> None:
        self.write(CHANGELOG, changelog)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A change")

    def release(self, version: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "tools/release.py", version, *FAST_OPTIONS, *options]
        return subprocess.run(command, cwd=self.top, capture_output=True, text=True, check=False, timeout=60)

    def assert_rejected(self, version: str, message: str, *options: str) -> None:
        before = self.git("status", "--porcelain"), self.git("rev-parse", "HEAD"), self.git("tag")
        result = self.release(version, *options)
        assert result.returncode == 1
        assert message in result.stderr
        assert (self.git("status", "--porcelain"), self.git("rev-parse", "HEAD"), self.git("tag")) == before


@pytest.fixture
def checkout(tmp_path: Path) -> ReleaseCheckout:
    return ReleaseCheckout(tmp_path)


def test_a_release_is_dated_committed_and_tagged(checkout: ReleaseCheckout) -> None:
    result = checkout.release(
        "2.0.0", "--lock-command", f"echo newer > {LOCK_FILE}", "--build-command", "grep 2.0.0 tools/conda/recipe.yaml"
    )
    assert result.returncode == 0, result.stderr
    assert "git push origin main v2.0.0" in result.stdout
    assert checkout.git("status", "--porcelain") == ""
    assert checkout.git("describe", "--exact-match") == "v2.0.0"
    changelog = checkout.git("show", f"HEAD:{CHANGELOG}")
    assert "## Unreleased\n\n## 2.0.0 - 2027-01-31\n\n### Added\n\n- A feature." in changelog
    assert '__version__ = "2.0.0"' in checkout.git("show", "HEAD:src/kafkaframes/_version.py")
    assert 'version: "2.0.0"' in checkout.git("show", "HEAD:tools/conda/recipe.yaml")
    assert checkout.git("show", f"HEAD:{LOCK_FILE}") == "newer"


def test_a_dirty_tree_and_another_branch_are_rejected(checkout: ReleaseCheckout) -> None:
    checkout.write("notes.txt", "untracked")
    checkout.assert_rejected("2.0.0", "uncommitted changes: notes.txt")
    (checkout.top / "notes.txt").unlink()
    checkout.git("switch", "--quiet", "--create", "feature")
    checkout.assert_rejected("2.0.0", "releases are made from 'main'")
    checkout.git("switch", "--quiet", "main")
    checkout.assert_rejected("2.0", "expected three numbers")


@pytest.mark.parametrize("version", ["", "v2.0.0", "2.0", "2.0.0rc1", "2.0.0.dev1", "02.0.0", "2.0.0 "])
def test_a_version_must_be_three_numbers(version: str) -> None:
    with pytest.raises(ReleaseError, match="expected three numbers"):
        parse_version(version)


def test_a_version_must_follow_the_last_tag(checkout: ReleaseCheckout) -> None:
    for tag in ("v1.9.0", "v1.10.0", "vendor-2"):
        checkout.git("tag", tag)
    checkout.assert_rejected("1.10.0", "the tag v1.10.0 exists")
    checkout.assert_rejected("1.9.1", "does not follow 1.10.0; expected one of 1.10.1, 1.11.0, 2.0.0")
    checkout.assert_rejected("1.12.0", "does not follow 1.10.0")
    assert checkout.release("1.11.0").returncode == 0


@pytest.mark.parametrize(
    ("version", "changelog", "message"),
    [
        ("2.0.0", "# Changelog\n\n## Unreleased\n\n## 1.0.0 - 2026-11-27\n\n- x\n", "no changes under"),
        ("2.0.0", "# Changelog\n\n## 1.0.0 - 2026-11-27\n\n- x\n", "no changes under"),
        ("2.0.0", UNRELEASED.replace("Added", "New things"), "has the heading 'New things'"),
        ("2.1.0", UNRELEASED.replace("Added", "Removed"), "only a major version"),
        ("2.0.1", UNRELEASED, "2.0.1 is a patch version"),
    ],
)
def test_a_version_must_fit_its_changes(version: str, changelog: str, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        date_changelog(changelog, version, datetime.date(2027, 1, 31))


def test_a_failed_step_leaves_the_repository_unchanged(checkout: ReleaseCheckout) -> None:
    checkout.assert_rejected(
        "2.0.0", "ended with status 3", "--lock-command", f"echo newer > {LOCK_FILE}", "--check-command", "exit 3"
    )


def test_next_versions() -> None:
    assert next_versions((1, 2, 3)) == ((1, 2, 4), (1, 3, 0), (2, 0, 0))


def test_the_changelog_can_be_released() -> None:
    """The newest section is that of this version or of unreleased changes, with the headings of Keep a Changelog."""
    text = (ROOT / CHANGELOG).read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[0] == "Unreleased"
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= set(SECTIONS)
    assert parse_version(kafkaframes.__version__)
