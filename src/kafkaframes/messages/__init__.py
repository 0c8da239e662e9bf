"""(spec, version) to and from bytes: objects and columns; headers; framing."""

from kafkaframes.messages.objects import Message, class_of
from kafkaframes.messages.plan import MessagePlan, plan_message
from kafkaframes.messages.registry import message
from kafkaframes.messages.structs import Struct

__all__ = ["Message", "MessagePlan", "Struct", "class_of", "message", "plan_message"]
