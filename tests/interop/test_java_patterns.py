"""``subscribePattern`` matches random expressions as ``java.util.regex.Pattern`` does, or rejects them."""

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.scan.random_patterns import TOPIC_NAMES, ExpressionGenerator

from kafkaframes.scan.java_pattern import compile_java_pattern

EXPRESSION_COUNT = max(int(os.environ.get("KAFKAFRAMES_DRAWS", "0")), 2_000)
SEED = int(os.environ.get("KAFKAFRAMES_SEED", "1"))
JAVA_SOURCE = Path(__file__).with_name("java") / "Patterns.java"


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not on the PATH")
def test_random_expressions_match_as_in_java_or_are_rejected(tmp_path):
    expressions = ExpressionGenerator(SEED)
    generated_texts = (expressions.make() for _ in range(10 * EXPRESSION_COUNT))
    patterns = [pattern for pattern in generated_texts if pattern.strip()][:EXPRESSION_COUNT]
    (tmp_path / "patterns").write_text("".join(f"{base64.b64encode(each.encode()).decode()}\n" for each in patterns))
    (tmp_path / "names").write_text("\n".join(TOPIC_NAMES))
    command = ["java", "-Xss16m", str(JAVA_SOURCE), str(tmp_path / "patterns"), str(tmp_path / "names")]
    answers = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    differences, accepted_count = [], 0
    for pattern, answer in zip(patterns, answers, strict=True):
        try:
            compiled_pattern = compile_java_pattern(pattern)
        except ValueError:
            continue
        # Java does not detect this in a look-behind; Python does
        if "does not have an obvious maximum length" in answer:
            continue
        accepted_count += 1
        if "".join("1" if compiled_pattern.fullmatch(name) else "0" for name in TOPIC_NAMES) != answer:
            differences.append((pattern, answer))
    assert not differences
    assert accepted_count > EXPRESSION_COUNT / 3
