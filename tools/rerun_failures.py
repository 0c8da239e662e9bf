"""Run the tests that failed in the last run again, alone: a few tests fail only because the whole machine is busy.

`make test` calls it after a run with failures. As in Kafka's own build (`maxTestRetries=1`), each failed test is run
once more, and only if they are at most three. The tests that pass now are listed as flaky; each of them is a fault to
fix, in the test or in the tested code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

MAX_RERUN_TESTS: Final = 3
_LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    """Return the exit status: 0 if all tests pass now, otherwise that of pytest, or 1 if too many tests failed."""
    # xdist names the group of a test after "@".
    if not _LAST_FAILED.exists():
        return 1  # the run ended before its first test
    failed_tests = sorted({test_id.rsplit("@", 1)[0] for test_id in json.loads(_LAST_FAILED.read_text())})
    if not 1 <= len(failed_tests) <= MAX_RERUN_TESTS:
        print(f"{len(failed_tests)} tests failed; at most {MAX_RERUN_TESTS} are run again", file=sys.stderr)
        return 1
    print("run again, alone:", *failed_tests, sep="\n  ", flush=True)
    status = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *failed_tests]).returncode
    if status == 0:
        print("FLAKY: failed once and passed alone:", *failed_tests, sep="\n  ")
    return status


if __name__ == "__main__":
    sys.exit(main())
