"""Values in which one field has a count or size at a limit of its encoding, and the other fields are small.

``python -m tests.protocol.messages.borders`` prints them as input for Kafka's writers, whose output is stored in
``tests/data/codec/borders.jsonl.gz`` (see ``tests/data/README.md``).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from kafkaframes.protocol.messages import Message, message
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan

#: Counts around those where a varint (of count + 1) or an integer needs one more byte.
COUNTS = (0, 1, 2, 63, 64, 126, 127, 128, 129, 255, 256, 16382, 16383, 16384)
FEW_COUNTS = (0, 1, 126, 127, 128, 255, 256)
TAG_NUMBERS = (11, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31 - 2)
SPECS = Path(__file__).parents[2] / "data" / "codec" / "specs"
KAFKA_CLASSES_AND_VERSIONS = {
    "AllTypeMessage": ("org.apache.kafka.common.message.AllTypeMessageData", (0, 1)),
    "SimpleExampleMessage": ("org.apache.kafka.common.message.SimpleExampleMessageData", (0, 2)),
    "PartitionRecord": ("org.apache.kafka.common.metadata.PartitionRecord", (0, 1, 2)),
    "MetadataResponse": ("org.apache.kafka.common.message.MetadataResponseData", (8, 12)),
    "JoinGroupResponse": ("org.apache.kafka.common.message.JoinGroupResponseData", (5, 9)),
}


def find_class(name: str) -> type[Message]:
    """Return a message of the catalog, or one of Kafka's test messages."""
    file = SPECS / f"{name}.json"
    return message(name, specs=file) if file.is_file() else message(name)


def yield_border_values(
    cls: type[Message], version: int, counts: Iterable[int] = COUNTS, *, most_structs: int = 256
) -> Iterator[tuple[str, Any]]:
    """Yield (path of the field at a limit, value) for each field with a count or size in a version, in any struct.

    Arrays of structs have at most ``most_structs`` elements, and strings at most the maximum length of a string.
    """
    plan = cls.codec(version).plan
    for path in _yield_sized_paths(plan.root, ()):
        for count in counts:
            if path[-1].struct is None or count <= most_structs:
                names = ".".join(one.name for one in path)
                yield f"{names}={count}", _build_struct(cls._classes, plan.root, path, count)
    if plan.flexible:
        for tag in TAG_NUMBERS:
            yield f"tag {tag}", _build_struct(cls._classes, plan.root, (), 0, tags=[(tag, b"x")])
        for size in counts:
            yield f"tag of {size}", _build_struct(cls._classes, plan.root, (), 0, tags=[(1000, bytes(size))])
        for count in FEW_COUNTS:
            yield (
                f"{count} tags",
                _build_struct(cls._classes, plan.root, (), 0, tags=[(1000 + number, b"") for number in range(count)]),
            )


def _yield_sized_paths(plan: StructPlan, path: tuple[FieldPlan, ...]) -> Iterator[tuple[FieldPlan, ...]]:
    for one in (*plan.fields, *plan.tagged_fields):
        if one.array or one.type in ("string", "bytes", "records"):
            yield (*path, one)
        if one.struct is not None:
            yield from _yield_sized_paths(one.struct, (*path, one))


def _build_struct(
    classes: dict[str, Any], plan: StructPlan, path: tuple[FieldPlan, ...], count: int, tags: Iterable[Any] = ()
) -> Any:
    """Return a struct with ``count`` elements or bytes in the field at ``path``, and one or two in the other fields."""
    fields = {one.attribute: _build_value(classes, one, (), index % 2 + 1) for index, one in enumerate(plan.fields)}
    if path:
        inner = path[1:]
        fields[path[0].attribute] = _build_value(classes, path[0], inner, 1 if inner else count)
    return classes[plan.name](**fields, unknown_tags=tags)


def _build_value(classes: dict[str, Any], field: FieldPlan, path: tuple[FieldPlan, ...], count: int) -> Any:
    if field.array:
        return [_build_element(classes, field, path, 3) for _ in range(count)]
    return _build_element(classes, field, path, count)


def _build_element(classes: dict[str, Any], field: FieldPlan, path: tuple[FieldPlan, ...], size: int) -> Any:
    if field.struct is not None:
        return _build_struct(classes, field.struct, path, size)
    plain = {"string": "s" * size, "bytes": b"b" * size, "records": b"r" * size, "uuid": UUID(int=7), "bool": True}
    return plain.get(field.type, 1.5 if field.type == "float64" else 5)


def main() -> None:
    """Print a line for each value that Kafka encodes."""
    for name, (java, versions) in KAFKA_CLASSES_AND_VERSIONS.items():
        cls = find_class(name)
        for version in versions:
            for _, value in yield_border_values(cls, version):
                line = {"message": name, "type": cls.spec.type, "class": java, "version": version}
                line["json"] = value.to_json(version, records="base64", unknown_tags=False)
                tags = value.unknown_tags
                if tags:
                    line["unknown_tags"] = [[tag, b64encode(data).decode()] for tag, data in tags]
                print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
