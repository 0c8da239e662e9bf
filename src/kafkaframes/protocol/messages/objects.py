"""Classes for messages and their structs. One class covers all versions of a message; the version is an argument.

The classes are created from a ``MessageSpec`` at run time (:func:`message_class`), also for a user's specs. A value
that was decoded at one version can be encoded at another. A field that this version lacks must have its default or be
ignorable (KIP-482, Kafka's ``MessageData``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kafkaframes.errors import DecodeError, EncodeError, OptionError, SpecError
from kafkaframes.protocol.messages import json_form
from kafkaframes.protocol.messages.codec import Codec, is_adopted_tag_header, is_strict_mode, reject_surplus
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.messages.structs import FieldInfo, Struct
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec, StructSpec
from kafkaframes.wire.primitives import DeferredBytes

if TYPE_CHECKING:
    import pyarrow as pa


class Message(Struct):
    """Base class of all messages."""

    __slots__ = ()
    spec: ClassVar[MessageSpec]
    _classes: ClassVar[dict[str, Any]]
    _codecs: ClassVar[dict[int, Codec]]

    @classmethod
    def codec(cls, version: int) -> Codec:
        """Return the codec of a version, which is created on first use.

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
        """Decode a body.

        Args:
            data: one body, without frame and header.
            version: API version.
            mode: ``reference`` accepts the same bytes as Kafka, ``strict`` only canonical bytes.
            tag_header: ``interleaved`` for the tag headers of KIP-482's early draft, which no release of Kafka uses.

        Raises:
            DecodeError: the data is invalid, or bytes remain after it; the error has the field's path and position.
        """
        data = bytes(data)
        value, position = cls.decode_prefix(data, version, mode=mode, tag_header=tag_header)
        reject_surplus(data, value, position)
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
        """Decode the value at ``position``, and return the value and the position after it.

        Args:
            data: bytes that contain a body.
            version: API version.
            position: start of the body.
            mode: ``reference`` accepts the same bytes as Kafka, ``strict`` only canonical bytes.
            tag_header: form of tag headers, an argument of :meth:`decode`.
            views: if ``data`` is a memoryview, return fields of type records as views of it, without a copy. The
                returned views keep the memory of ``data`` in use.

        Raises:
            DecodeError: the data is invalid. Unlike in :meth:`decode`, bytes may follow the value.
        """
        strict = is_strict_mode(mode)
        try:
            codec = cls.codec(version)
        except OptionError as error:
            raise DecodeError(str(error)) from None
        if tag_header == "adopted":
            body = data if views and isinstance(data, memoryview) else bytes(data)
            return codec.decode(body, position, strict=strict)
        is_adopted_tag_header(tag_header)
        return codec.decode_interpreted(bytes(data), position, strict=strict, tag_header=tag_header)

    @classmethod
    def decode_columns(
        cls, messages: Sequence[bytes] | pa.Array, version: int, *, mode: str = "reference"
    ) -> pa.StructArray:
        """Decode many bodies to an Arrow array with one row per body; see ``protocol/messages/columns.py``.

        Args:
            messages: bytes objects, or a binary array of any type.
            version: API version.
            mode: ``reference`` accepts the same bytes as Kafka, ``strict`` only canonical bytes. A body that
                :meth:`decode` would reject becomes a row of nulls with the reason in ``_error``. An invalid body does
                not affect other rows.

        Raises:
            DecodeError: the message has no such version.
            OptionError: the mode does not exist, or the bodies exceed 2 GiB.
        """
        from kafkaframes.protocol.messages import columns

        is_strict_mode(mode)
        decode = partial(cls.decode, version=version, mode=mode)
        return columns.decode_columns(cls._codec(version, DecodeError).plan, messages, mode=mode, decode=decode)

    @classmethod
    def encode_columns(cls, array: pa.StructArray, version: int) -> pa.BinaryArray:
        """Encode each row as a body: the inverse of :meth:`decode_columns`.

        Columns are matched by name. A missing column means the default, ``_error`` is ignored, and a null row becomes
        null.

        Raises:
            EncodeError: a row cannot be encoded at this version; the error has the row and the field.
        """
        from kafkaframes.protocol.messages import columns

        return columns.encode_columns(cls._codec(version, EncodeError).plan, array)

    @classmethod
    def _codec(cls, version: int, error: type[DecodeError | EncodeError] = EncodeError) -> Codec:
        """Return the codec of a version; raise ``error`` if the version does not exist."""
        try:
            return cls.codec(version)
        except OptionError as reason:
            raise error(str(reason)) from None

    def encode(self, version: int, *, tag_header: str = "adopted") -> bytes:
        """Encode the body at a version; ``tag_header`` has the same meaning as in :meth:`decode`.

        Raises:
            EncodeError: a value has the wrong type, is null in a field that is not nullable, or is set although the
                version lacks the field; the error has the field's path and the field's first version.
        """
        codec = self._codec(version)
        if is_adopted_tag_header(tag_header):
            return codec.encode(self)
        return codec.encode_interpreted(self, tag_header=tag_header)

    def encode_parts(self, version: int) -> list[bytes | DeferredBytes]:
        """Return the bytes of :meth:`encode` in parts. The values of long fields are parts, and are not copied.

        A :class:`kafkaframes.wire.primitives.DeferredBytes` in the value is also a part. The bytes of such a part are
        not read.

        Raises:
            EncodeError: the body cannot be encoded at this version, for the same reasons as in :meth:`encode`.
        """
        return self._codec(version).encode_parts(self)

    def size(self, version: int) -> int:
        """Return the size of the encoded body, in bytes."""
        return len(self.encode(version))

    @classmethod
    def from_json(cls, value: Any, version: int) -> Self:
        """Return the message of Kafka's JSON form (a parsed dict, described in ``protocol/messages/json_form.py``).

        Raises:
            EncodeError: a field of the version is missing, or a value has the wrong type; the error has the field's
                path.
        """
        message: Self = json_form.from_json(cls, cls._codec(version), value)
        return message

    def to_json(self, version: int, *, records: str = "empty", unknown_tags: bool = True) -> dict[str, Any]:
        """Return Kafka's JSON form of the value at a version, ready for ``json.dumps``.

        Args:
            version: version with the fields to include.
            records: form of fields of type records: ``empty`` as in Kafka's own converter, ``base64`` (complete), or
                ``size`` (in bytes) as in Kafka's request log.
            unknown_tags: whether to include unknown tagged fields as ``_unknownTags`` of their struct, so that
                :meth:`from_json` can restore them. False selects Kafka's own form, which omits these fields.

        Raises:
            EncodeError: a field that the version lacks is set, or a field that is not nullable is null.
        """
        return json_form.to_json(self, self._codec(version), records=records, unknown_tags=unknown_tags)


