"""Find the clients that an upgrade of the brokers would break, from recorded traffic."""
