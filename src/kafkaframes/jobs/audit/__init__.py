"""What an upgrade would break, from recorded traffic."""
