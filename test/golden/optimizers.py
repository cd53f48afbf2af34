"""Makes optimizers.json: what PyTorch's optimizers do to small problems whose every input is exact in float32. See README.md."""

import json
import sys
import torch

STEPS = [1, 2, 10, 100, 1000]
WIDTH, ROWS = 6, 5


def noise(t, i):
    return ((t * 7 + i * 13) % 11 - 5) / 16


def start(n, dtype):
    return torch.tensor([(i % 3 - 1) / 2 for i in range(n)], dtype=dtype)


def dense(spec, dtype):
    w = torch.nn.Parameter(start(WIDTH, dtype))
    a = torch.tensor([(i + 1) / 8 for i in range(WIDTH)], dtype=dtype)
    b = torch.tensor([(i - 3) / 4 for i in range(WIDTH)], dtype=dtype)
    optimizer, seen = maker(spec)([w]), {}
    for t in range(1, STEPS[-1] + 1):
        n = torch.tensor([noise(t, i) for i in range(WIDTH)], dtype=dtype)
        w.grad = (a * (w.detach() - b) + n).clone()
        if "clipNorm" in spec:
            torch.nn.utils.clip_grad_norm_([w], spec["clipNorm"])
        if "clipValue" in spec:
            torch.nn.utils.clip_grad_value_([w], spec["clipValue"])
        optimizer.step()
        if t in STEPS:
            loss = (a * (w - b) ** 2).sum().item() / 2
            seen[t] = {"loss": loss, "values": w.tolist()}
    return seen


def sparse(spec, dtype):
    w = torch.nn.Parameter(start(ROWS * 3, dtype).reshape(ROWS, 3))
    optimizer, seen = maker(spec)([w]), {}
    for t in range(1, STEPS[-1] + 1):
        rows = [t % ROWS, (t * t + 1) % ROWS, t % ROWS]  # the first and the third are the same row
        g = [[w[r, j].item() / 4 + noise(t, 3 * k + j) for j in range(3)] for k, r in enumerate(rows)]
        w.grad = torch.sparse_coo_tensor([rows], torch.tensor(g, dtype=dtype), (ROWS, 3), dtype=dtype, check_invariants=True)
        optimizer.step()
        if t in STEPS:
            seen[t] = {"loss": (w**2).sum().item() / 2, "values": w.flatten().tolist()}
    return seen


CLASSES = {"sgd": "SGD", "momentum": "SGD", "nesterov": "SGD", "adagrad": "Adagrad", "adam": "Adam", "adamW": "AdamW", "rmsprop": "RMSprop", "lazyAdam": "SparseAdam"}
NAMES = {"learningRate": "lr", "weightDecay": "weight_decay", "epsilon": "eps", "initialAccumulator": "initial_accumulator_value", "momentum": "momentum", "alpha": "alpha"}


def maker(spec):
    options = {name: spec[ours] for ours, name in NAMES.items() if ours in spec}
    if "beta1" in spec:
        options["betas"] = (spec["beta1"], spec["beta2"])
    if spec["type"] == "nesterov":
        options["nesterov"] = True
    return lambda parameters: getattr(torch.optim, CLASSES[spec["type"]])(parameters, **options)


def sgd(kind, **settings):
    return {"type": kind, "learningRate": 0.02, **settings}


DENSE = [
    sgd("sgd"),
    sgd("sgd", weightDecay=0.1),
    sgd("sgd", clipNorm=0.5),
    sgd("sgd", clipValue=0.2),
    sgd("momentum", momentum=0.9),
    sgd("momentum", momentum=0.8, weightDecay=0.1),
    sgd("nesterov", momentum=0.9),
    sgd("nesterov", momentum=0.8, weightDecay=0.1),
    {"type": "adagrad"},
    {"type": "adagrad", "learningRate": 0.1, "initialAccumulator": 0.1, "epsilon": 1e-6, "weightDecay": 0.05},
    {"type": "adam"},
    {"type": "adam", "learningRate": 0.01, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4, "weightDecay": 0.1},
    {"type": "adamW"},
    {"type": "adamW", "learningRate": 0.01, "weightDecay": 0.2},
    {"type": "rmsprop"},
    {"type": "rmsprop", "learningRate": 0.005, "alpha": 0.9, "momentum": 0.8, "weightDecay": 0.05},
]
SPARSE = [
    sgd("sgd"),
    {"type": "adagrad", "learningRate": 0.1},
    {"type": "lazyAdam"},
    {"type": "lazyAdam", "learningRate": 0.01, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3},
]


def both(run, spec):
    return {"spec": spec, "float32": run(spec, torch.float32), "float64": run(spec, torch.float64)}


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule, seen = make(optimizer), []
    for _ in range(60):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen[::6]


L = torch.optim.lr_scheduler
result = {
    "torch": torch.__version__,
    "dense": [both(dense, spec) for spec in DENSE],
    "sparse": [both(sparse, spec) for spec in SPARSE],
    "schedules": [
        {"spec": {"type": "step", "every": 20, "factor": 0.5}, "every6": rates(lambda o: L.StepLR(o, 20, 0.5))},
        {"spec": {"type": "cosine", "steps": 60, "floor": 0.1}, "every6": rates(lambda o: L.CosineAnnealingLR(o, 60, 0.1))},
        {
            "spec": {"type": "warmUp", "steps": 10, "from": 0, "after": {"type": "cosine", "steps": 50}},
            "every6": rates(lambda o: L.SequentialLR(o, [L.LambdaLR(o, lambda t: (t + 1) / 10), L.CosineAnnealingLR(o, 50)], [10])),
        },
    ],
}
json.dump(result, sys.stdout, separators=(",", ":"))
