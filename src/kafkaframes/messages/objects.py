"""A class for each message and for each struct in it, one for all versions; the version is an argument.

The classes are made from a ``MessageSpec`` at run time (:func:`message_class`), the catalog's and a user's alike. They
have slots and nothing per version, so a value decoded at one version is encoded at another as it is: a field that the
version lacks must be at its default, or be ignorable (KIP-482, Kafka's ``MessageData``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from kafkaframes.errors import DecodeError, EncodeError, OptionError, SpecError
from kafkaframes.messages.codec import Codec, all_of, check_mode, check_tag_header
from kafkaframes.messages.plan import Default, Empty, MessagePlan, attribute_of, default_of, plan_message
from kafkaframes.spec.model import FieldSpec, MessageSpec, StructSpec

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_BYTES: Final = 64  # in a repr; more is a count and the first few


class FieldInfo:
    """What a class knows of one of its fields, whatever the version."""

    __slots__ = ("attribute", "default", "spec", "struct")

    def __init__(self, spec: FieldSpec) -> None:
        self.spec = spec
        self.attribute = attribute_of(spec)
        self.default: Default = default_of(spec)
        self.struct: type[Struct] | None = None

    def make_default(self) -> Any:
        """Return the default, made anew where it can be changed."""
        if self.default is Empty.ARRAY:
            return []
        if self.default is Empty.STRUCT:
            assert self.struct is not None
            return self.struct()
        return self.default


class Struct:
    """The base of every generated class: a message, or a struct in one."""

    __slots__ = ("_tags",)
    __hash__ = None  # type: ignore[assignment]  # values can change
    _fields: ClassVar[tuple[FieldInfo, ...]] = ()
    _by_attribute: ClassVar[dict[str, FieldInfo]] = {}
    _owner: ClassVar[Any]  # the message's class
    _tags: list[tuple[int, bytes]] | None

    def __init__(self, **fields: Any) -> None:
        made: Any = next(one for one in type(self).__mro__ if "_fields" in vars(one))
        if "__init__" not in vars(made):
            made.__init__ = _initialiser(made)
        made.__init__(self, **fields)

    @property
    def unknown_tags(self) -> list[tuple[int, bytes]]:
        """The tagged fields that the spec does not declare, as ``(tag, bytes)``, ascending; yours to change."""
        if self._tags is None:
            self._tags = []
        return self._tags

    @unknown_tags.setter
    def unknown_tags(self, tags: Iterable[tuple[int, bytes]]) -> None:
        self._tags = list(tags)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__class__ is not self.__class__:
            return NotImplemented
        if (self._tags or None) != (other._tags or None):
            return False
        return not self._fields or bool(self._values(self) == self._values(other))

    _values: ClassVar[Any] = None  # an attrgetter of all fields

    def __repr__(self) -> str:
        """Show what differs from the defaults."""
        shown = [
            f"{info.attribute}={_short(value)}"
            for info in self._fields
            if (value := getattr(self, info.attribute)) != info.make_default()
        ]
        shown += [f"unknown_tags={self._tags!r}"] if self._tags else []
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        from kafkaframes.messages.registry import reference_to, restore

        cls = next(one for one in type(self).__mro__ if "_fields" in vars(one))
        values = [getattr(self, info.attribute) for info in self._fields]
        return restore, (reference_to(self._owner.spec), cls.__name__, values, self._tags)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        twin = self.replace()
        for info in self._fields:
            setattr(twin, info.attribute, copy.deepcopy(getattr(self, info.attribute), memo))
        return twin

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; what is not changed is shared with this one."""
        fields = {info.attribute: getattr(self, info.attribute) for info in self._fields}
        return type(self)(**(fields | {"unknown_tags": self._tags or ()} | changes))

    def find(self, field: str, **keys: Any) -> Any:
        """Return the first element of an array with these keys, or None (Kafka's ``mapKey`` collections).

        >>> response.find("topics", name="orders")                                          # doctest: +SKIP

        Raises:
            OptionError: ``field`` is no array of structs, or a key is no key of theirs.
        """
        return next(iter(self._matches(field, keys)), None)

    def find_all(self, field: str, **keys: Any) -> list[Any]:
        """Return every element of an array with these keys, in order: keys may repeat on the wire."""
        return list(self._matches(field, keys))

    def _matches(self, field: str, keys: dict[str, Any]) -> Iterable[Any]:
        info = self._by_attribute.get(field)
        if info is None or info.struct is None or not info.spec.type.is_array:
            raise OptionError(f"{type(self).__name__}.{field} is no array of structs")
        known = {one.attribute for one in info.struct._fields if one.spec.map_key}
        if not keys or not known.issuperset(keys):
            raise OptionError(f"{info.struct.__name__} is found by {', '.join(sorted(known)) or 'no key'}")
        items = getattr(self, field) or ()
        return (one for one in items if all(getattr(one, key) == value for key, value in keys.items()))


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
    ) -> tuple[Self, int]:
        """Return the value that starts at ``position``, and the position behind it.

        Raises:
            DecodeError: as :meth:`decode`, but bytes may follow.
        """
        strict = check_mode(mode)
        try:
            codec = cls.codec(version)
        except OptionError as error:
            raise DecodeError(str(error)) from None
        buf = data if isinstance(data, bytes) else bytes(data)
        if tag_header == "adopted":
            return codec.decode(buf, position, strict=strict)
        check_tag_header(tag_header)
        return codec.interpret(buf, position, strict=strict, tag_header=tag_header)

    @classmethod
    def decode_columns(
        cls, messages: Sequence[bytes] | pa.Array, version: int, *, mode: str = "reference"
    ) -> pa.StructArray:
        """Return many bodies as one Arrow array, a row each; see ``messages/columns.py`` for its shape.

        Args:
            messages: bytes objects, or a binary array (of any kind).
            version: the API's version.
            mode: as for :meth:`decode`. A body that :meth:`decode` would refuse is a row of nulls with the reason in
                its ``_error``, and spoils no other.

        Raises:
            DecodeError: no such version.
            OptionError: no such mode, or more than 2 GiB at once.
        """
        from kafkaframes.messages import columns

        def explain(data: bytes) -> str | None:
            try:
                cls.decode(data, version, mode=mode)
            except DecodeError as error:
                return str(error)
            return None

        check_mode(mode)
        return columns.decode_columns(cls._plan(version, DecodeError), messages, mode=mode, explain=explain)

    @classmethod
    def encode_columns(cls, array: pa.StructArray, version: int) -> pa.BinaryArray:
        """Return the bodies of many rows; the inverse of :meth:`decode_columns`.

        Columns are found by name, a missing one is at its default, ``_error`` is not looked at, a null row is null.

        Raises:
            EncodeError: a row cannot be written at this version; names row and field.
        """
        from kafkaframes.messages import columns

        return columns.encode_columns(cls._plan(version, EncodeError), array)

    @classmethod
    def _plan(cls, version: int, error: type[DecodeError | EncodeError]) -> MessagePlan:
        try:
            return cls.codec(version).plan
        except OptionError as reason:
            raise error(str(reason)) from None

    def encode(self, version: int, *, tag_header: str = "adopted") -> bytes:
        """Return the body's bytes at a version; ``tag_header`` as in :meth:`decode`.

        Raises:
            EncodeError: a value does not fit its type, is null where it must not, or is set at a version that lacks
                the field; with field path, and the first version that has the field.
        """
        try:
            codec = self.codec(version)
        except OptionError as error:
            raise EncodeError(str(error)) from None
        if check_tag_header(tag_header):
            return codec.encode(self)
        return codec.interpret_encode(self, tag_header=tag_header)

    def size(self, version: int) -> int:
        """Return how many bytes :meth:`encode` gives."""
        return len(self.encode(version))

    @classmethod
    def from_json(cls, value: Any, version: int) -> Self:
        """Return the value that Kafka's JSON form (parsed: a dict) describes; see ``messages/json_form.py``.

        Raises:
            EncodeError: a field of that version is missing, or a value is not of its type; with field path.
        """
        from kafkaframes.messages import json_form

        made: Self = json_form.from_json(cls, value, version)
        return made

    def to_json(self, version: int, *, records: str = "empty") -> dict[str, Any]:
        """Return Kafka's JSON form of the value at a version, ready for ``json.dumps``.

        Args:
            version: the fields of which version to show.
            records: what stands for records: ``empty`` as Kafka's own converter writes them, ``base64`` (nothing is
                lost), or ``size``: their size, as Kafka's request log has it.

        Raises:
            EncodeError: as :meth:`encode` for a field that the version lacks, and for a null.
        """
        from kafkaframes.messages import json_form

        return json_form.to_json(self, version, records=records)


