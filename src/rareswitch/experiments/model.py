"""What all parts of a spec have in common."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A part of a spec: frozen, finite, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
