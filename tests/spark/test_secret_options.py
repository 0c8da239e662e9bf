"""A secret among a query's options is in no plan, description, error, progress, repr or log."""

MARK = "hidden8f3a"
