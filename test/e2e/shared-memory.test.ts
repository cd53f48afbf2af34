// shared-memory — Goal: a peer that is killed leaves a link that ends, bytes that are whole, and nothing else; and
// processes of other users and namespaces name another host, and could not open the memory if they tried.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { SILENT_LOG } from "../../src/base/log.ts";
import { sharedMemory } from "../../src/node/transport/shared-memory.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster } from "./cluster.ts";
import { Copies } from "./copies.ts";
import { killPeers } from "./killed-peers.ts";

const system = await sharedMemory({ log: SILENT_LOG });
const skip = system === undefined ? "this system shares no memory" : false;
const VISITOR = new URL("./scripts/memory-visitor.ts", import.meta.url).pathname;
const ELSEWHERE = [
  ["unshare", "--pid", "--fork", "--mount-proc"],
  ["setpriv", "--reuid", "65534", "--clear-groups"],
] as const;
const READS = `require("node:fs").accessSync(${JSON.stringify(VISITOR)})`;
const mayGo = ELSEWHERE.every(([command, ...args]) => spawnSync(command, [...args, process.execPath, "-e", READS]).status === 0);
const skipUnlessRoot = skip !== false || !mayGo ? "needs Linux, koffi, and a user who may unshare and setpriv" : false;
const BYTES = 65_536;
const STRIKES = 3;

test("20 peers are killed at seeded moments: what came of each is a beginning of its stream, and no descriptor, mapping or file is left", {
  skip,
}, async () => {
  await killPeers(20, temporaryDirectory("killed-peers"));
});

test("heads and standbys that share memory with each other and with a worker are killed: no call fails, and each push counts once", {
  skip,
}, async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--replicas", 2, "--job", "sharing"] });
  const copies = new Copies(cluster, { servers: 1, seed: 3 });
  const worker = cluster.worker(0, "survivor");
  await copies.whole();
  for (let isNamed = false; !isNamed; ) {
    const asked = cluster.weighbridge(["status", "--scheduler-port", cluster.port]);
    await asked.succeeds();
    isNamed = asked.stdout.includes("links that share memory: worker/0 with server/0; server/0 with standby/0");
  }
  for (let strike = 0; strike < STRIKES; strike++) {
    await worker.says(/^pushed \d+$/, worker.count(/^pushed \d+$/) + 2);
    await copies.strike(strike, "SIGKILL");
  }
  worker.endInput();
  await worker.says(/^verified/);
  for (const node of [worker, ...copies.processes, copies.scheduler]) await node.succeeds();
});

type Visit = { readonly host: string; readonly opened: string };

/** What a process behind these words finds of the memory at `path`. */
function visit(path: string, ...words: readonly string[]): Visit {
  const [command, ...args] = [...words, process.execPath, VISITOR, path, String(BYTES)];
  const { stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  assert.notEqual(stdout, "", stderr);
  return JSON.parse(stdout) as Visit;
}

test("a process of the same host, user and namespace opens what is offered", { skip }, () => {
  const memory = system!.create(BYTES);
  assert.deepEqual(visit(memory.path), { host: system!.host, opened: "opened" });
  memory.unmap();
});

test("a process of another process namespace, or of another user, names another host, and cannot open the memory", {
  skip: skipUnlessRoot,
}, () => {
  const memory = system!.create(BYTES);
  for (const words of ELSEWHERE) {
    const { host, opened } = visit(memory.path, ...words);
    assert.notEqual(host, system!.host, words.join(" "));
    assert.match(opened, /ENOENT|EACCES|not sealed/, words.join(" "));
  }
  memory.unmap();
});
