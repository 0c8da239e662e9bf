"""Damage the files of a real partition for a minute: repair and recovery give a log that passes verification, or an
error.

Run: python tests/fuzz/repair.py [seconds] [seed]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from log_files import SOURCES, damage

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.repair.job import repair_directory
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery.recover import RecoverySettings

SETTINGS = RecoverySettings(1_795_255_143_423)


def repair_log(log: Path, target: Path, *, as_kafka: bool) -> bool:
    """Repair a damaged log; return whether that succeeded, and stop if the result is damaged."""
    try:
        repair_directory(log, target, SETTINGS, as_kafka=as_kafka)
    except LogDirError:
        return False
    report = verify(discover(str(target)))
    errors = (finding for finding in report.findings if finding.severity is Severity.ERROR)
    # a field that is not part of the CRC, and is kept unchanged
    wrong = [str(error) for error in errors if error.check != "leader-epoch"]
    if wrong and not as_kafka:  # a broker checks neither the log below the recovery point nor the order of offsets
        raise SystemExit(f"{log} is damaged after its repair: {wrong[:3]}")
    return True


def main(seconds: float, seed: int) -> None:
    """Damage, repair and verify logs for ``seconds``."""
    choose, ends, repaired_count, run_count = random.Random(seed), time.monotonic() + seconds, 0, 0
    while time.monotonic() < ends:
        with tempfile.TemporaryDirectory() as scratch:
            source = choose.choice(SOURCES)
            log = Path(scratch) / "log" / source.name
            shutil.copytree(source, log)
            for _ in range(choose.randint(1, 4)):
                damage(choose, choose.choice(sorted(log.iterdir())))
            run_count += 1
            repaired_count += repair_log(log.parent, Path(scratch) / "out", as_kafka=choose.random() < 0.2)
    print(f"repair: {run_count} damaged logs, {repaired_count} repaired, seed {seed}")


if __name__ == "__main__":
    arguments = [float(one) for one in sys.argv[1:3]]
    main(arguments[0] if arguments else 60.0, int(arguments[1]) if len(arguments) > 1 else random.randrange(1 << 30))