def _initialiser(cls: type[Struct]) -> Any:
    """Return an ``__init__`` with a keyword for each field. Made at the first call: most classes are never called."""
    constants: dict[str, Any] = {"NEW": object()}
    keywords, lines = [], []
    for info in cls._fields:
        name = info.attribute
        if isinstance(info.default, Empty):
            constants[f"make_{name}"] = list if info.default is Empty.ARRAY else info.struct
            keywords.append(f"{name}=NEW")
            lines.append(f"    _o.{name} = make_{name}() if {name} is NEW else {name}")
        else:
            constants[f"default_{name}"] = info.default
            keywords.append(f"{name}=default_{name}")
            lines.append(f"    _o.{name} = {name}")
    signature = ", ".join(["_o, /, *", *keywords, "unknown_tags=()"])
    text = "\n".join([f"def __init__({signature}):", *lines, "    _o._tags = list(unknown_tags) or None", ""])
    exec(compile(text, f"<kafkaframes {cls.__qualname__}>", "exec"), constants)
    return constants["__init__"]


def _short(value: Any) -> str:
    if isinstance(value, bytes) and len(value) > _LONGEST_BYTES:
        return f"<{len(value)} bytes {value[:8].hex()}...>"
    return repr(value)


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
    for name, one in classes.items():
        setattr(top, name, one)
        one.__qualname__ = f"{spec.name}.{name}"
        one._owner = top
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
        struct.name, (base,), {"__slots__": tuple(attributes), "__module__": "kafkaframes.messages"}
    )
    made._fields = fields
    made._by_attribute = {info.attribute: info for info in fields}
    made._values = staticmethod(attrgetter(*attributes)) if attributes else None
    made.__doc__ = f"The struct {struct.name}."
    return made
