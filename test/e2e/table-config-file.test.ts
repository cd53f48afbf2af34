// table-config-file — Goal: one script is all roles of a job with tables: a file describes the cluster, the environment
// says who a process is.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Processes, script } from "./processes.ts";

test("init joins the cluster that a file describes, in every role; nothing after it runs in a scheduler and a server", async () => {
  const file = join(temporaryDirectory("table-config"), "cluster.yaml");
  const port = await freePort("127.0.0.1");
  await writeFile(file, `schedulerHost: 127.0.0.1\nschedulerPort: ${port}\nserverCount: 1\nworkerCount: 2\n`);
  await using processes = new Processes();
  const nodes = ["scheduler", "server", "worker", "worker"].map((role) =>
    processes.run(process.execPath, [script("tables-hello"), "clocks=20", "threads=2"], {
      env: { WEIGHBRIDGE_CONFIG: file, WEIGHBRIDGE_ROLE: role },
    }),
  );
  for (const [index, node] of nodes.entries()) {
    await node.succeeds();
    assert.equal(node.count(/^2 threads are done$/), index < 2 ? 0 : 1, node.transcript);
  }
});
