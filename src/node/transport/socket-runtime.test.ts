// Goal: a runtime that cannot be a node says so in one sentence, before it waits for anything, and a cluster inside the
// process works wherever it can.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { requireNodeSockets } from "./socket-transport.ts";

const { node } = process.versions;

test("Bun and Deno are told in one sentence that nodes need Node, and what works there", () => {
  const refusal =
    /^nodes of a cluster run under Node 24 or newer, and this is (Bun 1\.4\.4|Deno 2\.9\.6), where EmbeddedCluster alone works: run this script with node$/;
  for (const versions of [{ bun: "1.4.4" }, { deno: "2.9.6" }])
    assert.throws(() => requireNodeSockets({ ...process.versions, ...versions }), { code: "UNSUPPORTED", message: refusal });
  requireNodeSockets({ ...process.versions, node });
});

/** Runs a script as if this were Bun. */
function asBun(script: string): { readonly stdout: string; readonly stderr: string } {
  const pretence = 'Object.defineProperty(process, "versions", { value: { ...process.versions, bun: "1.4.4" } })';
  const args = ["--import", `data:text/javascript,${encodeURIComponent(pretence)}`, "--input-type=module", "--eval", script];
  return spawnSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8", timeout: 60_000 });
}

test("connect() is refused at once where sockets do not work, and EmbeddedCluster is not", () => {
  const { stdout, stderr } = asBun(`
    import { connect } from "weighbridge";
    import { EmbeddedCluster } from "weighbridge/embedded";
    const options = { role: "worker", serverCount: 1, workerCount: 1, schedulerPort: 1 };
    await connect(options).catch(({ code, message }) => console.log(code, message));
    await using cluster = await EmbeddedCluster.start();
    const w = await cluster.session.tensor("w", { shape: [2], optimizer: "sum" });
    await w.push(Float32Array.of(1, 2));
    console.log(String(await w.pull()));
  `);
  assert.match(stdout, /^UNSUPPORTED nodes of a cluster .* Bun 1\.4\.4.*\n1,2\n$/, stderr);
});
