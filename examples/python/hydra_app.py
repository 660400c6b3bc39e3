"""A Hydra application, swept over GPUs by the joblib or the submitit launcher: the claim is the application's first line.

    python hydra_app.py --multirun hydra/launcher=joblib hydra.launcher.n_jobs=3 +rate=0.1,0.01,0.001
    thole run -g 3 -- python hydra_app.py --multirun hydra/launcher=submitit_local hydra.launcher.gpus_per_node=8 \
        +rate=0.1,0.01,0.001

submitit's local launcher hides every GPU from its jobs; gpus_per_node=8 on a machine of eight lets them see all, and the claim
then chooses.
"""
import os

import hydra

import tholepin


@hydra.main(version_base=None, config_path=None, config_name=None)
def main(config):
    # waits its turn: more jobs than GPUs are no mistake where each has a process of its own (submitit)
    claim = tholepin.claim(1)
    # import torch; model.to("cuda:0")
    with open(os.environ["RESULTS"], "a") as results:
        results.write(f"{config.rate} {claim.uuids[0]} {os.getpid()}\n")


if __name__ == "__main__":
    main()
