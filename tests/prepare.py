"""Makes ready what tests would otherwise make on first use: `python -m tests.prepare`. A second run does nothing."""

from __future__ import annotations

from tests.backends.llama import weights
from tests.cache.prepared import prepared_model


def main() -> None:
    print("embedding model:", prepared_model(), flush=True)
    print("language model:", weights(), flush=True)


if __name__ == "__main__":
    main()
