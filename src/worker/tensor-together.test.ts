// Goal: what is pushed together counts for each tensor as a push of its own, and is refused whole before anything of it
// is sent.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { Tensor } from "./tensor.ts";

const SHAPE = { shape: [4], optimizer: "sum", consistency: "asp" } as const;

test("several tensors are pushed and pulled together, each with its own values, whatever carries them", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const tensors = [
    await session.tensor("a", SHAPE),
    await session.tensor("b", { ...SHAPE, link: { push: "bf16" } }),
    await session.tensor("c", SHAPE),
  ];
  const gradients = [1, 2, 3].map((value) => new Float32Array(4).fill(value));
  const pushes = tensors.map((tensor, i) => ({ tensor, gradient: gradients[i]!, priority: i }));
  for (let round = 0; round < 2; round++) await Tensor.pushTogether(pushes, { timeoutMs: 10_000 });
  const pulls = tensors.map((tensor) => ({ tensor, into: new Float32Array(4), priority: 0 }));
  await Tensor.pullTogether(pulls, 0, {});
  assert.deepEqual(
    pulls.map(({ into }) => [...into]),
    [2, 4, 6].map((value) => Array(4).fill(value)),
  );
});

test("nothing is sent if one of them is refused, or the signal has fired before", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const [a, b, c] = [
    await session.tensor("a", SHAPE),
    await session.tensor("b", SHAPE),
    await session.tensor("c", { ...SHAPE, link: { push: "bf16" } }),
  ];
  const ones = new Float32Array(4).fill(1);
  const first = [a, c].map((tensor) => ({ tensor, gradient: ones, priority: 0 }));
  const short = { tensor: b, gradient: new Float32Array(3), priority: 0 };
  await assert.rejects(Tensor.pushTogether([...first, short], {}), throwsCode("VALUE_LENGTH"));
  const nan = { tensor: b, gradient: new Float32Array(4).fill(Number.NaN), priority: 0 };
  await assert.rejects(Tensor.pushTogether([...first, nan], {}), throwsCode("NOT_FINITE"));
  const signal = AbortSignal.abort();
  await assert.rejects(Tensor.pushTogether(first, { signal }), throwsCode("ABORTED"));
  const into = new Float32Array(4).fill(7);
  await assert.rejects(Tensor.pullTogether([{ tensor: a, into, priority: 0 }], 0, { signal }), throwsCode("ABORTED"));
  assert.deepEqual([...into], [7, 7, 7, 7]);
  for (const tensor of [a, b, c]) assert.deepEqual([...(await tensor.pull())], [0, 0, 0, 0]);
});
