"""Preparing the model: only the genuine weights, whole or not at all, and nothing altered afterwards is loaded."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from cache import ModelError, OnnxEmbedder, open_embedder, prepare
from cache.embed import minilm
from cache.embed.manifest import NAME, Manifest
from tests.cache.prepared import prepared_model


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared_model(), tmp_path / "model"))


def published(folder: Path, **contents: bytes) -> Path:
    """A folder with the published names and other contents."""
    folder.mkdir(parents=True)
    for name in minilm.SOURCE_SHA256:
        (folder / name).write_bytes(contents.get(name.split(".", maxsplit=1)[0], b"{}"))
    return folder


def test_a_good_folder_is_kept(copy: Path) -> None:
    before = (copy / NAME).stat().st_mtime_ns
    report = prepare(copy, source=Path("never/looked/at"))
    assert report.was_kept
    assert (copy / NAME).stat().st_mtime_ns == before


def test_tampered_weights_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    published(tmp_path / "source" / "deep", model=b"weights of somebody else")
    target = tmp_path / "models" / "minilm"
    with pytest.raises(ModelError, match=r"model\.safetensors is not the published file .* sha256"):
        prepare(target, source=tmp_path / "source")
    assert list(target.parent.iterdir()) == []


def test_a_tampered_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "minilm.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in minilm.SOURCE_SHA256:
            archive.writestr(f"package/model/{name}", b"{}")
        archive.writestr("package/model/1_Pooling/config.json", b"{}")
    with pytest.raises(ModelError, match="is not the published file"):
        prepare(tmp_path / "minilm", source=wheel)


@pytest.mark.parametrize("missing", list(minilm.SOURCE_SHA256))
def test_a_source_without_a_needed_file_says_which(tmp_path: Path, missing: str) -> None:
    source = published(tmp_path / "source")
    (source / missing).unlink()
    with pytest.raises(ModelError, match=missing):
        prepare(tmp_path / "minilm", source=source)


def test_a_source_that_is_neither_wheel_nor_folder_is_named(tmp_path: Path) -> None:
    source = tmp_path / "weights.bin"
    source.write_bytes(b"not a zip file")
    with pytest.raises(ModelError, match=r"weights\.bin is neither"):
        prepare(tmp_path / "minilm", source=source)


def test_an_absent_folder_says_which_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="echogate models prepare"):
        OnnxEmbedder(tmp_path / "absent")


@pytest.mark.parametrize("name", [*minilm.GRAPHS.values(), minilm.TOKENIZER])
def test_an_altered_file_is_not_loaded(copy: Path, name: str) -> None:
    with (copy / name).open("ab") as file:
        file.write(b" ")
    precision: minilm.Precision = "fp32" if name == minilm.GRAPHS["fp32"] else "int8"
    with pytest.raises(ModelError, match="not the file that was prepared"):
        OnnxEmbedder(copy, precision=precision)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x80\x04\x95"])
def test_an_unreadable_manifest_is_an_error_of_ours(copy: Path, content: bytes) -> None:
    (copy / NAME).write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read"):
        OnnxEmbedder(copy)


def test_int8_is_not_used_on_another_processor(copy: Path) -> None:
    msgspec.structs.replace(Manifest.read(copy), cpu="x86_64-avx2").write(copy)
    with pytest.raises(ModelError, match="prepare it again"):
        OnnxEmbedder(copy)
    OnnxEmbedder(copy, precision="fp32")


def test_a_kind_whose_library_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelError, match="pip install"):
        open_embedder("sentence_transformers", model="any")


@pytest.mark.parametrize(
    ("cpu", "is_exact"),
    [("x86_64", False), ("x86_64-avx2", False), ("x86_64-avx512_vnni", True), ("aarch64-asimddp", True)],
)
def test_processors_whose_sums_saturate_get_seven_bits(cpu: str, is_exact: bool) -> None:
    assert minilm.has_exact_int8(cpu) is is_exact
