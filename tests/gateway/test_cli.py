"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway import cli
from gateway.commands.main import app
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


def told(running: Serving, *arguments: str) -> str:
    """What a command prints that must succeed."""
    done = run(*arguments, "--config", running.config)
    assert done.exit_code == 0, done.output
    return done.stdout


def answer(running: Serving, *arguments: str) -> Any:
    return json.loads(told(running, *arguments, "--json"))


def test_a_key_is_created_listed_disabled_enabled_and_deleted(running: Serving) -> None:
    key_id = told(running, "keys", "create", "--tenant", "acme", "--name", "one").strip().split("-")[1]

    def row() -> str:
        lines = told(running, "keys", "list").splitlines()
        return next((line for line in lines if line.startswith(key_id)), "")

    assert row().split()[1:4] == ["acme", "default", "active"]
    assert told(running, "keys", "disable", key_id) == f"disabled {key_id}\n"
    assert row().split()[3] == "disabled"
    assert told(running, "keys", "enable", key_id) == f"enabled {key_id}\n"
    assert told(running, "keys", "delete", key_id) == f"deleted {key_id}\n"
    assert row() == ""


def test_a_key_can_be_made_for_a_script(running: Serving) -> None:
    made = answer(
        running, "keys", "create", "--tenant", "t", "--requests-per-s", "25", "--burst", "30", "--expires-in", "90d",
        "--set", "limits.tokens_per_min=1000", "--set", 'policy.models=["m1"]', "--set", "metadata.team=search",
    )  # fmt: skip
    said = {name: value for name, value in made["limits"].items() if value is not None}
    assert said == {"requests_per_s": 25, "burst": 30, "tokens_per_min": 1000}
    assert (made["policy"]["models"], made["metadata"]) == (["m1"], {"team": "search"})
    assert made["expires_at"] > made["created_at"]


def test_a_key_is_changed_and_rotated(running: Serving) -> None:
    made = answer(running, "keys", "create", "--tenant", "t")
    changed = answer(running, "keys", "update", made["id"], "--set", "limits.requests_per_s=null")
    assert changed["limits"]["requests_per_s"] is None
    rotated = told(running, "keys", "rotate", made["id"], "--grace", "0s").strip()
    assert rotated.startswith(f"eg-{made['id']}-")
    assert rotated != made["key"]
    assert json.loads(told(running, "keys", "get", made["id"]))["effective"]["cache_scope"] == "tenant"


def test_tenants_and_services_are_managed_alike(running: Serving) -> None:
    assert told(running, "tenants", "create", "big") == "created big\n"
    assert (
        told(running, "services", "create", "big/web", "--set", "limits.concurrent=5") == "created big/web\n"
    )
    assert [each["name"] for each in answer(running, "services", "list", "--tenant", "big")] == ["web"]
    assert answer(running, "tenants", "update", "big", "--set", "limits.requests_per_min=60")["change"][
        "replicated"
    ]
    assert "requests_per_min=60" in told(running, "tenants", "list")
    assert told(running, "services", "disable", "big/web") == "disabled big/web\n"
    assert json.loads(told(running, "services", "get", "big/web"))["disabled_at"] is not None
    assert told(running, "services", "delete", "big/web") == "deleted big/web\n"
    assert told(running, "tenants", "delete", "big") == "deleted big\n"


def test_an_admin_key_is_made_listed_and_disabled(running: Serving) -> None:
    made = answer(running, "admin-keys", "create", "--role", "viewer", "--name", "a dashboard")
    assert f"{made['id']}  viewer" in told(running, "admin-keys", "list")
    assert told(running, "admin-keys", "disable", made["id"]) == f"disabled {made['id']}\n"
    assert told(running, "admin-keys", "delete", made["id"]) == f"deleted {made['id']}\n"


def test_what_was_done_is_told_and_is_intact(running: Serving) -> None:
    told(running, "tenants", "create", "told")
    assert "tenant.create" in told(running, "audit", "list", "--limit", "1000")
    assert "records checked" in told(running, "audit", "verify", "--full")


def test_usage_is_told_as_a_table_json_and_csv(running: Serving) -> None:
    told(running, "tenants", "create", "quiet")
    assert told(running, "usage", "--name", "quiet").split()[:3] == ["START", "TENANT", "NAME"]
    assert answer(running, "usage", "--name", "quiet") == []
    assert told(running, "usage", "--name", "quiet", "--csv").startswith(
        "level,tenant,name,bucket,start,requests"
    )


def test_what_is_exported_can_be_imported(running: Serving, tmp_path: Path) -> None:
    told(running, "tenants", "create", "moving")
    file = tmp_path / "records"
    file.write_text(told(running, "export"))
    assert '"name": "moving"' in file.read_text()
    imported = answer(running, "import", str(file))
    assert imported == {"added": 0, "present": len(file.read_text().splitlines())}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["keys", "disable", "nobody"], "error: There is no key 'nobody'.\n"),
        (["services", "get", "nobody"], "error: 'nobody' names no service: expected TENANT/NAME\n"),
        (["keys", "rotate", "x", "--grace", "soon"], "error: 'soon' is no duration: expected one such as"),
        (["keys", "update", "x", "--set", "burst"], "error: --set burst: expected NAME=VALUE"),
    ],
)
def test_what_cannot_be_is_one_sentence_on_stderr(
    running: Serving, arguments: list[str], expected: str
) -> None:
    refused = run(*arguments, "--config", running.config)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(expected)


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


def test_models_prepare_makes_the_data_folder_for_its_owners_eyes_only(tmp_path: Path) -> None:
    run("models", "prepare", "--from", tmp_path / "nothing.whl")
    assert (tmp_path / "echogate").stat().st_mode & 0o777 == 0o700


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
