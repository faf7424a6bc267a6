"""The processes of one host: workers, what they are told, and what they share."""
