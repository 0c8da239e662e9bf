"""Who a client is (SASL, TLS) and what it may do (access rules)."""
