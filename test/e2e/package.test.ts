// The package as it is published: built, laid into a node_modules, and used from there by plain JavaScript.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { DEADLINE_MS, ROOT } from "./processes.ts";

const SCRIPT = `
import { KVServer, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";
import { SimCluster } from "weighbridge/testing";

const office = await start();
if (office.isServer) new KVServer(office, 0);
if (office.isWorker) {
  const kv = new KVWorker(office, 0);
  const keys = BigUint64Array.of(1n, 2n);
  const vals = new Float32Array(2);
  await kv.wait(kv.pushPull(keys, Float32Array.of(3, 4), vals));
  console.log("pulled", vals.join(), typeof SimCluster);
}
await office.finalize();
`;

const folder = mkdtempSync(join(tmpdir(), "weighbridge-package-"));
after(() => rmSync(folder, { recursive: true, force: true }));

test("the built package runs a cluster from a node_modules folder", () => {
  const built = spawnSync(process.execPath, ["scripts/build.mjs"], { cwd: ROOT, encoding: "utf8", timeout: DEADLINE_MS });
  assert.equal(built.status, 0, built.stdout + built.stderr);
  const modules = join(folder, "node_modules");
  mkdirSync(modules);
  cpSync(join(ROOT, "dist"), join(modules, "weighbridge"), { recursive: true });
  for (const name of ["commander", "yaml", "zod"]) symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  writeFileSync(join(folder, "script.mjs"), SCRIPT);
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const options = { cwd: folder, encoding: "utf8", timeout: DEADLINE_MS } as const;
  const ran = spawnSync(process.execPath, [command, "launch", "-s", "1", "-w", "1", "--", "script.mjs"], options);
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  assert.match(ran.stdout, /pulled 3,4 function/);
});
