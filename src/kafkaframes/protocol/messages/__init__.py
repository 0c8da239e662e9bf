"""Encode and decode messages by a spec and a version, as objects or Arrow columns, with their headers and frames."""

from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.plan import MessagePlan, plan_message
from kafkaframes.protocol.messages.registry import message
from kafkaframes.protocol.messages.structs import Struct

__all__ = ["Message", "MessagePlan", "Struct", "class_of", "message", "plan_message"]
