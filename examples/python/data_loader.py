"""A training script whose data loader has workers: they are inside the script's claim and may import the script.

    python data_loader.py fork
    python data_loader.py spawn

Workers started by spawn run the script's top level again, claim included: asking for what the claim has already changes
nothing.
"""
import json
import multiprocessing
import os
import sys

import tholepin

claim = tholepin.claim(2)  # the first line, also in a worker that imports this module


def load(item):
    return item, [gpu["uuid"] for gpu in json.loads(os.environ["THOLE_GPUS"])]


if __name__ == "__main__":
    # torch.utils.data.DataLoader(dataset, num_workers=3, multiprocessing_context=sys.argv[1]) does the same
    with multiprocessing.get_context(sys.argv[1]).Pool(3) as workers:
        for item, seen in workers.map(load, range(6)):
            print(item, *seen)
    print("claimed", *claim.uuids)
