"""Echogate."""
