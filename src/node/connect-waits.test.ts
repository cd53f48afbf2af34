// Goal: whoever connects says how long to wait, and nothing is left behind when that is over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { connect } from "./connect.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

test("the start of a cluster inside the process ends with its signal and its deadline, and closes what it started", async () => {
  await assert.rejects(
    EmbeddedCluster.start({ servers: 2, signal: AbortSignal.abort(new Error("enough")) }),
    (error) => isWeighbridgeError(error, "ABORTED") && error.cause instanceof Error && error.cause.message === "enough",
  );
  await assert.rejects(
    EmbeddedCluster.start({ servers: 2, timeoutMs: 0 }),
    (error) => isWeighbridgeError(error, "DEADLINE") && error.retryable && /0 ms for the start of the cluster/.test(error.message),
  );
  for (const wrong of [-1, Number.NaN])
    await assert.rejects(EmbeddedCluster.start({ timeoutMs: wrong }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await using cluster = await EmbeddedCluster.start({ servers: 2, timeoutMs: 60_000, signal: new AbortController().signal });
  assert.equal(cluster.session.serverCount, 2);
});

test("connect() ends with its signal and its deadline when there is no scheduler", async () => {
  const nowhere = {
    role: "worker",
    schedulerHost: "127.0.0.1",
    schedulerPort: 1,
    serverCount: 1,
    workerCount: 1,
    logLevel: "silent",
  } as const;
  await assert.rejects(
    connect({ ...nowhere, timeoutMs: 50 }),
    (error) => isWeighbridgeError(error, "DEADLINE") && /127\.0\.0\.1:1/.test(error.message),
  );
  for (const role of ["guest", "worker"] as const)
    await assert.rejects(
      connect("weighbridge://127.0.0.1:1", { role, logLevel: "silent", timeoutMs: 500 }),
      (error) => isWeighbridgeError(error, "DEADLINE") && /127\.0\.0\.1:1; missing: the scheduler \(.+\)$/.test(error.message),
    );
  const giveUp = new AbortController();
  const connecting = connect({ ...nowhere, signal: giveUp.signal });
  setImmediate(() => giveUp.abort(new Error("enough")));
  await assert.rejects(connecting, (error) => isWeighbridgeError(error, "ABORTED"));
  await assert.rejects(connect({ ...nowhere, timeoutMs: -1 }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
});
