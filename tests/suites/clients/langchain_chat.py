"""LangChain's standard integration tests of a chat model, of `ChatOpenAI` with nothing changed but where it asks.

Collected by pytest from within `main`, once for each target.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from observing import Target, note, observed, targets

_asked: list[Target] = []
_failed: list[str] = []  # at the model server itself: these tests are not tried any further


class TestChatOpenAI(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        (target,) = _asked
        return {
            "model": target.model,
            "base_url": target.base_url,
            "api_key": target.key,
            "temperature": 0,
            "max_tokens": 60,
            "stop": [". "],
            # Told apart by it, or most tests would ask what another one has asked before.
            "seed": zlib.crc32(os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0].encode()),
            "max_retries": 0,
            "timeout": 60,
            "stream_usage": True,
        }

    @pytest.fixture
    def benchmark(self) -> None:
        """For what the suite skips anyhow, since nothing is recorded."""

    @pytest.fixture
    def vcr(self) -> None:
        """Likewise."""

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return _asked[0].model


class Noting:
    """Turns each test's report into a line of results."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext[-500:]
            feature = report.nodeid.rpartition("::")[2].removeprefix("test_")
            note(_asked[0], feature, outcome=report.outcome, reason=reason)
            if report.failed and _asked[0].phase == "direct":
                _failed.append(report.nodeid)


def main() -> None:
    # Imported by its name, so that what is set here is what the tests see.
    import langchain_chat

    here = str(Path(__file__).parent)
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-c", "/dev/null"]
    options += [
        "-o",
        "asyncio_default_fixture_loop_scope=session",
        "-o",
        "asyncio_default_test_loop_scope=session",
    ]
    options += ["--rootdir", here, "--confcutdir", here, __file__]
    with observed():
        for target in targets():
            langchain_chat._asked[:] = [target]
            left_out = [f"--deselect={test}" for test in langchain_chat._failed]
            pytest.main([*options, *left_out], plugins=[langchain_chat.Noting()])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
