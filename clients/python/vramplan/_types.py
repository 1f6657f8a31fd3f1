"""The documents, as far as most programs look into them; answers may have more fields."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

Verdict = Literal["fits", "tight", "unlikely", "does_not_fit", "unknown"]


class _Job(TypedDict):
    model: dict[str, Any]


class Job(_Job, total=False):
    """A training job; the fields of ``training`` are those of docs/api.md."""

    training: dict[str, Any]
    gpus: list[Union[str, dict[str, Any]]]
    reserve_bytes: int
    confidence: float


class Peak(TypedDict):
    phase: str
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    low_bytes: int
    high_bytes: int


class Fit(TypedDict):
    gpu: str
    usable_bytes: int
    headroom_bytes: int
    verdict: Verdict
    probability: float


class Result(TypedDict):
    """The answer to a job; sizes are in bytes."""

    versions: dict[str, Any]
    model: dict[str, Any]
    peak: Peak
    components: list[dict[str, Any]]
    gpus: list[Fit]
    notes: list[dict[str, Any]]


class Plan(TypedDict):
    """The pairs that reach a batch, and the ranked ways to make a job fit."""

    effective_batch: int
    pairs: list[dict[str, Any]]
    recommended: Union[dict[str, Any], None]
    options: list[dict[str, Any]]
