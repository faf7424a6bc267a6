"""The configuration: read once, checked, immutable."""
