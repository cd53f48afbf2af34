// Goal: the models of ids learn what they are made for: logistic regression a sum of weights, Wide & Deep what no sum
// can say, matrix factorisation a matrix of low rank. All from a few numbers that are known, to a stated objective.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Random } from "../../base/random.ts";
import { Activations } from "../activations.ts";
import type { GradientReady } from "../layer.ts";
import { dense } from "../layers/dense.ts";
import { dotOfHalves } from "../layers/dot-of-halves.ts";
import { Embedding } from "../layers/embedding.ts";
import { BinaryCrossEntropy } from "../losses/binary-cross-entropy.ts";
import { SquaredError } from "../losses/squared-error.ts";
import { initializeParameters, type Parameter } from "../parameter.ts";
import { Sequential } from "../sequential.ts";
import { Workspace } from "../workspace.ts";

const BATCH = 32;

function descend(workspace: Workspace, parameters: readonly Parameter[], rate: number): void {
  for (const { address, gradientAddress, values } of parameters) workspace.vectors.axpy(address, gradientAddress, -rate, values.length);
}

/** The mean of the last 50 of `stepCount` losses. */
function lastLoss(stepCount: number, step: (random: Random) => number): number {
  const random = new Random(4);
  const losses = Array.from({ length: stepCount }, () => step(random));
  return losses.slice(-50).reduce((sum, loss) => sum + loss, 0) / 50;
}

test("logistic regression on an embedding of width 1 separates what a sum separates", () => {
  const workspace = new Workspace();
  const weights = new Embedding(workspace, { name: "w", rowCount: 20, width: 1, idsPerSample: 3, sampleCountMax: BATCH, combine: "sum" });
  const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: BATCH });
  initializeParameters(workspace, [weights.weight], 1);
  const last = lastLoss(600, (random) => {
    const ids = Array.from({ length: BATCH * 3 }, () => random.below(20));
    const labels = Array.from({ length: BATCH }, (_, i) =>
      ids.slice(i * 3, i * 3 + 3).reduce((sum, id) => sum + id - 9.5, 0) > 0 ? 1 : 0,
    );
    const value = loss.compute(weights.forward(ids), labels);
    weights.backward(loss.gradient, () => {});
    descend(workspace, [weights.weight], 4);
    return value;
  });
  assert.ok(last < 0.2, `loss ${last}, from ${Math.LN2} for a guess`);
});

/** Wide & Deep on plain layers (the training face has its own): the sum of both parts is the logit. */
class WideDeep {
  readonly wide: Embedding;
  readonly deep: Embedding;
  readonly tower: Sequential;
  readonly parameters: readonly Parameter[];
  readonly #workspace: Workspace;
  readonly #logits: Activations;

  constructor(workspace: Workspace, options: WideDeepOptions) {
    const { width, hidden, ...shared } = options;
    const { sampleCountMax } = shared;
    const zeros = { type: "constant", value: 0 } as const;
    this.#workspace = workspace;
    this.wide = new Embedding(workspace, { ...shared, name: "wide", width: 1, combine: "sum", initializer: zeros });
    this.deep = new Embedding(workspace, { ...shared, name: "deep", width, combine: "concat" });
    const layers = [...hidden.map((outputs) => dense({ outputs, activation: "relu" })), dense({ name: "head", outputs: 1 })];
    this.tower = new Sequential(workspace, { inputShape: this.deep.output.shape, sampleCountMax, layers, needsInputGradient: true });
    this.parameters = [this.wide.weight, this.deep.weight, ...this.tower.parameters];
    this.#logits = new Activations(workspace, [1], sampleCountMax);
  }

  forward(ids: ArrayLike<number>): Activations {
    const wide = this.wide.forward(ids);
    const deep = this.tower.forward({ isTraining: true, input: this.deep.forward(ids) });
    this.#logits.sampleCount = deep.sampleCount;
    this.#workspace.vectors.sum(this.#logits.address, wide.address, deep.address, deep.sampleCount);
    return this.#logits;
  }

