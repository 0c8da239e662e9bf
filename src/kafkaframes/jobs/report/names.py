"""The forms in which a report is written."""

PAGE, JSON = "html", "json"
