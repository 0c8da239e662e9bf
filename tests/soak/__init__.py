"""Long runs that kill what runs, and compare what is left with a ledger of what was acknowledged."""
