"""(spec, version) to and from bytes: objects and columns; headers; framing."""

from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.plan import MessagePlan, plan_message
from kafkaframes.protocol.messages.registry import message
from kafkaframes.protocol.messages.structs import Struct

__all__ = ["Message", "MessagePlan", "Struct", "class_of", "message", "plan_message"]
