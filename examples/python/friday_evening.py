"""Friday evening: four variants train over the weekend on a GPU each, and a fifth GPU is mine to debug on, now.

    python friday_evening.py            # submits, takes a GPU and opens a Python prompt on it
    thole jobs                          # on Monday

The variants are jobs of the queue: they go on when I log out, and those that find no free GPU wait for one. The prompt's GPU is
a claim of this process and free again when it ends.
"""
import code
import pathlib
import sys

import tholepin

RATES = (0.2, 0.1, 0.05, 0.01)
TRAIN = pathlib.Path(__file__).with_name("train.py")

for rate in RATES:
    job = tholepin.submit([sys.executable, str(TRAIN), "--rate", str(rate)], name=f"rate-{rate}")
    print(f"job {job}: rate {rate}", flush=True)

claim = tholepin.claim(1)
print(f"debugging on GPU {claim.indices[0]}, which is cuda:0 here", flush=True)
if sys.stdin.isatty():
    code.interact(local={"claim": claim}, banner="")
else:
    exec(sys.stdin.read(), {"claim": claim})
