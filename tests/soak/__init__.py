"""Long runs that kill processes, and compare the result with a ledger of all acknowledged records."""
