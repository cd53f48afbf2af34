// Goal: the models of ids learn what they are made for: logistic regression a sum of weights, Wide & Deep what no sum
// can say, matrix factorisation a matrix of low rank. All from a few numbers that are known, to a stated objective.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Random } from "../../base/random.ts";
import { WideDeep } from "../../testing/wide-deep.ts";
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
      const value = loss.compute(model.forward(ids, { isTraining: true }), labels);
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
    loss.compute(model.forward([0, 1, 2, 3], { isTraining: true }), [0, 1]);
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
