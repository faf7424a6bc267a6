"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A speed is never asserted: on a busy machine an example may take any time.
settings.register_profile("echogate", deadline=None)
settings.load_profile("echogate")
