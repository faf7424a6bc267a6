"""One file, one environment: what can be set, what is refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from gateway.settings.errors import SettingsError, setting_paths
from gateway.settings.explain import problems, sentences
from gateway.settings.pools import MemberSettings
from gateway.settings.reading import Settings, read_api_key, read_otel_environment

from .settings_values import OTHER

EXAMPLE = Path(__file__).parents[2] / "deploy" / "echogate.example.yaml"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "echogate.yaml"
    file.write_text(text, encoding="utf-8")
    return Settings.load(file)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, text)
    return str(refused.value)


def at(settings: BaseModel, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def plain(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json")


def said(value: str) -> Any:
    """As a variable says it: lists, maps, numbers and flags as JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def test_a_key_that_comes_twice_is_refused_where_it_comes_again(tmp_path: Path) -> None:
    """A second `pools:` would silently take the place of the first."""
    twice = 'pools: {m: ["http://x"]}\nserver: {workers: 2}\npools: {n: ["http://y"]}\n'
    assert "line 3 says 'pools' again" in refusal(tmp_path, twice)


def test_a_section_of_which_every_line_is_commented_out_is_as_by_default(tmp_path: Path) -> None:
    assert load(tmp_path, "server:\n  # workers: 4\npools:\n") == Settings.load(None)
    assert "srever" in refusal(tmp_path, "srever:\n")


def test_a_judge_that_no_pool_serves_is_told(tmp_path: Path) -> None:
    """It finds nothing, ever: nobody would notice wrong hits."""
    text = 'pools: {m: ["http://x"]}\ncache: {embedder: {model: /}, audits: {judge: %s}}\n'
    assert "judge is mm, which no pool serves" in " ".join(sentences(load(tmp_path, text % "mm")))
    for usable in ("m", "agreement"):
        assert "no pool serves" not in " ".join(sentences(load(tmp_path, text % usable)))


def test_merges_are_no_repetition(tmp_path: Path) -> None:
    text = "prices: {m: &m {input: 1, output: 2}, n: {<<: *m, output: 3, <<: *m}}\n"
    assert load(tmp_path, text).prices["n"].output == 3


def test_without_a_file_it_serves_on_localhost_with_the_embedded_store(tmp_path: Path) -> None:
    settings = Settings.load(None)
    assert (settings.server.bind, settings.admin.bind) == ("127.0.0.1:8080", "127.0.0.1:8081")
    assert settings.store.is_embedded
    assert settings.data_dir == tmp_path / "echogate"


def test_every_value_has_another_one_here() -> None:
    sections = {path.rpartition(".")[0] for path in setting_paths(Settings)}
    assert set(OTHER) == {path for path in setting_paths(Settings) if path not in sections}


