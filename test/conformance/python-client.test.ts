// Goal: what spec/ says is enough to write a client: one in plain Python, written from it alone, reads all golden
// vectors, and works in a real cluster beside a worker of ours.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SILENT_LOG } from "../../src/base/log.ts";
import type { NodeOptions } from "../../src/cluster/node-options.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import { ServerNode } from "../../src/server/server-node.ts";
import { changePlacement, type PlacedNodes } from "../../src/testing/change-placement.ts";
import { jobId } from "../../src/wire/hello.ts";
import { Cluster } from "../e2e/cluster.ts";
import { Processes, script } from "../e2e/processes.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { findPython } from "./find-python.ts";

const root = join(import.meta.dirname, "..", "..");
const client = join(import.meta.dirname, "python");
const vectors = join(root, "spec", "vectors");
const python = findPython() ?? "";
const skip = python === "" && "there is no Python with numpy (Debian: apt-get install python3-numpy)";
/** What walk.py pushes in a bundle. */
const TOGETHER: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];
/** Its compiled files do not belong beside the sources. */
const env = { PYTHONDONTWRITEBYTECODE: "1", PYTHONUNBUFFERED: "1" };

/** How many vectors it found, and those that are not what they say. */
function readVectors(directory: string): { readonly vectors: number; readonly wrong: Readonly<Record<string, string>> } {
  const options = { encoding: "utf8", env: { ...process.env, ...env }, timeout: 240_000 } as const;
  const { status, stdout, stderr } = spawnSync(python, [join(client, "read_vectors.py"), directory], options);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

test("a client in Python reads every golden vector, both ways", { skip }, () => {
  assert.deepEqual(readVectors(vectors), { vectors: globSync("**/*.json", { cwd: vectors }).length, wrong: {} });
});

test("a golden vector of which one byte is changed is not read, of whichever kind it is", { skip }, () => {
  const copy = temporaryDirectory("vectors");
  const names = [
    "codecs/keys-delta",
    "codecs/payload-packed",
    "codecs/values-bf16",
    "codecs/values-packed",
    "functions/rows-push",
    "keys/placements",
    "keys/string-keys",
    "kv-push",
  ].map((name) => `${name}.json`);
  cpSync(vectors, copy, { recursive: true });
  for (const name of names) {
    const text = readFileSync(join(vectors, name), "utf8");
    const changed = text.replace(
      /("(?:hex|owners|key)": "[^"]{9})(.)/,
      (_, before: string, digit: string) => `${before}${digit === "0" ? "1" : "0"}`,
    );
    assert.notEqual(changed, text);
    writeFileSync(join(copy, name), changed);
  }
  assert.deepEqual(Object.keys(readVectors(copy).wrong).sort(), names);
});

test("every rule and every signature that the client in Python names is in the specification", () => {
  const read = (folder: string, names: readonly string[]): string =>
    names.map((name) => readFileSync(join(root, folder, name), "utf8")).join("\n");
  const source = read("test/conformance/python", ["client.py", "conversation.py", "served.py", "wire.py"]);
  const spec = read("spec", ["protocol.md", "consistency.md", "functions.md"]);
  const signatures = [...source.matchAll(/"(wb\/[^"]* → [^"]*)"/g)].map(([, signature = ""]) => signature);
  assert.ok(signatures.length >= 8);
  for (const signature of signatures) assert.ok(spec.includes(`\n${signature}\n`), signature);
  const rulesOf = (text: string): string[] => [...text.matchAll(/\b[A-Z]\d+\b/g)].map(([rule]) => rule);
  assert.ok(rulesOf(source).length > 80);
  for (const rule of rulesOf(source)) assert.ok(spec.includes(`- **${rule}.**`), rule);
  const codecs = read("spec", ["codecs.md"]);
  for (const rule of rulesOf(read("test/conformance/python", ["link_codecs.py"]))) assert.ok(codecs.includes(`- **${rule}.**`), rule);
});

