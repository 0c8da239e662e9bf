"""(spec, version) to and from bytes: objects and columns; headers; framing."""