@pytest.mark.parametrize("path", OTHER)
def test_every_value_can_be_set_by_the_environment(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["store.durable", "store.cache"] if path.startswith("store.") else [path]:
        monkeypatch.setenv("ECHOGATE_" + name.upper().replace(".", "__"), OTHER[name])
    monkeypatch.setenv("ECHOGATE_" + path.upper().replace(".", "__"), OTHER[path])
    if path == "pools":
        assert Settings.load(None).pools["m"].members[0].url == "http://a:1"
        return
    assert plain(at(Settings.load(None), path)) == said(OTHER[path])
    assert at(Settings.load(None), path) != at(Settings.model_construct(), path)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOGATE_SERVER__WORKERS", "3")
    settings = load(tmp_path, "server: {workers: 2, grace_s: 7}")
    assert (settings.server.workers, settings.server.grace_s) == (3, 7)


def test_the_environment_adds_pools_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOGATE_POOLS", json.dumps({"b": ["http://b"]}))
    assert set(load(tmp_path, "pools: {a: ['http://a']}").pools) == {"a", "b"}


def test_a_list_of_urls_is_a_pool(tmp_path: Path) -> None:
    members = (
        load(tmp_path, "pools: {org/my-model: ['http://vllm-1:8000', 'http://vllm-2:8000/v1/']}")
        .pools["org/my-model"]
        .members
    )
    assert [(m.name, m.url, m.model) for m in members] == [
        ("org-my-model-1", "http://vllm-1:8000", "org/my-model"),
        ("org-my-model-2", "http://vllm-2:8000", "org/my-model"),
    ]


def test_a_pool_can_be_written_out(tmp_path: Path) -> None:
    text = """
    upstream: {idle_timeout_s: 5}
    pools:
      m:
        members: [{url: "https://a/prefix/v1", name: big, model: upstream-m, revision: r1, weight: 2}, "http://b"]
        timeouts: {connect_timeout_s: 1}
    """
    settings = load(tmp_path, text)
    big, second = settings.pools["m"].members
    assert (big.url, big.name, big.model, big.revision, big.weight) == (
        "https://a/prefix", "big", "upstream-m", "r1", 2,
    )  # fmt: skip
    assert second.name == "m-2"
    timeouts = settings.pools["m"].timeouts.over(settings.upstream)
    assert (timeouts.connect_timeout_s, timeouts.idle_timeout_s) == (1, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("serverr: {}", "serverr: unknown setting; did you mean server?"),
        ("server: {bindd: 'a:1'}", "server.bindd: unknown setting; did you mean bind?"),
        (
            "server: {xyz: 1}",
            "server.xyz: unknown setting; known here: bind, workers, body_limit_mib, grace_s",
        ),
        ("cache: {embedder: {kindd: onnx}}", "cache.embedder.kindd: unknown setting; did you mean kind?"),
        (
            "pools: {m: [{url: 'http://a', wieght: 2}]}",
            "pools.m.members.0.wieght: unknown setting; did you mean weight?",
        ),
        ("pools: {m: {member: []}}", "pools.m.member: unknown setting; did you mean members?"),
        ("cache: {ttl_s: .inf}", "cache.ttl_s: input should be "),
        ("server: {workers: 0}", "server.workers: input should be greater than or equal to 1"),
        ("server: {body_limit_mib: 65}", "server.body_limit_mib: input should be less than or equal to 64"),
        ("server: {bind: '8080'}", "server.bind: expected HOST:PORT such as 127.0.0.1:8080, found '8080'"),
        ("pools: {m: []}", "pools.m.members: "),
        ("pools: {m: ['ftp://a']}", "pools.m.members.0.url: expected a URL such as http://vllm-1:8000"),
        ("pools: {m: [{url: 'http://a', name: n}, {url: 'http://b', name: n}]}", "two members are named n"),
        ("store: {durable: 'redis://a'}", "store: set both store.durable and store.cache"),
        ("cache: {embedder: {kind: sentence_transformers}}", "needs cache.embedder.model"),
        ("- a", "expected a mapping of settings at the top"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "store: {durable: 'http://:s3cret@a', cache: 'redis://a'}",
        "pools: {m: ['http://user:s3cret@a']}",
        "store: {durable: 'redis://:s3cret@a'}",
    ],
)
def test_a_refusal_does_not_repeat_a_password(tmp_path: Path, text: str) -> None:
    assert "s3cret" not in refusal(tmp_path, text)


def test_passwords_are_not_in_the_repr() -> None:
    settings = Settings.model_validate(
        {"store": {"durable": "redis://:s3cret@a", "cache": "redis://:s3cret@a"}}
    )
    assert "s3cret" not in repr(settings)


def test_a_mistyped_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOGATE_SERVR__BIND", "127.0.0.1:1")
    with pytest.raises(
        SettingsError, match="ECHOGATE_SERVR__BIND names no setting; did you mean ECHOGATE_SERVER__BIND"
    ):
        Settings.load(None)


def test_variables_that_kubernetes_makes_of_a_service_named_echogate_are_none_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP_ADDR", "ADMIN_SERVICE_PORT"):
        monkeypatch.setenv(f"ECHOGATE_{name}", "tcp://10.0.0.1:8080")
    Settings.load(None)


def test_mode_off_needs_no_quotes(tmp_path: Path) -> None:
    assert load(tmp_path, "cache: {mode: off}").cache.mode == "off"


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        Settings.load(tmp_path / "nothing.yaml")


def test_a_credential_comes_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "one")
    (tmp_path / "key").write_text("two\n")
    member: dict[str, Any] = {"url": "http://a", "name": "a", "model": "m"}
    assert read_api_key(MemberSettings(**member, api_key_env="UPSTREAM_KEY")) == "one"
    assert read_api_key(MemberSettings(**member, api_key_file=tmp_path / "key")) == "two"
    assert read_api_key(MemberSettings(**member)) is None
    with pytest.raises(SettingsError, match="NOT_THERE is not set"):
        read_api_key(MemberSettings(**member, api_key_env="NOT_THERE"))
    with pytest.raises(SettingsError, match="No such file"):
        read_api_key(MemberSettings(**member, api_key_file=tmp_path / "other"))


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, "http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_traces_leave_only_where_an_endpoint_is_named(
    environment: dict[str, str], protocol: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert read_otel_environment().protocol == protocol


def test_an_unknown_otlp_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(SettingsError, match="expected http/protobuf or grpc"):
        read_otel_environment()


def cache_of(embedder: Any) -> Settings:
    sections: dict[str, Any] = {"cache": {"embedder": embedder}}
    return Settings(**sections)


def test_an_embeddings_endpoint_needs_a_url_a_name_and_a_size() -> None:
    with pytest.raises(ValueError, match=r"cache\.embedder\.url.*\.dimension"):
        cache_of({"kind": "http", "model": "m", "url": "http://a:1"})


def test_a_missing_key_of_an_embeddings_endpoint_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = {"kind": "http", "url": "http://a:1", "model": "m", "dimension": 384, "api_key_env": "E_KEY"}
    settings = cache_of(endpoint | {"next": endpoint | {"revision": "2"}})
    monkeypatch.delenv("E_KEY", raising=False)
    assert problems(settings) == [
        f"cache.embedder{place}.api_key_env: the environment variable E_KEY is not set"
        for place in ("", ".next")
    ]
    monkeypatch.setenv("E_KEY", "word")
    assert problems(settings) == []


def test_only_one_embedder_can_follow() -> None:
    with pytest.raises(ValueError, match=r"remove next\.next"):
        cache_of({"next": {"next": {}}})


def test_the_example_shows_every_setting_and_loads() -> None:
    Settings.load(EXAMPLE)
    text = EXAMPLE.read_text(encoding="utf-8")
    uncommented = "\n".join(
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line for line in text.splitlines()
    )
    for path in setting_paths(Settings):
        assert f"{path.rpartition('.')[2]}:" in uncommented, f"{path} is not in the example"
    assert yaml.safe_load(text)
