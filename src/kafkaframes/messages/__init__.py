"""(spec, version) to and from bytes: objects and columns; headers; framing."""

from kafkaframes.messages.objects import Message, Struct
from kafkaframes.messages.plan import MessagePlan, plan_message
from kafkaframes.messages.registry import class_of, message

__all__ = ["Message", "MessagePlan", "Struct", "class_of", "message", "plan_message"]
