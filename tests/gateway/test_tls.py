"""TLS on both listeners, client certificates on the admin one, and which proxies are believed."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.host.tls import server_context
from gateway.settings.errors import SettingsError
from gateway.settings.sections import AdminTlsSettings, TlsSettings

from .certificates import Certificates, make_certificates
from .serving import Serving, serving
from .test_cli import run

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[Serving]:
    server = {"tls": certificates.server, "trusted_proxies": ["127.0.0.1"]}
    admin = {
        "tls": certificates.server | {"client_ca": str(certificates.authority)},
        "trusted_proxies": ["127.0.0.1"],
    }
    with serving(server=server, admin=admin) as running:
        yield running


def asked(url: str, context: ssl.SSLContext, **headers: str) -> httpx.Response:
    with httpx.Client(verify=context, trust_env=False, timeout=20) as client:
        return client.get(url, headers=headers)


def test_both_listeners_speak_tls_and_say_so(secured: Serving, certificates: Certificates) -> None:
    said = next(json.loads(line) for line in secured.log.splitlines() if '"event":"serving"' in line)
    assert (said["data_plane"][:8], said["admin"][:8]) == ("https://", "https://")
    assert asked(f"{said['data_plane']}/facts", certificates.context()).status_code == 200
    assert asked(f"{said['admin']}/health/live", certificates.context(with_client=True)).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(secured.data_plane, trust_env=False)


def test_admins_need_a_certificate_that_the_authority_signed(
    secured: Serving, certificates: Certificates
) -> None:
    with pytest.raises(httpx.HTTPError):
        asked(f"https://{secured.holder['admin']}/health/live", certificates.context())


@pytest.mark.parametrize(
    ("most", "is_spoken"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
def test_nothing_older_than_1_2_is_spoken(
    secured: Serving, certificates: Certificates, most: ssl.TLSVersion, is_spoken: bool
) -> None:
    url = f"https://{secured.holder['data_plane']}/facts"
    context = certificates.context(most=most)
    if is_spoken:
        assert asked(url, context).status_code == 200
    else:
        with pytest.raises(httpx.HTTPError):
            asked(url, context)


def test_the_commands_know_the_certificate_and_show_their_own(
    secured: Serving, certificates: Certificates
) -> None:
    refused = run("keys", "list", "--config", secured.config)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: the admin plane at https://127.0.0.1:")
    own = secured.folder / "admin-client.pem"
    own.write_text(certificates.client_pem())
    try:
        assert run("keys", "list", "--config", secured.config).exit_code == 0
    finally:
        own.unlink()


def test_the_audit_log_names_the_address_behind_a_trusted_proxy(
    secured: Serving, certificates: Certificates
) -> None:
    context = certificates.context(with_client=True)
    with httpx.Client(
        base_url=f"https://{secured.holder['admin']}",
        verify=context,
        headers=secured.admin_headers,
        trust_env=False,
    ) as api:
        behind = {"x-forwarded-for": "203.0.113.9, 127.0.0.1"}
        api.post("/admin/tenants", json={"name": "t"}, headers=behind).raise_for_status()
        assert api.get("/admin/audit").json()["data"][-1]["source_ip"] == "203.0.113.9"


def test_a_proxy_that_nobody_named_is_not_believed() -> None:
    with (
        serving() as running,
        httpx.Client(base_url=running.admin, headers=running.admin_headers, trust_env=False) as api,
    ):
        behind = {"x-forwarded-for": "203.0.113.9", "x-forwarded-host": "evil.example"}
        api.post("/admin/tenants", json={"name": "t"}, headers=behind).raise_for_status()
        assert api.get("/admin/audit").json()["data"][-1]["source_ip"] == "127.0.0.1"


def test_a_certificate_that_cannot_be_used_ends_the_start_with_a_sentence(
    tmp_path: Path, certificates: Certificates
) -> None:
    file = tmp_path / "echogate.yaml"
    file.write_text("server: {tls: {cert: /nowhere.pem, key: /nowhere.key}}")
    refused = run("serve", "--config", file)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "error: server.tls: cannot use /nowhere.pem with /nowhere.key: No such file or directory\n",
    )
    other_key = TlsSettings(cert=Path(certificates.server["cert"]), key=certificates.folder / "client.key")
    with pytest.raises(SettingsError, match="KEY_VALUES_MISMATCH"):
        server_context(other_key, setting="server.tls")
    no_authority = AdminTlsSettings(
        cert=Path(certificates.server["cert"]),
        key=Path(certificates.server["key"]),
        client_ca=tmp_path / "no.pem",
    )
    with pytest.raises(SettingsError, match=r"admin\.tls\.client_ca: cannot use"):
        server_context(no_authority, setting="admin.tls")
