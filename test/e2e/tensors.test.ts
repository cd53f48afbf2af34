// tensors — Goal: a script in Hetu's words runs in real processes, the same one in every role; a role it was not
// started for is an error.

import assert from "node:assert/strict";
import test from "node:test";
import { Processes, script } from "./processes.ts";

test("one script, three roles: tensors and tables over two servers and three workers", async () => {
  await using processes = new Processes();
  const job = processes.weighbridge(["launch", "-s", 2, "-w", 3, "--all-roles", "--", script("tensors")]);
  await job.succeeds();
  assert.equal(job.count(/^\[worker\/\d\] sum 6, row 6, its neighbour 0$/), 3, job.transcript);
});

test("an environment of Hetu's that asks for the p3 van runs as it is", async () => {
  await using processes = new Processes();
  const job = processes.weighbridge(["launch", "-s", 1, "-w", 1, "--all-roles", "--", script("tensors")], {
    env: { DMLC_PS_VAN_TYPE: "p3" },
  });
  await job.succeeds();
  await job.says(/^\[worker\/0\] sum 1, row 2, its neighbour 0$/);
});

test("an init of another role than the process has is refused", async () => {
  await using processes = new Processes();
  const code = `import { serverInit } from "weighbridge/node"; await serverInit();`;
  const env = { DMLC_ROLE: "worker", DMLC_NUM_SERVER: "1", DMLC_NUM_WORKER: "1", DMLC_PS_ROOT_URI: "127.0.0.1", DMLC_PS_ROOT_PORT: "9" };
  const node = processes.run(process.execPath, ["--input-type=module", "-e", code], { env });
  await node.fails(/BAD_CONFIG.*serverInit\(\) is for a server|serverInit\(\) is for a server, and this process is a worker/);
});
