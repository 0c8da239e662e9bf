"""A class for each message and for each struct in it, one for all versions; the version is an argument.

The classes are made from a ``MessageSpec`` at run time (:func:`message_class`), the catalog's and a user's alike. They
have slots and nothing per version, so a value decoded at one version is encoded at another as it is: a field that the
version lacks must be at its default, or be ignorable (KIP-482, Kafka's ``MessageData``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kafkaframes.errors import DecodeError, EncodeError, OptionError, SpecError
from kafkaframes.protocol.messages import json_form
from kafkaframes.protocol.messages.codec import Codec, all_of, check_mode, check_tag_header
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.messages.structs import FieldInfo, Struct
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec, StructSpec
from kafkaframes.wire.primitives import Part

if TYPE_CHECKING:
    import pyarrow as pa


class Message(Struct):
    """The base of every message's class."""

    __slots__ = ()
    spec: ClassVar[MessageSpec]
    _classes: ClassVar[dict[str, Any]]
    _codecs: ClassVar[dict[int, Codec]]

    @classmethod
    def codec(cls, version: int) -> Codec:
        """Return the codec of a version, made when first asked for.

        Raises:
            OptionError: the message has no such version.
        """
        codec = cls._codecs.get(version)
        if codec is None:
            codec = cls._codecs[version] = Codec(plan_message(cls.spec, version), cls._classes)
        return codec

    @classmethod
    def decode(
        cls,
        data: bytes | bytearray | memoryview,
        version: int,
        *,
        mode: str = "reference",
        tag_header: str = "adopted",
    ) -> Self:
        """Return the value that ``data`` holds, all of it.

        Args:
            data: one body, without frame and header.
            version: the API's version.
            mode: ``reference`` accepts what Kafka accepts, ``strict`` only canonical bytes.
            tag_header: ``interleaved`` for the tag headers of KIP-482's earlier draft, which no Kafka speaks.

        Raises:
            DecodeError: not such a message; with field path and byte. Bytes left over are an error too.
        """
        data = bytes(data)
        value, position = cls.decode_prefix(data, version, mode=mode, tag_header=tag_header)
        all_of(data, value, position)
        return value

    @classmethod
    def decode_prefix(
        cls,
        data: bytes | bytearray | memoryview,
        version: int,
        *,
        position: int = 0,
        mode: str = "reference",
        tag_header: str = "adopted",
        views: bool = False,
    ) -> tuple[Self, int]:
        """Return the value that starts at ``position``, and the position behind it.

        Args:
            data, version, mode, tag_header: as for :meth:`decode`.
            position: where the body starts.
            views: leave what fields of records hold where it is, if ``data`` is a memoryview: they are views of it,
                and hold its memory.

        Raises:
            DecodeError: as :meth:`decode`, but bytes may follow.
        """
        strict = check_mode(mode)
        try:
            codec = cls.codec(version)
        except OptionError as error:
            raise DecodeError(str(error)) from None
        if tag_header == "adopted":
            body = data if views and isinstance(data, memoryview) else bytes(data)
            return codec.decode(body, position, strict=strict)
        check_tag_header(tag_header)
        return codec.interpret(bytes(data), position, strict=strict, tag_header=tag_header)

    @classmethod
    def decode_columns(
        cls, messages: Sequence[bytes] | pa.Array, version: int, *, mode: str = "reference"
    ) -> pa.StructArray:
        """Return many bodies as one Arrow array, a row each; see ``protocol/messages/columns.py`` for its shape.

        Args:
            messages: bytes objects, or a binary array (of any kind).
            version: the API's version.
            mode: as for :meth:`decode`. A body that :meth:`decode` would refuse is a row of nulls with the reason in
                its ``_error``, and spoils no other.

        Raises:
            DecodeError: no such version.
            OptionError: no such mode, or more than 2 GiB at once.
        """
        from kafkaframes.protocol.messages import columns

        check_mode(mode)
        decode = partial(cls.decode, version=version, mode=mode)
        return columns.decode_columns(cls._codec(version, DecodeError).plan, messages, mode=mode, decode=decode)

    @classmethod
    def encode_columns(cls, array: pa.StructArray, version: int) -> pa.BinaryArray:
        """Return the bodies of many rows; the inverse of :meth:`decode_columns`.

        Columns are found by name, a missing one is at its default, ``_error`` is not looked at, a null row is null.

        Raises:
            EncodeError: a row cannot be written at this version; names row and field.
        """
        from kafkaframes.protocol.messages import columns

        return columns.encode_columns(cls._codec(version, EncodeError).plan, array)

    @classmethod
    def _codec(cls, version: int, error: type[DecodeError | EncodeError] = EncodeError) -> Codec:
        try:
            return cls.codec(version)
        except OptionError as reason:
            raise error(str(reason)) from None

    def encode(self, version: int, *, tag_header: str = "adopted") -> bytes:
        """Return the body's bytes at a version; ``tag_header`` as in :meth:`decode`.

        Raises:
            EncodeError: a value does not fit its type, is null where it must not, or is set at a version that lacks
                the field; with field path, and the first version that has the field.
        """
        codec = self._codec(version)
        if check_tag_header(tag_header):
            return codec.encode(self)
        return codec.interpret_encode(self, tag_header=tag_header)

    def encode_parts(self, version: int) -> list[bytes | Part]:
        """Return what :meth:`encode` returns in parts, the values of long fields as they are: nothing is copied.

        A :class:`kafkaframes.wire.primitives.Part` among the values is among the parts: its length is known, its bytes
        were not read.

        Raises:
            EncodeError: as :meth:`encode`.
        """
        return self._codec(version).encode_parts(self)

    def size(self, version: int) -> int:
        """Return how many bytes :meth:`encode` gives."""
        return len(self.encode(version))

    @classmethod
    def from_json(cls, value: Any, version: int) -> Self:
        """Return the value that Kafka's JSON form (parsed: a dict) describes; see ``protocol/messages/json_form.py``.

        Raises:
            EncodeError: a field of that version is missing, or a value is not of its type; with field path.
        """
        made: Self = json_form.from_json(cls, cls._codec(version), value)
        return made

    def to_json(self, version: int, *, records: str = "empty", unknown_tags: bool = True) -> dict[str, Any]:
        """Return Kafka's JSON form of the value at a version, ready for ``json.dumps``.

        Args:
            version: the fields of which version to show.
            records: what stands for records: ``empty`` as Kafka's own converter writes them, ``base64`` (nothing is
                lost), or ``size``: their size, as Kafka's request log has it.
            unknown_tags: show the tags that the spec does not declare as ``_unknownTags`` of their struct, so that
                :meth:`from_json` gives them back; False is Kafka's own form, which loses them.

        Raises:
            EncodeError: as :meth:`encode` for a field that the version lacks, and for a null.
        """
        return json_form.to_json(self, self._codec(version), records=records, unknown_tags=unknown_tags)


