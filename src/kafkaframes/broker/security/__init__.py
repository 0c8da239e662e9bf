"""Authentication (SASL, TLS) and authorization (ACLs)."""
