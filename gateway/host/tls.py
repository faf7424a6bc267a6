"""Decides how TLS is spoken: 1.2 or later, with which certificates, and whom the command line takes for the server."""

from __future__ import annotations

import ssl
from pathlib import Path

from ..settings.errors import SettingsError
from ..settings.sections import AdminTlsSettings, TlsSettings


def server_context(tls: TlsSettings, *, setting: str) -> ssl.SSLContext:
    """What a listener uses; 1.3 wherever the other side speaks it. Raises SettingsError where a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load_own(context, tls.cert, tls.key, setting=setting)
    if isinstance(tls, AdminTlsSettings) and tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except OSError as error:  # ssl's errors are OSErrors
            raise SettingsError(
                f"{setting}.client_ca: cannot use {tls.client_ca}: {_reason(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: AdminTlsSettings, own: Path) -> ssl.SSLContext:
    """For the command line, which knows the certificate itself: no name has to match, nor any authority be known.

    `own` is a PEM file with the certificate and key it shows; not there: none. Raises SettingsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(tls.cert)
    except OSError as error:
        raise SettingsError(f"admin.tls.cert: cannot use {tls.cert}: {_reason(error)}") from error
    if own.exists():
        _load_own(context, own, own, setting="client certificate")
    return context


def _load_own(context: ssl.SSLContext, cert: Path, key: Path, *, setting: str) -> None:
    try:
        # Never asked for on a terminal: a key with a password is refused.
        context.load_cert_chain(cert, key, password="")
    except OSError as error:
        raise SettingsError(f"{setting}: cannot use {cert} with {key}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or type(error).__name__
