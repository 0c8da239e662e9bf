"""Client telemetry (KIP-714): a client's metrics are pushed to brokers that have subscribed to them."""
