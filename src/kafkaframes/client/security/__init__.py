"""Security as Kafka's Java clients take it: JAAS, key stores, OpenID Connect; each becomes settings of ours."""
