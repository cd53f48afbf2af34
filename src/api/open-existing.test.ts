// Goal: `tensor(name)` and `embedding(name)` without a description open what somebody has made, as it is described
// there, for guests and workers alike, and make nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { SimCluster } from "../testing/sim-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { Session } from "./session.ts";

const DEADLINE = { deadlineMs: 60_000 };

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
  const users = await stage.run(worker.embedding("users", { dim: 2, rowType: "f64", optimizer: { type: "sum" }, rows: 100 }));
  await stage.run(w.push(new Float32Array(6).fill(-2)));
  await stage.run(users.push([7], Float64Array.of(1, 2)));
  for (const session of [guest, other]) {
    const seen = await stage.run(session.tensor("w"));
    assert.deepEqual(await stage.run(seen.pull()), new Float32Array(6).fill(1));
    const rows = await stage.run(session.embedding<"f64">("users", undefined, DEADLINE));
    assert.deepEqual(await stage.run(rows.pull([7])), Float64Array.of(1, 2));
    await assert.rejects(stage.run(rows.pull([100])), throwsCode("OUT_OF_RANGE", /users/));
  }
  const pushed = await stage.run(guest.embedding<"f64">("users"));
  await stage.run(pushed.push([7], Float64Array.of(1, 1)));
  assert.deepEqual(await stage.run(users.pull([7])), Float64Array.of(2, 3));
});

test("a name that nobody has made is UNKNOWN_PARAMETER with the nearest one, and is not made", async () => {
  const stage = new Stage();
  const { worker, guest } = await stage.start();
  await assert.rejects(
    stage.run(guest.embedding("users")),
    throwsCode("UNKNOWN_PARAMETER", /there is no parameter "users", nor any other/),
  );
  await stage.run(worker.embedding("users", { dim: 2 }));
  await stage.run(worker.tensor("weights", { shape: [2] }));
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
  const users = await stage.run(worker.embedding("users", { dim: 2 }));
  const seen = await stage.run(guest.embedding("users"));
  await assert.rejects(stage.run(guest.tensor("users")), throwsCode("SPEC_MISMATCH", /"users" is a table, not a tensor: .*embedding/));
  await assert.rejects(stage.run(guest.embedding("users", { dim: 3 })), throwsCode("SPEC_MISMATCH", /dim/));
  await stage.run(users.clear());
  await assert.rejects(stage.run(guest.embedding("users")), throwsCode("UNKNOWN_PARAMETER", /there is no parameter "users"/));
  await assert.rejects(stage.run(seen.pull([1])), throwsCode("UNKNOWN_PARAMETER", /users/));
  await stage.run(worker.embedding("users", { dim: 3 }));
  const again = await stage.run(guest.embedding("users"));
  assert.equal((await stage.run(again.pull([1]))).length, 3);
});

test("a name that this worker has opened before opens again while the scheduler is away", async () => {
  const stage = new Stage();
  const { worker } = await stage.start();
  await stage.run(worker.tensor("w", { shape: [2] }));
  stage.cluster.kill(SCHEDULER_ID);
  await stage.run(new Promise<void>((wake) => stage.cluster.clock.after(2000, wake)));
  const again = await stage.run(worker.tensor("w"));
  assert.deepEqual(await stage.run(again.pull()), new Float32Array(2));
  await assert.rejects(stage.run(worker.tensor("v", undefined, { deadlineMs: 100 })), throwsCode("SCHEDULER_UNREACHABLE", /"v"/));
});