  backward(outputGradient: Activations, ready: GradientReady): void {
    this.wide.backward(outputGradient, ready); // first, as the tower may overwrite the gradient
    const gradient = this.tower.backward(outputGradient, (_, parameter) => ready(parameter));
    this.deep.backward(gradient!, ready);
  }
}

type WideDeepOptions = {
  readonly rowCount: number;
  readonly idsPerSample: number;
  /** Of a deep embedding's row. */
  readonly width: number;
  /** Outputs of each hidden layer. */
  readonly hidden: readonly number[];
  readonly sampleCountMax: number;
};

describe("Wide & Deep", () => {
  /** Two ids of 8; the label says whether they are both odd or both even, which no sum of weights can. */
  function train(options: { readonly isDeepFrozen: boolean }): number {
    const workspace = new Workspace();
    const model = new WideDeep(workspace, { rowCount: 16, idsPerSample: 2, width: 4, hidden: [16], sampleCountMax: BATCH });
    const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: BATCH });
    initializeParameters(workspace, model.parameters, 2);
    for (let i = 0; i < model.deep.weight.values.length; i++) model.deep.weight.values[i] = model.deep.weight.values[i]! * 30;
    const learned = options.isDeepFrozen ? [model.wide.weight] : model.parameters;
    return lastLoss(800, (random) => {
      const ids = Array.from({ length: BATCH * 2 }, (_, i) => random.below(8) + 8 * (i % 2));
      const labels = Array.from({ length: BATCH }, (_, i) => (ids[2 * i]! % 2 === ids[2 * i + 1]! % 2 ? 1 : 0));
      const value = loss.compute(model.forward(ids), labels);
      model.backward(loss.gradient, () => {});
      descend(workspace, learned, 0.3);
      return value;
    });
  }

  test("learns what the wide part alone cannot", () => {
    const [both, wideAlone] = [train({ isDeepFrozen: false }), train({ isDeepFrozen: true })];
    assert.ok(both < 0.1, `loss ${both}`);
    assert.ok(wideAlone > 0.5, `the wide part alone: ${wideAlone}`);
  });

  test("reports every gradient once", () => {
    const workspace = new Workspace();
    const model = new WideDeep(workspace, { rowCount: 4, idsPerSample: 2, width: 3, hidden: [5, 4], sampleCountMax: 2 });
    const loss = new BinaryCrossEntropy(workspace, { sampleCountMax: 2 });
    loss.compute(model.forward([0, 1, 2, 3]), [0, 1]);
    const names: string[] = [];
    model.backward(loss.gradient, ({ name }) => names.push(name));
    assert.deepEqual(names.toSorted(), model.parameters.map(({ name }) => name).toSorted());
  });
});

test("matrix factorisation finds a matrix of rank 2 from its entries", () => {
  const [userCount, itemCount] = [12, 15];
  const workspace = new Workspace();
  const rows = new Embedding(workspace, {
    name: "rows",
    rowCount: userCount + itemCount,
    width: 3,
    idsPerSample: 2,
    sampleCountMax: BATCH,
    combine: "concat",
    initializer: { type: "normal", std: 0.5 },
  });
  const score = new Sequential(workspace, { inputShape: [6], sampleCountMax: BATCH, layers: [dotOfHalves()], needsInputGradient: true });
  const loss = new SquaredError(workspace, { sampleCountMax: BATCH });
  initializeParameters(workspace, [rows.weight], 1);
  const rating = (user: number, item: number): number => Math.sin(user) * Math.cos(item) + Math.cos(2 * user) * Math.sin(item);
  const last = lastLoss(3_000, (random) => {
    const pairs = Array.from({ length: BATCH }, () => [random.below(userCount), random.below(itemCount)] as const);
    const outputs = score.forward({ isTraining: true, input: rows.forward(pairs.flatMap(([user, item]) => [user, userCount + item])) });
    const value = loss.compute(
      outputs,
      pairs.map(([user, item]) => rating(user, item)),
    );
    rows.backward(score.backward(loss.gradient)!, () => {});
    descend(workspace, [rows.weight], 1);
    return value;
  });
  assert.ok(last < 0.001, `mean squared error ${last}`);
});
