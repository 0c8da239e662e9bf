"""The language of message specs (KIP-482), with loading, checks, rules of evolution, and the catalog."""

from kafkaframes.protocol.spec.load import load_message
from kafkaframes.protocol.spec.model import FieldSpec, FieldType, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import Versions

__all__ = ["FieldSpec", "FieldType", "MessageSpec", "StructSpec", "Versions", "load_message"]
