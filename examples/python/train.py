"""The program that friday_evening.py runs four times: an ordinary training script, which knows nothing of thole.

It fits a line on whatever it finds: PyTorch on cuda:0 where there is PyTorch, else plain Python.
"""
import argparse
import os


def fit(rate, steps=200):
    try:
        import torch
    except ImportError:
        slope = 0.0
        for _ in range(steps):
            slope -= rate * 2 * (slope - 3.0)
        return abs(slope - 3.0)
    x = torch.randn(256, 1, device="cuda:0")
    model = torch.nn.Linear(1, 1).to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--rate", type=float, required=True)
    rate = options.parse_args().rate
    print(f"rate {rate} on GPU {os.environ['CUDA_VISIBLE_DEVICES']}: loss {fit(rate):.3g}", flush=True)
