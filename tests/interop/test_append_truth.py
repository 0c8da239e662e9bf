"""Random record sets (valid, unusual, or damaged with a matching CRC) are validated as by Kafka 3.9.1's
LogValidator.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from pathlib import Path

from tests.agreement.kinds.append import KIND
from tests.records.append.append_sets import choose_operation, choose_record_set

SET_COUNT = int(os.environ.get("KAFKAFRAMES_APPEND_SETS", "1500"))
SEED = int(os.environ.get("KAFKAFRAMES_APPEND_SEED", "1"))


def test_random_sets_are_validated_as_by_kafka(oracle: Path, tmp_path: Path) -> None:
    """All results agree, and each kind of result (in place, rebuilt, rejected) occurs."""
    choose = random.Random(SEED)
    folder = tmp_path / "records"
    folder.mkdir()
    questions = []
    for number in range(SET_COUNT):
        raw = choose_record_set(choose)
        (folder / f"{number}.bin").write_bytes(raw)
        for _ in range(3):
            questions.append({"file": f"records/{number}", "bytes": raw.hex()} | choose_operation(choose))
    command = ["java", "-Xmx1g", "-cp", str(oracle / "records-truth.jar"), "AppendTruth"]
    questions_text = "".join(json.dumps(question) + "\n" for question in questions)
    output = subprocess.run(
        command, input=questions_text, capture_output=True, text=True, timeout=600, check=True
    ).stdout
    answers = [json.loads(line) for line in output.splitlines()]
    with gzip.open(folder / "append.jsonl.gz", "wt") as lines:
        for answer in answers:
            answer.pop("bytes")
            if answer.get("error", "").startswith("OutOfMemory"):
                continue  # Kafka allocates the size in an inner message, up to 2 GiB
            lines.write(json.dumps(answer) + "\n")
    kinds = {
        ("in place" if answer["in_place"] else "rebuilt") if "in_place" in answer else "refused"
        for answer in answers
        if answer["op"] == "append"
    }
    assert kinds == {"in place", "rebuilt", "refused"}
    disagreements = {case.name: list(KIND.disagreements(case)) for case in KIND.cases(folder)}
    assert {name: texts for name, texts in disagreements.items() if texts} == {}
    assert len(disagreements) > 2.9 * SET_COUNT
