"""The rules of Kafka's generator: what is refused, why, and how to mend it. The front of the ``rules_*`` tables.

Each ``Rule`` judges one declaration (field, struct or message) and yields nothing or a reason. A spec is accepted when
no rule speaks.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaframes.protocol.spec.declared import FieldDecl, MessageDecl
from kafkaframes.protocol.spec.registry import Message, Violation, judge, registry
from kafkaframes.protocol.spec.rules_fields import FIELD_RULES, STRUCT_RULES
from kafkaframes.protocol.spec.rules_messages import MESSAGE_RULES

__all__ = ["FIELD_RULES", "MESSAGE_RULES", "STRUCT_RULES", "violations"]

_RULES_WITHOUT_CODE = tuple(rule for rule in FIELD_RULES if not rule.of_generated)


def violations(declared: MessageDecl) -> Iterator[Violation]:
    """Yield everything that Kafka's generator would refuse in a declaration, the most local first."""
    structs, wrong = registry(declared)
    message = Message(declared, structs)
    for owner in (declared.struct, *declared.common_structs):
        yield from _judge_fields(owner.fields, message)
    for struct in (declared.struct, *declared.common_structs, *(one for one in structs.values() if not one.is_common)):
        yield from judge(STRUCT_RULES, struct, message, struct.where, struct.path)
    yield from wrong
    yield from judge(MESSAGE_RULES, declared, message, (), ())


def _judge_fields(fields: tuple[FieldDecl, ...], message: Message, *, generated: bool = True) -> Iterator[Violation]:
    rules = FIELD_RULES if generated else _RULES_WITHOUT_CODE
    for one in fields:
        yield from judge(rules, one, message, one.where, one.path)
        yield from _judge_fields(one.fields, message, generated=generated and _has_struct(one, message))


def _has_struct(one: FieldDecl, message: Message) -> bool:
    """Whether code is generated for the fields inside a field: those of an array of primitives are forgotten."""
    struct = message.structs.get(one.type.name)
    return struct is not None and struct.where == one.where
