"""A network's last layer from few images: 784 pixels, 16 learned features, ten kinds of clothes.

A small network learns Fashion-MNIST for some epochs. Its last layer is a plain softmax regression over 16 features, and
that can be taught: how few of 20,000 images lead it to where all of them do? Needs superteach[torch], and the images
of Debian's package dataset-fashion-mnist (or their four .gz files in a folder).

python examples/last_layer.py [folder] [folder of images]
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from superteach import SuperTeacher, last_layer
from superteach.report.plots import COLOURS

SIZES, FILES = (1000, 4000), ("images-idx3", "labels-idx1")
images = Path(sys.argv[2] if len(sys.argv) > 2 else "/usr/share/datasets/fashion-mnist")


def batches(part, rows=None, size=256):
    """Images as numbers from 0 to 1, and labels."""
    pixels, labels = (gzip.decompress((images / f"{part}-{kind}-ubyte.gz").read_bytes()) for kind in FILES)
    X = torch.tensor(np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 784)[:rows] / 255.0, dtype=torch.float32)
    y = torch.tensor(np.frombuffer(labels, np.uint8, offset=8)[:rows].copy())
    return list(zip(X.split(size), y.split(size), strict=True))


torch.manual_seed(0)
layer, relu = torch.nn.Linear, torch.nn.ReLU
network = torch.nn.Sequential(layer(784, 64), relu(), layer(64, 16), relu(), layer(16, 10))
train, test = batches("train", 20_000), batches("t10k")
descent = torch.optim.Adam(network.parameters(), 1e-3)
for _ in range(4):
    for X, y in train:
        descent.zero_grad()
        torch.nn.functional.cross_entropy(network(X), y.long()).backward()
        descent.step()

pool, fresh = last_layer(network, train), last_layer(network, test)
goal = LogisticRegression(C=0.1, tol=1e-8, max_iter=5000).fit(pool.X, pool.y)
alike = {"match": [], "random": []}
for size in SIZES:
    for method, found in alike.items():
        teacher = SuperTeacher(LogisticRegression(C=0.1), goal, budget=size, method=method).fit(pool.X, pool.y)
        found.append(float(np.mean(teacher.predict(fresh.X) == goal.predict(fresh.X))))
        print(f"{size} images, {method}: {found[-1]:.2%} as the layer of all images; {teacher.lesson_.verdict}")

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
for place, (method, found) in enumerate(alike.items()):
    axes.loglog(SIZES, [max(1 - share, 1e-4) for share in found], "o-", color=COLOURS[place], label=method)
axes.set(xlabel="images", ylabel="test images seen otherwise", title="A last layer from few of 20,000 images")
axes.legend(frameon=False)
figure.savefig((Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent) / "last_layer.png", dpi=110)
