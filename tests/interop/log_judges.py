"""Apply the log classes of three Kafka releases to log directories, and compare the resulting files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkaframes.records.codecs import Codec, decompress
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK, MESSAGE_V0, MESSAGE_V1

JAVA = Path(__file__).parent / "java" / "logs"
SOURCE_FOLDERS = {"2.8.2": "v28", "3.9.1": "v39", "4.3.1": "v43"}
_LAYOUTS = (MESSAGE_V0, MESSAGE_V1, BATCH_V2)


@dataclass(frozen=True)
class KafkaLogJudge:
    """A Java program with the log classes of a Kafka release."""

    version: str
    classpath: str
    logging: tuple[str, ...] = ()

    def answer_questions(self, questions: Sequence[dict[str, Any]], work: Path) -> list[list[int] | str]:
        """Return the result of each question: numbers, or the text of an exception."""
        work.mkdir(parents=True, exist_ok=True)
        questions_file, answers_file, account = work / "asked", work / "answered", work / "account"
        questions_file.write_text(
            "".join("\t".join(f"{k}={v}" for k, v in question.items()) + "\n" for question in questions)
        )
        command = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", *self.logging, "-cp", self.classpath, "LogTruth"]
        with account.open("w") as log_file:
            subprocess.run(
                [*command, questions_file, answers_file], stdout=log_file, stderr=log_file, timeout=900, check=True
            )
        return [_answer(line) for line in answers_file.read_text().splitlines()]

    def segment_bytes(self, size: int) -> dict[str, int]:
        name = "internal.segment.bytes" if self.version.startswith("4.") else "segment.bytes"
        return {f"topic:{name}": size}


def _answer(line: str) -> list[int] | str:
    words = line.split()
    return line.partition("failed ")[2] if "failed" in words else [int(word) for word in words[1:]]


def compile_judge(kafka: ModuleType, version: str, classes: Path) -> KafkaLogJudge:
    """Compile the Java program that answers questions with the classes of a Kafka release."""
    classes.mkdir(parents=True, exist_ok=True)
    classpath = kafka.classpath(version)
    sources = [*JAVA.glob("*.java"), *(JAVA / SOURCE_FOLDERS[version]).glob("*.java")]
    subprocess.run(["javac", "-nowarn", "-cp", classpath, "-d", classes, *sources], check=True, timeout=300)
    logging = kafka._logging_options(version, classes / "logging", level="OFF")
    return KafkaLogJudge(version, f"{classes}:{classpath}", tuple(logging))


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def byte_differences(expected_dir: Path, actual_dir: Path) -> Iterator[str]:
    """Compare all file names and bytes of two directories."""
    one, other = files_of(expected_dir), files_of(actual_dir)
    for name in sorted(one.keys() | other.keys()):
        if name not in other:
            yield f"{name}: only Kafka has the file, with {len(one[name])} bytes"
        elif name not in one:
            yield f"{name}: only this package has the file, with {len(other[name])} bytes"
        elif one[name] != other[name]:
            yield f"{name}: {len(one[name])} bytes, ours {len(other[name])}: {first_difference(one[name], other[name])}"


def first_difference(one: bytes, other: bytes) -> str:
    position = next(
        (position for position, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    start = max(position - 8, 0)
    return f"from byte {position}: {one[start : position + 24].hex()} and {other[start : position + 24].hex()}"


def cleaned_differences(expected_dir: Path, actual_dir: Path) -> Iterator[str]:
    """Compare two cleaned partitions, except for compressed bytes and index entries, which may differ."""
    one, other = files_of(expected_dir), files_of(actual_dir)
    names = [{name for name in files if not name.endswith((".deleted", "-checkpoint"))} for files in (one, other)]
    for name in sorted(names[0] ^ names[1]):
        yield f"{name}: the file exists only in {'Kafka' if name in names[0] else 'ours'}"
    for name in sorted(names[0] & names[1]):
        if name.endswith(".log"):
            yield from (f"{name}: {text}" for text in _batch_differences(one[name], other[name]))
        elif name.endswith((".txnindex", ".snapshot")) and one[name] != other[name]:
            yield f"{name}: {first_difference(one[name], other[name])}"


def _batch_differences(expected_file: bytes, actual_file: bytes) -> Iterator[str]:
    one, other = list(split_batches(expected_file)), list(split_batches(actual_file))
    if len(one) != len(other):
        yield f"{len(one)} batches, ours {len(other)}: {[_short(b) for b in one]} and {[_short(b) for b in other]}"
        return
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b and open_batch(a) != open_batch(b):
            yield f"batch {number}, {_short(a)} and {_short(b)}: {first_difference(open_batch(a), open_batch(b))}"


def _short(raw: bytes) -> str:
    codec = raw[22] & 7 if raw[16] == 2 else raw[17] & 7
    delta = int.from_bytes(raw[23:27], "big") if raw[16] == 2 else 0
    return f"v{raw[16]}@{int.from_bytes(raw[:8], 'big')}+{delta}/{codec}"


def split_batches(raw: bytes) -> Iterable[bytes]:
    """Split the content of a file into complete batches."""
    position = 0
    while position + 12 <= len(raw):
        end = position + 12 + int.from_bytes(raw[position + 8 : position + 12], "big", signed=True)
        yield raw[position:end]
        position = end


def open_batch(raw: bytes) -> bytes:
    """Return a batch with its records decompressed, without the fields that depend on compression."""
    magic = raw[16]
    layout = _LAYOUTS[magic]
    codec = Codec(raw[layout.end_of("attributes") - 1] & CODEC_MASK)
    if codec is Codec.NONE:
        return raw
    start = layout.size if magic == 2 else layout.size + 8
    size, crc = layout.position_of("size"), layout.position_of("crc")
    header = bytearray(raw[:start])
    header[size : size + 4] = header[crc : crc + 4] = bytes(4)
    if magic < 2:
        header[-4:] = bytes(4)
    return bytes(header) + bytes(decompress(codec, raw[start:], magic=magic).data)


def copy_times(source: Path, target: Path) -> None:
    """Set the file times of copied segments to those of their originals."""
    for path in source.glob("*.log"):
        if (target / path.name).exists():
            stat = path.stat()
            os.utime(target / path.name, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
