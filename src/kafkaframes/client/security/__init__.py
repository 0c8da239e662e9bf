"""Security as Kafka's Java clients are told it: JAAS, key stores, OpenID Connect; each becomes settings of ours."""
