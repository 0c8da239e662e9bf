"""The transaction coordinator: producer ids, transactions, and their records in ``__transaction_state``."""
