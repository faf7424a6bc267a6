"""What is in deploy/: the example names every setting with its default, and the tools have nothing to object to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gateway.settings.errors import setting_paths
from gateway.settings.pools import CapabilitySettings, MemberSettings, PoolSettings, PoolTimeouts
from gateway.settings.reading import Settings

DEPLOY = Path(__file__).parent.parent / "deploy"
EXAMPLE = DEPLOY / "echogate.example.yaml"
SECRETS = {"REDIS_PASSWORD": "0a1b", "VLLM_API_KEY": "2c3d"}


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ECHOGATE_")]:
        monkeypatch.delenv(name)


def with_optional_settings(example: str) -> str:
    """The example with the settings that are marked out in it: `#name: …`, where prose is `# Prose`."""
    return re.sub(r"^( *)#(?=\S)", r"\1", example, flags=re.MULTILINE)


def paths(section: object, parent: str = "") -> Iterator[str]:
    if isinstance(section, dict):
        for name, value in section.items():
            yield f"{parent}{name}"
            yield from paths(value, f"{parent}{name}.")


def run(tool: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """The tool's output, of a run without complaints. Skips the test where the tool is not installed."""
    found = shutil.which(tool, path=sysconfig.get_path("scripts")) or shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed: pip install 'echogate[deploy-checks]'")
    done = subprocess.run(
        [found, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], **(environment or {})},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example_says_the_defaults() -> None:
    example, defaults = Settings.load(EXAMPLE), Settings.load(None)
    assert example.model_dump(exclude={"pools"}) == defaults.model_dump(exclude={"pools"})


def test_example_loads_with_its_optional_settings(tmp_path: Path) -> None:
    whole = tmp_path / "echogate.yaml"
    whole.write_text(with_optional_settings(EXAMPLE.read_text()))
    assert list(Settings.load(whole).pools) == ["my-model", "my-other-model"]


def test_example_names_every_setting() -> None:
    whole = yaml.safe_load(with_optional_settings(EXAMPLE.read_text()))
    pool = whole["pools"]["my-other-model"]
    assert set(paths(whole | {"pools": None})) == set(setting_paths(Settings))
    assert pool.keys() == PoolSettings.model_fields.keys()
    assert pool["members"][0].keys() == MemberSettings.model_fields.keys()
    assert pool["members"][0]["capabilities"].keys() == CapabilitySettings.model_fields.keys()
    assert pool["timeouts"].keys() == PoolTimeouts.model_fields.keys()


def test_compose_configuration_loads() -> None:
    settings = Settings.load(DEPLOY / "compose.echogate.yaml")
    assert [member.url for member in settings.pools["my-model"].members] == ["http://vllm:8000"]


@pytest.mark.full
def test_dockerfile_passes_hadolint() -> None:
    run("hadolint", str(DEPLOY / "Dockerfile"))


@pytest.mark.full
def test_compose_file_passes_compose() -> None:
    config = yaml.safe_load(
        run("docker-compose", "--file", str(DEPLOY / "compose.yaml"), "config", environment=SECRETS)
    )
    reachable = {name for name, service in config["services"].items() if service.get("ports")}
    assert reachable == {"gateway", "jaeger"}  # vLLM and the stores are for the gateway only


@pytest.mark.full
def test_gateway_of_the_compose_file_gets_settings_that_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the image and the compose file set by environment is what Settings reads."""
    config = yaml.safe_load(
        run("docker-compose", "--file", str(DEPLOY / "compose.yaml"), "config", environment=SECRETS)
    )
    image = re.findall(r"^\s+(ECHOGATE_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    for name, value in [*image, *config["services"]["gateway"]["environment"].items()]:
        monkeypatch.setenv(name, value)
    settings = Settings.load(DEPLOY / "compose.echogate.yaml")
    assert settings.store.cache == "redis://:0a1b@redis-cache:6379/0"
    assert settings.cache.embedder.precision == "fp32"
    assert settings.server.bind == "0.0.0.0:8080"
