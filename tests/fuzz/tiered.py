"""Damage a tiered store for a minute: each reader returns a value or this package's error, and no invented records.

First, manifests, chunk indexes, names and records of the metadata topic are damaged as bytes; then the objects of whole
stores.

Run: python tests/fuzz/tiered.py [seconds] [seed]
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path

import zstandard

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutated_json import mutate
from tests.protocol.messages.values import make_value

from kafkaframes import read_records
from kafkaframes.errors import DecodeError, KafkaframesError, LogDirError
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.protocol.messages.envelopes import decode_metadata_record
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.tiered import names
from kafkaframes.storage.tiered.lineage import decode_custom_metadata, decode_entry
from kafkaframes.storage.tiered.manifest import parse_manifest, unpack_sizes

CASES = Path(__file__).parents[1] / "data" / "tiered"
MANIFESTS = [path.read_bytes() for path in sorted(CASES.glob("*/store/*/*/*.rsm-manifest"))]
NAMES = [str(path) for path in sorted(CASES.glob("*/store/*/*/*"))]
ENTRIES = [
    value
    for path in sorted(CASES.glob("*/local/__remote_log_metadata-*/*.log"))
    for batch in read_records(path, columns=["value"], control_records=False)
    for value in batch.column("value").to_pylist()
]
CUSTOM_METADATA = bytes.fromhex("020002d804010505" + "62616b2f")
SLOWEST_SECONDS = 20.0


def damage_bytes(choose: random.Random, raw: bytes) -> bytes:
    """Flip, truncate, duplicate or replace some bytes."""
    out = bytearray(raw)
    for _ in range(choose.randint(1, 6)):
        kind, position = (
            choose.choice(["flip", "flip", "digit", "cut", "double", "random"]),
            choose.randrange(len(out) + 1),
        )
        if kind == "cut":
            del out[position : position + choose.randint(1, 30)]
        elif kind == "double":
            out[position:position] = out[position : position + choose.randint(1, 30)]
        elif kind == "random":
            out[position:position] = choose.randbytes(choose.randint(1, 8))
        elif position < len(out):
            out[position] = choose.choice(b"0123456789-") if kind == "digit" else choose.randrange(256)
    return bytes(out)


def change_entry(choose: random.Random, raw: bytes) -> bytes:
    """Write a manifest with other values, or a metadata record with random fields."""
    if not raw.lstrip().startswith(b"{"):
        record = decode_metadata_record("__remote_log_metadata", raw)
        made_up_value = make_value(type(record.value), record.version, choose.randrange(1 << 30), unknown_tags=True)
        return raw[:3] + made_up_value.encode(record.version)
    if choose.random() < 0.5:
        return mutate(choose, raw).encode("utf-8", "surrogatepass")
    sizes = choose.choice((0, 1, 3, 2**31 - 1, -1)).to_bytes(4, signed=True) + choose.randbytes(choose.randrange(24))
    index = {
        "type": "variable",
        "originalChunkSize": choose.choice((1, 100, 2**31 - 1)),
        "originalFileSize": choose.choice((0, 1, 250, 2**31 - 1, 2**62)),
        "transformedChunks": b64encode(zstandard.compress(sizes)).decode(),
    }
    return json.dumps(json.loads(raw) | {"chunkIndex": index}).encode()


def check_parsers(choose: random.Random) -> None:
    """Feed each decoder once."""
    tries = (
        (parse_manifest, choose.choice(MANIFESTS)),
        (parse_manifest, choose.choice(MANIFESTS)),
        (unpack_sizes, choose.randbytes(choose.randint(0, 40))),
        (decode_custom_metadata, CUSTOM_METADATA),
        (lambda raw: decode_entry(raw, partition=0, offset=0), choose.choice(ENTRIES)),
    )
    for parse, raw in tries:
        try:
            whole = raw is not CUSTOM_METADATA and parse is not unpack_sizes and choose.random() < 0.4
            parse(change_entry(choose, raw) if whole else damage_bytes(choose, raw))
        except (DecodeError, LogDirError):
            continue
    text = damage_bytes(choose, choose.choice(NAMES).encode()).decode(errors="replace")
    for parse in (names.ObjectName.parse, names.TopicFolder.parse, names.ViewPath.parse, names.parse_folder):
        parse(text)


def damage_store(choose: random.Random, root: Path) -> None:
    """Damage, remove or exchange some objects."""
    objects = sorted(path for path in root.rglob("*") if path.is_file() and "store" in path.parts)
    for path in choose.sample(objects, choose.randint(1, 4)):
        kind = choose.choice(["damage", "damage", "remove", "other", "empty"])
        if kind == "remove":
            path.unlink(missing_ok=True)
        elif path.exists():
            other = choose.choice(objects)
            raw = other.read_bytes() if kind == "other" and other.exists() else path.read_bytes()
            path.write_bytes(b"" if kind == "empty" else raw if kind == "other" else damage_bytes(choose, raw))


def read_store(root: Path, case: Path) -> bool:
    """Read the whole store; return whether no part was rejected."""
    keys = tuple(map(str, case.glob("*.private.pem")))
    try:
        verify(discover([str(root / "store")], options={"key_files": keys}))
        directories = discover([str(root / "local"), str(root / "store")], options={"key_files": keys})
        for partition in (partition for directory in directories for partition in directory.partitions):
            for before, after in zip(partition.segments, partition.segments[1:], strict=False):
                if before.base_offset >= after.base_offset:
                    raise SystemExit(f"{partition.directory}: segments out of order")
    except KafkaframesError:
        return False
    return True


def main() -> None:
    """Run for some seconds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    choose, start_s, slowest, stores, refused_count = random.Random(seed), time.monotonic(), 0.0, 0, 0
    print(f"seed {seed}")
    cases = [path for path in sorted(CASES.iterdir()) if path.is_dir()]
    while time.monotonic() - start_s < seconds:
        for _ in range(200):
            check_parsers(choose)
        case = choose.choice(cases)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / case.name
            shutil.copytree(case, root)
            damage_store(choose, root)
            before = time.monotonic()
            refused_count += not read_store(root, case)
            slowest = max(slowest, time.monotonic() - before)
        stores += 1
        if slowest > SLOWEST_SECONDS:
            raise SystemExit(f"seed {seed}: a store took {slowest:.1f} s")
    print(f"{stores} stores, {refused_count} rejected; {stores * 1000} parsed texts; slowest store: {slowest:.1f} s")


if __name__ == "__main__":
    main()
