"""Where the Python tests find the command line tool, the Python package and the test model.

`make test` sets FOURFOLD_BIN, FOURFOLD_BIN_DIR, FOURFOLD_MODEL and FOURFOLD_PYTHON (the folder that
holds the package fourfold); run by hand, pytest uses build/ and models/.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("FOURFOLD_BIN", str(ROOT / "build/bin/fourfold"))
os.environ.setdefault("FOURFOLD_BIN_DIR", str(ROOT / "build/bin"))
os.environ.setdefault("FOURFOLD_MODEL", str(ROOT / "models/all-MiniLM-L6-v2"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("FOURFOLD_PYTHON", str(ROOT / "build/python"))
sys.path.insert(0, os.environ["FOURFOLD_PYTHON"])

Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def fourfold_bin() -> Path:
    """The command line tool. Missing is a failure, never a skipped test."""
    path = Path(os.environ["FOURFOLD_BIN"])
    if not path.is_file():
        pytest.fail(f"{path} is not there: run make build")
    return path


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The folder of the test model. Missing is a failure, never a skipped test."""
    path = Path(os.environ["FOURFOLD_MODEL"])
    if not (path / "config.json").is_file():
        pytest.fail(f"{path} is not there: run make model")
    return path


@pytest.fixture(scope="session")
def run_fourfold(fourfold_bin: Path) -> Callable[..., Completed]:
    """run_fourfold("inspect", path, ...) returns exit code, stdout and stderr of the tool."""

    def run(
        *arguments: str | Path, stdin: str = "", env: dict[str, str] | None = None
    ) -> Completed:
        return subprocess.run(
            [str(fourfold_bin), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **(env or {})},
        )

    return run
