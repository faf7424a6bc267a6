"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway import cli
from gateway.commands import app
from gateway.version import VERSION

from .serving import ROOT, Serving, serving


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    with serving() as running:
        yield running


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def config(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "echogate.yaml"
    file.write_text(text)
    return file


def test_version() -> None:
    assert run("version").stdout.strip() == VERSION


def test_a_key_is_created_listed_and_revoked(running: Serving) -> None:
    created = run("keys", "create", "--tenant", "acme", "--name", "one", "--config", running.config)
    assert created.exit_code == 0, created.output
    key_id = created.stdout.strip().split("-")[1]

    listed = run("keys", "list", "--config", running.config)
    (row,) = (line for line in listed.stdout.splitlines() if line.startswith(key_id))
    assert row.split()[1] == "acme"
    assert "active" in row

    assert run("keys", "revoke", key_id, "--config", running.config).stdout == f"revoked {key_id}\n"
    keys = json.loads(run("keys", "list", "--json", "--config", running.config).stdout)
    assert next(key for key in keys if key["id"] == key_id)["revoked_at"]


def test_a_key_can_be_made_for_a_script(running: Serving) -> None:
    created = run(
        "keys", "create", "--tenant", "t", "--rate-per-s", "2.5", "--burst", "3", "--json", "--config", running.config
    )  # fmt: skip
    assert json.loads(created.stdout)["limit"] == {"rate_per_s": 2.5, "burst": 3}


def test_what_the_admin_plane_refuses_is_one_sentence_on_stderr(running: Serving) -> None:
    refused = run("keys", "revoke", "nobody", "--config", running.config)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "error: There is no key with the id 'nobody'.\n"


def test_keys_need_a_running_echogate(tmp_path: Path) -> None:
    refused = run("keys", "list")
    assert refused.exit_code == 1
    assert (
        f"no Echogate serves from {tmp_path / 'echogate'}: start it with `echogate serve`" in refused.stderr
    )


def test_config_check_says_what_would_run(tmp_path: Path) -> None:
    file = config(tmp_path, "server: {workers: 2}\npools: {my-model: ['http://vllm-1:8000']}")
    told = run("config", "check", "--config", file).stdout
    assert "http://127.0.0.1:8080/v1, served by 2 workers" in told
    assert "my-model is answered by my-model-1 (http://vllm-1:8000)" in told
    assert "run `echogate models prepare`" in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {bindd: 'a:1'}", "server.bindd: unknown setting; did you mean bind?"),
        ("admin: {bind: '127.0.0.1:8080'}", "server.bind and admin.bind are both 127.0.0.1:8080"),
        (
            "pools: {m: [{url: 'http://a', api_key_env: NOT_THERE}]}",
            "the environment variable NOT_THERE is not set",
        ),
    ],
)
@pytest.mark.parametrize("command", [["config", "check"], ["serve"]])
def test_a_configuration_that_cannot_run_is_refused(
    tmp_path: Path, command: list[str], text: str, expected: str
) -> None:
    refused = run(*command, "--config", config(tmp_path, text))
    assert refused.exit_code == 1
    assert expected in refused.stderr
    assert "Traceback" not in refused.output


def test_models_prepare_refuses_what_is_not_there(tmp_path: Path) -> None:
    refused = run("models", "prepare", "--from", tmp_path / "nothing.whl")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: ")


def test_an_unknown_option_is_a_usage_error() -> None:
    assert run("serve", "--wrokers", "2").exit_code == 2


def test_foreign_packages_in_the_way_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cache", raising=False)
    assert cli.foreign_packages(ROOT) == {"cache": str(tmp_path / "cache.py")}
    with pytest.raises(SystemExit, match=r"must lie together .* `cache` comes from .*cache\.py"):
        cli.main()


def test_our_own_packages_are_not_foreign() -> None:
    assert cli.foreign_packages(ROOT) == {}
