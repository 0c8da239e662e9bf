"""What rules are made of: the rule, what it says, and the structs that Kafka's generator registers for a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kafkaframes.protocol.spec.declared import FieldDecl, JsonPath, MessageDecl, StructDecl
from kafkaframes.protocol.spec.versions import Versions

T = TypeVar("T")
#: A reason, and the declaration it is about where that is another one than was judged.
Spoken: TypeAlias = str | tuple[str, FieldDecl | StructDecl]


class Rule(NamedTuple, Generic[T]):
    """One rule: its name, the sentence it comes from, and the check."""

    name: str
    source: str
    check: Callable[[T, Message], Iterator[Spoken]]
    key: str = ""  # the JSON key it speaks about, for the line
    of_generated: bool = False  # it is checked when code is generated: nobody asks it about fields that get none


class Violation(NamedTuple):
    """A rule that speaks about a place of a file."""

    rule: str
    reason: str
    where: JsonPath
    path: tuple[str, ...]


class Message(NamedTuple):
    """What the rules see: the declaration, and every struct that the generator registers for it."""

    declared: MessageDecl
    structs: dict[str, StructDecl]

    @property
    def flexible_versions(self) -> Versions:
        """The message's flexible versions; none where the key is missing."""
        return self.declared.flexible_versions or Versions.NONE


def registry(declared: MessageDecl) -> tuple[dict[str, StructDecl], list[Violation]]:
    """Return the structs the generator registers, common ones first, and what is wrong with their declarations."""
    structs: dict[str, StructDecl] = {}
    wrong: list[Violation] = []
    for common in declared.common_structs:
        if not common.name[:1].isupper():
            _speak(wrong, "common-struct-capital", f"struct {common.name} must start with a capital", common)
        if common.name in structs:
            _speak(wrong, "common-struct-once", f"common struct {common.name} is declared twice: drop one", common)
        structs[common.name] = common
    _register_inline(declared.struct.fields, structs, wrong)
    return structs, wrong


def _register_inline(fields: tuple[FieldDecl, ...], structs: dict[str, StructDecl], wrong: list[Violation]) -> None:
    for field in fields:
        if not field.type.is_struct:
            continue
        name = field.type.name
        if name not in structs:
            structs[name] = StructDecl(
                where=field.where, path=field.path, name=name, versions=field.versions, fields=field.fields
            )
        elif not structs[name].is_common:
            reason = f"struct {name} is declared twice: move it to commonStructs, or give one of them another name"
            _speak(wrong, "inline-struct-once", reason, field)
        elif field.fields:
            reason = f"{name} is a common struct, so the field that uses it cannot declare fields: drop them"
            _speak(wrong, "common-struct-no-fields", reason, field)
        _register_inline(field.fields, structs, wrong)


def _speak(wrong: list[Violation], rule: str, reason: str, about: StructDecl | FieldDecl) -> None:
    wrong.append(Violation(rule, reason, about.where, about.path))


def judge(
    rules: tuple[Rule[T], ...], subject: T, message: Message, where: JsonPath, path: tuple[str, ...]
) -> Iterator[Violation]:
    """Yield what a table of rules says of one declaration, which stands at ``where``."""
    for rule in rules:
        for spoken in rule.check(subject, message):
            if isinstance(spoken, str):
                yield Violation(rule.name, spoken, (*where, rule.key) if rule.key else where, path)
            else:
                yield Violation(rule.name, spoken[0], spoken[1].where, spoken[1].path)
