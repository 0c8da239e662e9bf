"""What messages and records cost on the wire, and what they would cost otherwise: proposals, and records."""
