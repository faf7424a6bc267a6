"""Who did what: a log that shows whether it was tampered with, and what of failed logins is worth a record."""
