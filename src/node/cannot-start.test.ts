// Goal: a process that cannot be the node it was started as tells the others why at once: nobody waits for it until the
// start times out.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../base/errors.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { freePort } from "./launcher/free-port.ts";
import { start } from "./start.ts";

/**
 * What is wrong with a server of this cluster of two servers and one worker, which its own error and everybody else's
 * name.
 */
const MISTAKES: Readonly<Record<string, { server: NodeConfigOptions; code: ErrorCode; says: RegExp }>> = {
  "whose module of functions is missing": {
    server: { rank: 1, functions: "/no/such/functions.ts" },
    code: "BAD_CONFIG",
    says: /there is no module \/no\/such\/functions\.ts with functions/,
  },
  "whose rank is beyond the counts": {
    server: { rank: 7 },
    code: "BAD_CONFIG",
    says: /a rank from 0 to 1, as there are 2 servers/,
  },
  "whose directory for checkpoints cannot be written to": {
    server: { rank: 1, checkpointDir: "/dev/null/checkpoints" },
    code: "BAD_CONFIG",
    says: /\/dev\/null\/checkpoints/,
  },
  "whose checkpoint is missing": {
    server: { rank: 1, restore: "/no/such/checkpoint" },
    code: "CHECKPOINT_MISSING",
    says: /\/no\/such\/checkpoint/,
  },
};

for (const [what, { server, code, says }] of Object.entries(MISTAKES)) {
  test(`a server ${what} tells the others why at once`, async () => {
    const port = await freePort("127.0.0.1");
    const common = { schedulerPort: port, serverCount: 2, workerCount: 1, logLevel: "silent", startTimeoutMs: 60_000 } as const;
    const startedAtMs = performance.now();
    const others = [
      start({ ...common, role: "scheduler" }),
      start({ ...common, role: "server", rank: 0 }),
      start({ ...common, role: "worker", rank: 0 }),
    ];
    for (const office of others) office.catch(() => {}); // looked at below
    const culprit = start({ ...common, role: "server", nodeId: "culprit", ...server });
    await assert.rejects(culprit, { code, message: says });
    for (const office of others)
      await assert.rejects(office, ({ code: told, message }) => {
        assert.equal(told, code);
        assert.match(message, new RegExp(`server \\d \\("culprit"\\) cannot take part: .*${says.source}`, "s"));
        return true;
      });
    assert.ok(performance.now() - startedAtMs < common.startTimeoutMs / 2, "not when the start times out");
  });
}