def message_class(spec: MessageSpec) -> type[Message]:
    """Return the class of a message, with a class for each of its structs as attributes.

    >>> Metadata = message_class(spec)                                                      # doctest: +SKIP
    >>> Metadata.MetadataResponseTopic(name="orders").encode                                # doctest: +SKIP
    """
    classes = {struct.name: _struct_class(struct, Struct) for struct in spec.structs.values()}
    top = _struct_class(spec.struct, Message)
    for owner in (top, *classes.values()):
        for info in owner._fields:
            if info.spec.type.is_struct:
                info.struct = classes[info.spec.type.name]
    for name, cls in classes.items():
        setattr(top, name, cls)
        cls.__qualname__ = f"{spec.name}.{name}"
        cls._owner = top
    top.__doc__ = f"The {spec.type} {spec.name}, versions {spec.valid_versions}."
    message = top
    assert issubclass(message, Message)
    message.spec = spec
    message._owner = message
    message._classes = {**classes, spec.name: message}
    message._codecs = {}
    return message


def _struct_class(struct: StructSpec, base: type[Struct]) -> type[Struct]:
    if not struct.name.isidentifier():
        raise SpecError(f"{struct.name!r} cannot be the name of a class")
    fields = tuple(FieldInfo(one) for one in struct.fields)
    attributes = [info.attribute for info in fields]
    if len(set(attributes)) != len(attributes):
        raise SpecError(f"{struct.name}: two fields have the same name in Python")
    made: type[Struct] = type(
        struct.name,
        (base,),
        {"__slots__": tuple(attributes), "__module__": "kafkaframes.protocol.messages", "__reduce__": _reduce},
    )
    made._fields = fields
    made._by_attribute = {info.attribute: info for info in fields}
    made._values = staticmethod(attrgetter(*attributes)) if attributes else None
    made.__doc__ = f"The struct {struct.name}."
    return made


def class_of(spec: MessageSpec) -> type[Message]:
    """Return the class of a spec; the same one each time."""
    known: type[Message] | None = vars(spec).get("_message_class")
    if known is None:
        known = vars(spec).setdefault("_message_class", message_class(spec))
    return known


@cache
def class_in_catalog(name: str) -> type[Message]:
    """Return the class of a message of the catalog.

    Raises:
        SpecError: there is no such message.
    """
    return class_of(catalog.load(name))


def _reduce(value: Struct) -> tuple[Any, ...]:
    """Return what a pickle holds of a value; the ``__reduce__`` of every class made here."""
    cls = next(one for one in type(value).__mro__ if "_fields" in vars(one))
    values = [getattr(value, info.attribute) for info in value._fields]
    return restore, (_reference_to(value._owner.spec), cls.__name__, values, value._tags)


def _reference_to(spec: MessageSpec) -> str | MessageSpec:
    """Return what a pickle holds of a spec: its name if it is the catalog's, else the spec itself."""
    known = spec.name in catalog.names() and catalog.load(spec.name) is spec
    return spec.name if known else spec


def restore(reference: str | MessageSpec, struct: str, values: list[Any], tags: Any) -> Any:
    """Return the value that a pickle holds; a user's spec gets a class of its own in each process."""
    message_class = class_in_catalog(reference) if isinstance(reference, str) else class_of(reference)
    cls = message_class._classes[struct]
    value = object.__new__(cls)
    for info, item in zip(cls._fields, values, strict=True):
        setattr(value, info.attribute, item)
    value._tags = tags
    return value
