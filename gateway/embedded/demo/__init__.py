"""A tour of Echogate on real parts of one machine: `python -m gateway.embedded.demo --help`."""
