"""Owns the configuration as a whole: where it is read from, and the only place that looks at the environment.

One YAML file, each value overridable by an `ECHOGATE_*` environment variable (`ECHOGATE_SERVER__BIND`;
lists and maps as JSON). The sections are in settings/sections.py, the wording of errors in
settings/errors.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from .cache import CacheSettings
from .errors import SettingsError, explain, unknown_variables
from .pools import MemberSettings, PoolSettings, UpstreamSettings, pools_in_full
from .sections import (
    AdminSettings,
    LimitSettings,
    PriceSettings,
    ServerSettings,
    StoreSettings,
    TelemetrySettings,
)

ENV_PREFIX = "ECHOGATE_"
AUDIT_KEY_BYTES = 32
ENCRYPT_KEY_BYTES = 32


def default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "echogate"


class Settings(BaseSettings):
    """The whole configuration, checked and immutable."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        env_parse_none_str="null",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    server: ServerSettings = ServerSettings()
    admin: AdminSettings = AdminSettings()
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] = Field(default_factory=default_data_dir)
    store: StoreSettings = StoreSettings()
    pools: Annotated[dict[str, PoolSettings], BeforeValidator(pools_in_full)] = {}
    upstream: UpstreamSettings = UpstreamSettings()
    cache: CacheSettings = CacheSettings()
    limits: LimitSettings = LimitSettings()
    prices: dict[str, PriceSettings] = {}
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def model_folder(self) -> Path:
        """Where the onnx embedder's prepared model lies (`echogate models prepare`)."""
        return Path(self.cache.embedder.model or self.data_dir / "models" / "all-minilm-l6-v2")

    @classmethod
    def load(cls, path: Path | None) -> Settings:
        """The settings of a file (None: defaults) under the environment's overrides. Raises SettingsError."""
        if names := unknown_variables(cls, os.environ, prefix=ENV_PREFIX):
            raise SettingsError("\n".join(names))
        try:
            content = _read_yaml(path) if path is not None else {}
            # A section of which every line is commented out is null.
            return cls(**{k: v for k, v in content.items() if v is not None or k not in cls.model_fields})
        except ValidationError as error:
            raise SettingsError(explain(cls, error, source=path)) from error
        except ValueError as error:  # pydantic-settings: a variable that should hold JSON does not
            raise SettingsError(f"environment: {error}") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = _once_each(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError(
            f"{path}: expected a mapping of settings at the top, such as `server:` or `pools:`"
        )
    return content


def _once_each(path: Path, text: str) -> Any:
    """The content of a YAML text. The parser would keep the last of two equal keys: half a configuration, silently."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        for mapping in _mappings(root):
            names = [
                key for key, _ in mapping.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"
            ]
            first = {key.value: key for key in reversed(names)}
            for key in names:
                if key is not first[key.value]:
                    line = key.start_mark.line + 1
                    raise SettingsError(f"{path}: line {line} says {key.value!r} again: say it once")
        return None if root is None else loader.construct_document(root)
    finally:
        loader.dispose()


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """All of a document, each once, whatever its aliases repeat."""
    nodes, seen = [root], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            nodes += [value for _, value in node.value]
            yield node


def read_audit_key(name: str) -> bytes:
    """The audit log's key from the environment variable of that name. Raises SettingsError."""
    value = os.environ.get(name, "").strip()
    try:
        key = bytes.fromhex(value)
    except ValueError:
        key = b""
    if len(key) < AUDIT_KEY_BYTES:
        raise SettingsError(
            f"admin.audit_key_env: {name} must hold at least {AUDIT_KEY_BYTES} bytes as hexadecimal digits, as "
            "`openssl rand -hex 32` prints them"
        )
    return key


def read_encrypt_keys(sources: Sequence[str]) -> list[bytes]:
    """The keys that seal the cache store, from where `store.encrypt_key` points. Raises SettingsError."""
    return [_encrypt_key(source) for source in sources]


def _encrypt_key(source: str) -> bytes:
    kind, _, name = source.partition(":")
    try:
        text = os.environ.get(name, "") if kind == "env" else Path(name).read_text(encoding="utf-8")
        key = bytes.fromhex(text.strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != ENCRYPT_KEY_BYTES:
        raise SettingsError(
            f"store.encrypt_key: {source} must hold {ENCRYPT_KEY_BYTES} bytes as hexadecimal digits, as "
            "`openssl rand -hex 32` prints them"
        )
    return key


def read_api_key(member: MemberSettings) -> str | None:
    """The member's credential, from where the settings point. Raises SettingsError if it is not there."""
    if (name := member.api_key_env) is not None:
        if value := os.environ.get(name, "").strip():
            return value
        raise SettingsError(f"pools: member {member.name}: the environment variable {name} is not set")
    if (path := member.api_key_file) is not None:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            message = f"pools: member {member.name}: cannot read api_key_file {path}: {error.strerror}"
            raise SettingsError(message) from error
    return None


def read_credential(name: str) -> str | None:
    """What the environment variable of that name holds; None where it is not set on this host."""
    return os.environ.get(name, "").strip() or None


@dataclass(frozen=True, slots=True)
class OtelEnvironment:
    """What we must know of OpenTelemetry's own variables; its SDK reads all others itself."""

    protocol: Literal["http/protobuf", "grpc"] | None = None  # None: nothing is exported
    max_queue: int = 2048  # spans that wait for the collector


def read_otel_environment() -> OtelEnvironment:
    """Spans leave only where an OTLP endpoint is named. Raises SettingsError for an unknown protocol."""

    def value(name: str) -> str:
        return os.environ.get(name, "").strip()

    endpoint = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or value("OTEL_EXPORTER_OTLP_ENDPOINT")
    exporter = value("OTEL_TRACES_EXPORTER") or "otlp"
    if not endpoint or exporter == "none" or value("OTEL_SDK_DISABLED").lower() == "true":
        return OtelEnvironment()
    if exporter != "otlp":
        raise SettingsError(f"OTEL_TRACES_EXPORTER is {exporter!r}: expected otlp or none")
    queue = value("OTEL_BSP_MAX_QUEUE_SIZE") or "2048"
    if not queue.isdigit() or int(queue) < 512:  # the SDK's batches are of 512
        raise SettingsError(f"OTEL_BSP_MAX_QUEUE_SIZE is {queue!r}: expected a number of at least 512")
    match value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or value("OTEL_EXPORTER_OTLP_PROTOCOL"):
        case "" | "http/protobuf":
            return OtelEnvironment(protocol="http/protobuf", max_queue=int(queue))
        case "grpc":
            return OtelEnvironment(protocol="grpc", max_queue=int(queue))
        case other:
            raise SettingsError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {other!r}: expected http/protobuf or grpc")
