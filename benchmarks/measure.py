"""Repeated measurements of the CPU time of a function, and of flops."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Timing:
    """Seconds of CPU time: the median, minimum and maximum of the repeats."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.3g} s [{self.least:.3g}, {self.most:.3g}]"


def cpu_time(function: Callable[[], object], repeats: int = 3) -> Timing:
    """Run a function several times and return its CPU time."""
    seconds = []
    for _ in range(repeats):
        gc.collect()
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return Timing(float(np.median(seconds)), min(seconds), max(seconds))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log seconds on log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def dgemm_speed(size: int = 1200) -> float:
    """Return the flops per second of a large matrix product on one core."""
    a = np.random.default_rng(0).random((size, size))
    return 2.0 * size**3 / cpu_time(lambda: a @ a).least
