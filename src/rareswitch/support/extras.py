"""Libraries that only some commands need: what is missing, and how to get it."""

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
    """Raise an ImportError that says what to install where libraries of an extra are missing."""
    if missing := [name for name in EXTRAS[extra] if find_spec(name) is None]:
        raise ImportError(
            f"{', '.join(missing)} must be installed: pip install 'rareswitch[{extra}]'"
        )
