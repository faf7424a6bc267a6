"""Certificates for a test, made by openssl: an authority, a server's, a client's."""

from __future__ import annotations

import ssl
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    folder: Path

    @property
    def server(self) -> dict[str, str]:
        return {"cert": str(self.folder / "server.pem"), "key": str(self.folder / "server.key")}

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def client_pem(self) -> str:
        """Certificate and key in one."""
        return (self.folder / "client.pem").read_text() + (self.folder / "client.key").read_text()

    def context(self, *, with_client: bool = False, most: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        if with_client:
            context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        if most is not None:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # that it is old is the point
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = most
        return context


def make_certificates(folder: Path) -> Certificates:
    folder.mkdir(parents=True, exist_ok=True)
    _openssl(folder, "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority "
             "-keyout ca.key -out ca.pem")  # fmt: skip
    for name, more in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
        _openssl(folder, f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} "
                 f"-keyout {name}.key -out {name}.csr -addext {more}")  # fmt: skip
        _openssl(folder, f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
                 f"-copy_extensions copy -out {name}.pem")  # fmt: skip
    return Certificates(folder)


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True, timeout=30)