test("a worker in Python and one of ours train together: tensor, table, clocks, broken links, what is refused, what servers call, the end", {
  skip,
}, async () => {
  await using cluster = await Cluster.create({ servers: 2, workers: 2, flags: ["--functions", script("tell-functions")] });
  const scheduler = cluster.scheduler();
  const servers = [cluster.server(0), cluster.server(1)];
  const ours = cluster.worker(1, "beside-python");
  const theirs = cluster.run(python, [join(client, "walk.py"), `tcp://127.0.0.1:${cluster.port}`, "2", "2"], { env });
  for (const process of [theirs, ours, ...servers, scheduler]) await process.succeeds();
  const last = -0.5 * 2 * (299_999 / 8);
  const rows = { max: [0, 1, 2, 3], seven: [16, 18, 20, 22], zero: [8, 9, 10, 11] };
  assert.deepEqual(JSON.parse(theirs.stdout), {
    ...{ rank: 0, epoch: 1, firstClock: 0, lastClock: 2, servers: [0, 1] },
    ownRows: [rows.max, rows.seven, rows.zero, rows.seven],
    tensor: { first: 0, last, even: true },
    together: {
      pushed: true,
      rows: [TOGETHER, TOGETHER],
      failed: "UNKNOWN_PARAMETER",
      late: ["WRONG_EPOCH", "WRONG_EPOCH"],
      after: TOGETHER,
    },
    refused: {
      ...{ "block of another server": "WRONG_OWNER", "push to another server": "WRONG_OWNER" },
      ...{ "row of another server": "WRONG_OWNER", "row pushed to another server": "WRONG_OWNER" },
      ...{ "no stamp": "BAD_REQUEST", "too few values": "VALUE_LENGTH", NaN: "NOT_FINITE", "clock that is over": "STALE_UPDATE" },
      ...{ "parameter that is not there": "UNKNOWN_PARAMETER", "rows of a tensor": "UNSUPPORTED" },
      ...{ "no such function": "UNKNOWN_FUNCTION", "another signature": "SPEC_MISMATCH", "another spec": "SPEC_MISMATCH" },
      ...{ "a spec that makes no sense": "BAD_ARGUMENT", "no epoch": "WRONG_EPOCH", "placement told": [true, 1] },
    },
    ...{ rowsAfter: [rows.seven], many: true },
    told: {
      ...{ "not served": "UNKNOWN_FUNCTION", "described otherwise": "SPEC_MISMATCH" },
      ...{ "by each server": [20 * 2, 2 * (200_000 * 199_999 * 0.5 + 200_000 * 0.5)], runs: 22 },
    },
  });
  assert.deepEqual(JSON.parse(ours.stdout), { last, rows: [...rows.max, ...rows.seven, ...rows.zero] });
});

/** A job of two servers and one worker that is still to come, with the scheduler and the servers in this process. */
async function startPlaced(
  folder: string,
): Promise<PlacedNodes & { readonly address: string; readonly ended: Promise<unknown>; close(): Promise<void> }> {
  const clock = realClock();
  const address = `unix://${join(folder, "scheduler")}`;
  const common = (): NodeOptions => ({
    ...{ serverCount: 2, workerCount: 1, clock, log: SILENT_LOG, schedulerAddress: address },
    transport: new SocketTransport({ clock, log: SILENT_LOG }),
  });
  const scheduler = new SchedulerNode({ ...common(), jobId: jobId("moving", "1"), incarnation: Date.now() });
  const servers = [0, 1].map((rank) => new ServerNode({ ...common(), rank, listenAddress: `unix://${join(folder, `server-${rank}`)}` }));
  const nodes = [scheduler, ...servers];
  const starting = nodes.map((node) => node.start());
  const ended = Promise.all(starting).then(() => Promise.all(nodes.map((node) => node.finalize())));
  ended.catch(() => {}); // whoever waits for it is told
  return {
    get scheduler() {
      return scheduler.scheduler;
    },
    address,
    ended,
    close: async () => {
      for (const node of nodes) await node.close();
    },
  };
}

test("what a worker in Python pushes while parts change hands counts once, also when only a refusal tells it of the placement", {
  skip,
}, async () => {
  const folder = temporaryDirectory("moving");
  const nodes = await startPlaced(folder);
  await using processes = new Processes();
  try {
    const theirs = processes.run(python, [join(client, "move.py"), nodes.address, "2", "4"], { env });
    await theirs.says(/^ready$/);
    await changePlacement(nodes, { moved: Array.from({ length: 2000 }, (_, part) => [part, part % 2]).flat() });
    await changePlacement(nodes, { policy: "range", moved: [] });
    await changePlacement(nodes, { policy: "ring", servers: [1, 0], moved: [17, 0, 18, 1] });
    await theirs.succeeds();
    const { prepared, ...found } = JSON.parse(theirs.stdout.split("\n").at(-2) ?? "") as Record<string, unknown>;
    assert.deepEqual(found, { lastEpoch: 4, hasMoved: true, refused: true, right: true });
    assert.equal(prepared, 3, "no clock ended between its answer to PREPARE and each placement");
    await nodes.ended;
  } finally {
    await nodes.close();
  }
});
