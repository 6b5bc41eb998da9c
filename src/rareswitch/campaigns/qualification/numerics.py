"""The libraries and instructions that decide the last bits of a fit."""

import ctypes
from pathlib import Path

import numpy as np

# Function names by which builds of OpenBLAS return their kernel for this processor.
CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


def numerics() -> dict[str, str]:
    """Return the versions of NumPy and its BLAS, the BLAS kernel, and NumPy's CPU instructions.

    Two machines with equal values give equal bytes. An unknown kernel is an empty text.
    """
    config = np.show_config(mode="dicts")
    assert isinstance(config, dict)
    blas = config["Build Dependencies"]["blas"]
    found = config["SIMD Extensions"].get("found", [])
    return {
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
        "kernel": _kernel(),
        "instructions": " ".join(found),
    }


def same_numerics(told: dict[str, str]) -> bool:
    """Return whether this process must give the same bytes as a machine with `told`."""
    mine = numerics()
    return mine == told and bool(mine["kernel"])


def _kernel() -> str:
    """Return OpenBLAS's kernel for this processor; empty if unknown."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ""
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "openblas" in line}
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for name in CORE_NAMES:
            if (tell := getattr(library, name, None)) is not None:
                tell.restype = ctypes.c_char_p
                return bytes(tell()).decode()
    return ""
