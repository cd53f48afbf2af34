// Goal: `tensor(name)` and `embedding(name)` without a description open what somebody has made, as it is described
// there, for guests and workers alike, and make nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { SimCluster } from "../testing/sim-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { Session } from "./session.ts";

const DEADLINE = { timeoutMs: 60_000 };

class Stage {
  readonly cluster: SimCluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 2, settle: () => setImmediate() });

  async start(): Promise<{ readonly worker: Session; readonly other: Session; readonly guest: Session }> {
    await this.cluster.start();
    const [worker, other] = [0, 1].map((rank) => this.run(Session.open(this.cluster.worker(rank).node, DEADLINE)));
    const guest = this.run(this.cluster.startGuest("guest").then((node) => Session.open(node, DEADLINE)));
    assert.ok(worker !== undefined && other !== undefined);
    return { worker: await worker, other: await other, guest: await guest };
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.cluster.run(promise);
  }
}

test("a guest and a worker open a tensor and a table by their names, with everything their maker said of them", async () => {
  const stage = new Stage();
  const { worker, other, guest } = await stage.start();
  const w = await stage.run(worker.tensor("w", { shape: [2, 3], optimizer: { type: "sgd", learningRate: 0.5 } }));
  const users = await stage.run(worker.embedding("users", { dim: 2, dtype: "f64", optimizer: { type: "sum" }, rows: 100 }));
  await stage.run(w.push(new Float32Array(6).fill(-2)));
  await stage.run(users.push([7], Float64Array.of(1, 2)));
  for (const session of [guest, other]) {
    const seen = await stage.run(session.tensor("w"));
    assert.deepEqual(await stage.run(seen.pull()), new Float32Array(6).fill(1));
    const rows = await stage.run(session.embedding("users", { dtype: "f64", ...DEADLINE }));
    assert.deepEqual(await stage.run(rows.pull([7])), Float64Array.of(1, 2));
    await assert.rejects(stage.run(rows.pull([100])), throwsCode("OUT_OF_RANGE", /users/));
  }
  const pushed = await stage.run(guest.embedding("users", { dtype: "f64" }));
  await stage.run(pushed.push([7], Float64Array.of(1, 1)));
  assert.deepEqual(await stage.run(users.pull([7])), Float64Array.of(2, 3));
});

test("an embedding that is opened with a dtype has arrays of it, and is refused if its rows are of another", async () => {
  const stage = new Stage();
  const { worker, guest } = await stage.start();
  await stage.run(worker.embedding("counts", { dim: 2, dtype: "i64", optimizer: { type: "sum" } }));
  await stage.run(worker.embedding("users", { dim: 2, optimizer: { type: "sum" } }));
  const counts = await stage.run(guest.embedding("counts", { dtype: "i64" }));
  const pulled: BigInt64Array = await stage.run(counts.pull([1]));
  assert.deepEqual(pulled, BigInt64Array.of(0n, 0n));
  assert.equal(counts.dtype, "i64");
  await assert.rejects(
    stage.run(guest.embedding("counts", { dtype: "f32" })),
    throwsCode("SPEC_MISMATCH", /"counts" has rows of i64, and was opened with dtype f32/),
  );
  await assert.rejects(
    stage.run(guest.embedding("users", { dtype: "i64", ...DEADLINE })),
    throwsCode("SPEC_MISMATCH", /"users" has rows of f32, and was opened with dtype i64/),
  );
  await assert.rejects(
    stage.run(guest.embedding("users", { dtype: "i46" as "i64" })),
    throwsCode("BAD_ARGUMENT", /dtype must be one of f32, f64, i32, i64, or what psRowType\(\) made, got "i46"; did you mean i64\?/),
  );
  // Without one the array's type is not known.
  const some = await stage.run(guest.embedding("counts"));
  const array: Float32Array | Float64Array | Int32Array | BigInt64Array = await stage.run(some.pull([1]));
  assert.deepEqual(array, pulled);
  // @ts-expect-error: it may be of any type
  const floats: Float32Array = await stage.run(some.pull([1]));
  assert.ok(!(floats instanceof Float32Array));
});

