"""Groups, transactions and share groups: state machines without sockets and clocks of their own."""
