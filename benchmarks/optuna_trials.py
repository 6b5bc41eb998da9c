"""Ask and tell the number of trials on each line of standard input; print the seconds."""

import sys
from time import perf_counter

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(storage=f"sqlite:///{sys.argv[1]}")
for line in sys.stdin:
    began = perf_counter()
    for _ in range(int(line)):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
    print(perf_counter() - began, flush=True)
