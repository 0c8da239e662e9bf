"""The language of message specs (KIP-482): loading, checks, evolution, the catalog."""

from kafkaframes.spec.load import load_message
from kafkaframes.spec.model import FieldSpec, FieldType, MessageSpec, StructSpec
from kafkaframes.spec.versions import Versions

__all__ = ["FieldSpec", "FieldType", "MessageSpec", "StructSpec", "Versions", "load_message"]
