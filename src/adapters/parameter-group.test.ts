// parameter-group — Goal: the weights of a model begin, travel and are refused together, over blocks and servers.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { failureOf } from "../testing/failure-of.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { type GroupOptions, ParameterGroup } from "./parameter-group.ts";

const MOMENTUM = { type: "momentum", learningRate: 1, momentum: 0.5 } as const;
/** More than a block. */
const LARGE = 200_000;

const opened = (session: Session, options: Partial<GroupOptions> = {}) =>
  ParameterGroup.open(
    session,
    [
      { name: "large", shape: [LARGE], values: new Float32Array(LARGE).fill(3) },
      { name: "scalar", shape: [], values: Float32Array.of(5) },
    ],
    { optimizer: MOMENTUM, ...options },
  );

test("a step sums or averages over workers as its consistency says, for large weights and scalars alike", async () => {
  for (const [consistency, expected] of [
    [undefined, [1, 3]],
    ["bsp", [-1, 1]],
  ] as const) {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
    const groups = await Promise.all(cluster.sessions.map((session) => opened(session, consistency === undefined ? {} : { consistency })));
    const steps = await Promise.all(groups.map((group) => group.step([new Float32Array(LARGE).fill(2), Float32Array.of(2)])));
    for (const [large, scalar] of steps) assert.deepEqual([large?.[LARGE - 1], scalar?.[0]], expected);
  }
});

test("over links that carry less, a step's pushes still come before the end of its clock, and its first values travel as they are", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const link = { push: "fp16", pull: "f32", compression: "zstd" } as const;
  const values = Float32Array.of(1 / 3, 2 / 3); // not in fp16
  const groups = await Promise.all(
    cluster.sessions.map((session) =>
      ParameterGroup.open(session, [{ name: "w", shape: [2], values }], { optimizer: { type: "sgd", learningRate: 1 }, link }),
    ),
  );
  assert.deepEqual((await groups[0]?.pull())?.[0], values);
  for (let step = 1; step <= 5; step++) {
    // Mean 0.5 and 1.5.
    const weights = await Promise.all(groups.map((group, rank) => group.step([Float32Array.of(rank, 2 - rank)])));
    for (const [w] of weights) assert.ok(Math.abs((w?.[0] as number) - (1 / 3 - 0.5 * step)) < 1e-6, `step ${step}: ${w?.[0]}`);
  }
});

test("a weight without a gradient is not touched: its momentum goes on where it was", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = await opened(cluster.session);
  await group.step([undefined, Float32Array.of(1)]);
  await group.step([new Float32Array(LARGE).fill(1), undefined]);
  const [large, scalar] = await group.step([undefined, Float32Array.of(1)]);
  assert.deepEqual([large?.[0], scalar?.[0]], [2, 5 - 1 - 1.5]);
});

test("a step that is refused has pushed nothing and has not ended the clock (ParameterGroup.G2)", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = await opened(cluster.session, { consistency: "asp" });
  const good = new Float32Array(LARGE).fill(1);
  await assert.rejects(group.step([good, Float32Array.of(1, 2)]), throwsCode("VALUE_LENGTH"));
  await assert.rejects(group.step([good, Float32Array.of(Infinity)]), throwsCode("NOT_FINITE"));
  const bad = Float32Array.from(good);
  bad[LARGE - 1] = Number.NaN;
  await assert.rejects(
    group.push([bad, Float32Array.of(1)]),
    (error) => isWeighbridgeError(error, "NOT_FINITE") && error.message.startsWith(`element ${LARGE - 1} of the gradient of large is NaN`),
  );
  const [large, scalar] = await group.pull();
  assert.deepEqual([cluster.session.clocks, large?.[0], scalar?.[0]], [0, 3, 5]);
});

test("weights that were pulled are the caller's (ParameterGroup.G3)", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = await opened(cluster.session);
  const [first] = await group.pull();
  first?.fill(9);
  assert.equal((await group.pull())[0]?.[0], 3);
});

test("weights that cannot begin are refused, and those of another shape or optimizer", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const weight = (values: readonly number[], shape: readonly number[] = [2]) => [{ name: "w", shape, values: Float32Array.from(values) }];
  const open = (weights: ReturnType<typeof weight>, optimizer: GroupOptions["optimizer"] = MOMENTUM) =>
    ParameterGroup.open(session, weights, { optimizer });
  await assert.rejects(open(weight([1, Number.NaN])), throwsCode("NOT_FINITE"));
  await assert.rejects(open(weight([1])), throwsCode("VALUE_LENGTH"));
  await assert.rejects(open(weight([1], [0])), throwsCode("BAD_ARGUMENT"));
  await assert.rejects(open(weight([1, 2, 3], [3])), throwsCode("SPEC_MISMATCH"));
  await assert.rejects(open(weight([1, 2]), { type: "adam" }), throwsCode("SPEC_MISMATCH"));
  const group = await open(weight([1, 2]));
  assert.deepEqual(
    (await group.pull()).map((values) => [...values]),
    [[1, 2]],
  );
});

test("a step whose pull fails was applied: it is not retryable, whatever the pull alone would be", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [mine, other] = await Promise.all(cluster.sessions.map((session) => opened(session, { optimizer: "sgd" })));
  const gradients = [undefined, Float32Array.of(1)];
  const error = await failureOf((mine as ParameterGroup).step(gradients, { timeoutMs: 50 })); // the other makes no step
  assert.deepEqual([error.code, error.outcome, error.retryable, error.settled], ["DEADLINE", "applied", false, undefined]);
  const [, scalar] = await (other as ParameterGroup).step(gradients);
  assert.ok(Math.abs((scalar?.[0] as number) - (5 - 0.01)) < 1e-6, `${scalar?.[0]}`);
});

test("a push of several weights of which some were applied is unknown; settled says the end of all, and what is refused is not-applied", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const group = await opened(session, { consistency: "asp" });
  const gradients = [new Float32Array(LARGE).fill(1), Float32Array.of(1)];
  const early = await failureOf(group.step(gradients, { signal: AbortSignal.abort() }));
  assert.deepEqual([early.code, early.outcome, session.clocks], ["ABORTED", "not-applied", 0]);
  const illegal = await failureOf(group.push(gradients, { timeoutMs: -1 }));
  const wrong = await failureOf(group.step([gradients[0], Float32Array.of(Number.NaN)]));
  assert.deepEqual([illegal.outcome, wrong.outcome], ["not-applied", "not-applied"]);
  await (await session.tensor("scalar")).drop();
  for (const error of [await failureOf(group.push(gradients)), await failureOf(group.step(gradients))]) {
    assert.deepEqual([error.code, error.outcome, error.retryable], ["UNKNOWN_PARAMETER", "unknown", false]);
    assert.match(error.message, /; applied to large, not to scalar$/);
  }
  await (await session.tensor("large")).drop();
  const none = await failureOf(group.push(gradients));
  assert.deepEqual([none.code, none.outcome], ["UNKNOWN_PARAMETER", "not-applied"]);
});
