"""An Optuna study worked on by several processes, each with a GPU of its own: they meet in the study's file.

    thole map -g 1 -j 4 python optuna_study.py {} ::: study.log study.log study.log study.log
    python optuna_study.py study.log               # one more, from another terminal; it waits its turn

Threads (`n_jobs=4`) would share one process, and so one claim.
"""
import sys

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import tholepin


def objective(trial):
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    trial.set_user_attr("gpu", claim.uuids[0])
    return (rate - 0.01) ** 2  # a training on cuda:0


if __name__ == "__main__":
    claim = tholepin.claim(1)  # within `thole map`: the GPU that it has given us
    storage = JournalStorage(JournalFileBackend(sys.argv[1]))
    study = optuna.create_study(study_name="rates", storage=storage, load_if_exists=True)
    study.optimize(objective, n_trials=5)
    print(len(study.trials), study.best_params["rate"])