def message_class(spec: MessageSpec) -> type[Message]:
    """Return the class of a message. The classes of its structs are attributes of it.

    >>> Metadata = message_class(spec)                                                      # doctest: +SKIP
    >>> Metadata.MetadataResponseTopic(name="orders").encode                                # doctest: +SKIP
    """
    classes = {struct.name: _create_struct_class(struct, Struct) for struct in spec.structs.values()}
    top = _create_struct_class(spec.struct, Message)
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


def _create_struct_class(struct: StructSpec, base: type[Struct]) -> type[Struct]:
    """Return the class of a struct, with its fields as attributes."""
    if not struct.name.isidentifier():
        raise SpecError(f"{struct.name!r} is not a valid class name")
    fields = tuple(FieldInfo(field) for field in struct.fields)
    attributes = [info.attribute for info in fields]
    if len(set(attributes)) != len(attributes):
        raise SpecError(f"{struct.name}: two fields have the same name in Python")
    cls: type[Struct] = type(
        struct.name,
        (base,),
        {"__slots__": tuple(attributes), "__module__": "kafkaframes.protocol.messages", "__reduce__": _reduce_value},
    )
    cls._fields = fields
    cls._by_attribute = {info.attribute: info for info in fields}
    cls._values = staticmethod(attrgetter(*attributes)) if attributes else None
    cls.__doc__ = f"The struct {struct.name}."
    return cls


def class_of(spec: MessageSpec) -> type[Message]:
    """Return the class of a spec, which is created on first use."""
    cls: type[Message] | None = vars(spec).get("_message_class")
    if cls is None:
        cls = vars(spec).setdefault("_message_class", message_class(spec))
    return cls


@cache
def class_in_catalog(name: str) -> type[Message]:
    """Return the class of a message in the catalog.

    Raises:
        SpecError: the message does not exist.
    """
    return class_of(catalog.load_spec(name))


def _reduce_value(value: Struct) -> tuple[Any, ...]:
    """Return the pickled form of a value: ``__reduce__`` of all classes of messages and structs."""
    cls = next(base for base in type(value).__mro__ if "_fields" in vars(base))
    values = [getattr(value, info.attribute) for info in value._fields]
    return restore_value, (_make_reference(value._owner.spec), cls.__name__, values, value._tags)


def _make_reference(spec: MessageSpec) -> str | MessageSpec:
    """Return the pickled form of a spec: its name if it is in the catalog, else the spec itself."""
    is_in_catalog = spec.name in catalog.list_names() and catalog.load_spec(spec.name) is spec
    return spec.name if is_in_catalog else spec


def restore_value(reference: str | MessageSpec, struct: str, values: list[Any], tags: Any) -> Any:
    """Return the value that a pickle contains. A process creates its own class for a user's spec."""
    message_class = class_in_catalog(reference) if isinstance(reference, str) else class_of(reference)
    cls = message_class._classes[struct]
    value = object.__new__(cls)
    for info, item in zip(cls._fields, values, strict=True):
        setattr(value, info.attribute, item)
    value._tags = tags
    return value
