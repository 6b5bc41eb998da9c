"""Optional libraries: find missing libraries, and name the extra to install."""

from importlib.util import find_spec

EXTRAS = {
    "experiments": ("matplotlib", "jinja2"),
    "client": ("httpx",),
    "cluster": ("distributed",),
    "features": ("sklearn",),
    "gym": ("gymnasium", "matplotlib"),
    "logs": ("pyarrow",),
    "campaigns": ("sqlalchemy", "alembic", "orjson", "tomli_w", "pyarrow"),
    "postgres": ("psycopg",),
    "service": (
        "starlette",
        "uvicorn",
        "msgspec",
        "argon2",
        "fido2",
        "jinja2",
        "prometheus_client",
    ),
}


def require(extra: str) -> None:
    """Raise ImportError with the command to install if libraries of an extra are missing."""
    if missing := [name for name in EXTRAS[extra] if find_spec(name) is None]:
        raise ImportError(
            f"{', '.join(missing)} must be installed: pip install '.[{extra}]' in a checkout of "
            "rareswitch"
        )
