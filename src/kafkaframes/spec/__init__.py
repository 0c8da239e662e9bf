"""The language of message specs (KIP-482): loading, checks, evolution, the catalog."""