test("options that describe a parameter in part are refused: nothing is opened as if they were not there", async () => {
  const stage = new Stage();
  const { worker } = await stage.start();
  const [sum, any] = [{ optimizer: { type: "sum" } } as const, (given: unknown): never => given as never];
  await stage.run(worker.tensor("w", { shape: [2], ...sum }));
  await stage.run(worker.embedding("users", { dim: 2, ...sum }));
  await assert.rejects(stage.run(worker.tensor("w", any(sum))), throwsCode("BAD_ARGUMENT", /tensor w needs a shape/));
  await assert.rejects(stage.run(worker.embedding("users", any(sum))), throwsCode("BAD_ARGUMENT", /embedding users needs a dim/));
  const renamed = throwsCode("BAD_ARGUMENT", /the options of embedding users: rowType is now called dtype/);
  await assert.rejects(stage.run(worker.embedding("users", any({ dim: 2, rowType: "i64", ...sum }))), renamed);
  const twoObjects = throwsCode("BAD_ARGUMENT", /the options of a call must be one object, its last argument; got .* behind it/);
  const untyped = worker as unknown as Record<string, (...given: readonly unknown[]) => Promise<unknown>>;
  for (const call of [
    () => untyped.tensor!("w", { shape: [2], ...sum }, DEADLINE),
    () => untyped.tensor!("w", undefined, DEADLINE),
    () => untyped.embedding!("users", { dim: 2, ...sum }, DEADLINE),
    () => untyped.checkpoint!({}, DEADLINE),
    () => untyped.restore!({}, DEADLINE),
    () => untyped.units!("units", { epoch: 0, batchCount: 1, partCount: 1, assignment: "even" }, DEADLINE),
  ])
    await assert.rejects(async () => await stage.run(call()), twoObjects);
});

test("a name that nobody has made is UNKNOWN_PARAMETER with the nearest one, and is not made", async () => {
  const stage = new Stage();
  const { worker, guest } = await stage.start();
  await assert.rejects(
    stage.run(guest.embedding("users")),
    throwsCode("UNKNOWN_PARAMETER", /there is no parameter "users", nor any other/),
  );
  await stage.run(worker.embedding("users", { dim: 2, optimizer: "sum" }));
  await stage.run(worker.tensor("weights", { shape: [2], optimizer: "sum" }));
  await assert.rejects(
    stage.run(guest.embedding("usres")),
    throwsCode("UNKNOWN_PARAMETER", /there is no parameter "usres"; did you mean users\?.*describe/),
  );
  await assert.rejects(stage.run(worker.tensor("weight")), throwsCode("UNKNOWN_PARAMETER", /did you mean weights\?/));
  assert.deepEqual(
    (await stage.run(guest.parameters())).map(({ name }) => name),
    ["users", "weights"],
  );
  await assert.rejects(stage.run(guest.tensor(7 as unknown as string)), throwsCode("BAD_ARGUMENT", /a parameter's name is a string/));
});

test("what was cleared is not there, and another kind or description is SPEC_MISMATCH", async () => {
  const stage = new Stage();
  const { worker, guest } = await stage.start();
  const users = await stage.run(worker.embedding("users", { dim: 2, optimizer: "sum" }));
  const seen = await stage.run(guest.embedding("users"));
  await assert.rejects(stage.run(guest.tensor("users")), throwsCode("SPEC_MISMATCH", /"users" is a table, not a tensor: .*embedding/));
  await assert.rejects(stage.run(guest.embedding("users", { dim: 3, optimizer: "sum" })), throwsCode("SPEC_MISMATCH", /dim/));
  await stage.run(users.drop());
  await assert.rejects(stage.run(guest.embedding("users")), throwsCode("UNKNOWN_PARAMETER", /there is no parameter "users"/));
  await assert.rejects(stage.run(seen.pull([1])), throwsCode("UNKNOWN_PARAMETER", /users/));
  await stage.run(worker.embedding("users", { dim: 3, optimizer: "sum" }));
  const again = await stage.run(guest.embedding("users"));
  assert.equal((await stage.run(again.pull([1]))).length, 3);
});

test("a name that this worker has opened before opens again while the scheduler is away", async () => {
  const stage = new Stage();
  const { worker } = await stage.start();
  await stage.run(worker.tensor("w", { shape: [2], optimizer: "sum" }));
  stage.cluster.kill(SCHEDULER_ID);
  await stage.run(new Promise<void>((wake) => stage.cluster.clock.after(2000, wake)));
  const again = await stage.run(worker.tensor("w"));
  assert.deepEqual(await stage.run(again.pull()), new Float32Array(2));
  await assert.rejects(stage.run(worker.tensor("v", { timeoutMs: 100 })), throwsCode("SCHEDULER_UNREACHABLE", /"v"/));
});
