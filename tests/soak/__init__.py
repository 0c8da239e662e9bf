"""Long tests: processes are killed under load, and state machines run random schedules and with broken rules."""
