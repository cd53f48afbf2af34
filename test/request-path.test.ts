// request-path — Goal: a reader follows a request by opening a few files. V8's precise coverage says which files of
// src/ ran, at worker and server together, while 1,000 requests of one kind went their steady way over real sockets,
// and over memory that both ends share. Each kind has a maximum. ARCHITECTURE.md walks through the list. Timers
// (heartbeats, the watch over links) are no part of a request: a file counts if one of its functions ran for one
// request in ten.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Session as Inspector, type Profiler } from "node:inspector";
import { basename } from "node:path";
import { type TestContext, test } from "node:test";
import { Session } from "../src/api/session.ts";
import { SILENT_LOG } from "../src/base/log.ts";
import { KVServer } from "../src/faces/kv/kv-server.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../src/faces/kv/postoffice.ts";
import { loadConfig } from "../src/node/config/config.ts";
import { freePort } from "../src/node/launcher/free-port.ts";
import { nodeSessions } from "../src/node/node-sessions.ts";
import { officeOver } from "../src/node/start.ts";
import { sharedMemory } from "../src/node/transport/shared-memory.ts";

/** At most 20 is the aim. What rounds take today, and one more for what a busy machine adds; it may only fall. */
const FILES_MAX = { push: 18, pull: 18, round: 19 };
/** What a link passes. One in memory has two files where a socket has one. */
const LINK_FILES = {
  sockets: ["src/node/transport/socket-link.ts"],
  "shared memory": ["src/node/transport/byte-ring.ts", "src/node/transport/shared-link.ts"],
} as const satisfies Record<string, readonly string[]>;
type LinkKind = keyof typeof LINK_FILES;
const LINK_KINDS: readonly LinkKind[] = ["sockets", "shared memory"];
const hasMemory = (await sharedMemory({ log: SILENT_LOG })) !== undefined;
const REQUESTS = 1000;
/** The steady way is what every turn passes; timers of a busy moment run in one of them. */
const TURNS = 3;
const WARM_UP = 300;
const RUNS_MIN = REQUESTS / 10;
/** The kernels are one module, and what is generated of them counts with it. */
const KERNELS = "src/kernel";
const SOURCES: string = new URL("../src/", import.meta.url).href;
const WALK: string = readFileSync(new URL("../ARCHITECTURE.md", import.meta.url), "utf8");

/** Two servers, so that requests are cut, and one worker. */
async function startCluster(
  t: TestContext,
  kind: LinkKind,
): Promise<{ readonly servers: readonly Postoffice[]; readonly worker: Postoffice }> {
  const memory = { WEIGHBRIDGE_SHARED_MEMORY: kind === "sockets" ? "off" : "on" };
  const port = String(await freePort("127.0.0.1"));
  const where = { DMLC_PS_ROOT_URI: "127.0.0.1", DMLC_PS_ROOT_PORT: port, DMLC_NUM_SERVER: "2", DMLC_NUM_WORKER: "1" };
  const rare = { PS_HEARTBEAT_INTERVAL: "60" }; // seconds: on a slow machine a turn takes as long as many heartbeats
  const start = async (role: string): Promise<Postoffice> =>
    await officeOver(loadConfig({ env: { ...where, ...rare, ...memory, DMLC_ROLE: role, WEIGHBRIDGE_LOG_LEVEL: "silent" } }), {
      sessions: nodeSessions,
    });
  const [scheduler, first, second, worker] = await Promise.all([start("scheduler"), start("server"), start("server"), start("worker")]);
  const offices = [worker, first, second, scheduler] as const;
  t.after(async () => void (await Promise.all(offices.map((office) => office.close()))));
  return { servers: [first, second], worker };
}

/** The files of src/ that ran each time while `request` was made REQUESTS times, sorted. */
async function filesOf(request: () => Promise<void>): Promise<readonly string[]> {
  for (let i = 0; i < WARM_UP; i++) await request();
  const inspector = new Inspector();
  inspector.connect();
  try {
    await post(inspector, "Profiler.enable");
    await post(inspector, "Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    await post(inspector, "Profiler.takePreciseCoverage"); // counts from here on
    let paths: readonly string[] | undefined;
    for (let turn = 0; turn < TURNS; turn++) {
      for (let i = 0; i < REQUESTS; i++) await request();
      const { result } = (await post(inspector, "Profiler.takePreciseCoverage")) as Profiler.TakePreciseCoverageReturnType;
      const ran = pathsThatRan(result);
      paths = paths?.filter((path) => ran.includes(path)) ?? ran;
    }
    return paths ?? [];
  } finally {
    inspector.disconnect();
  }
}

function pathsThatRan(scripts: readonly Profiler.ScriptCoverage[]): readonly string[] {
  const paths = scripts
    .filter(({ url }) => url.startsWith(SOURCES))
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) >= RUNS_MIN))
    .map(({ url }) => `src/${url.slice(SOURCES.length)}`);
  return [...new Set(paths.map((path) => (path.startsWith(KERNELS) ? KERNELS : path)))].sort();
}

async function post(inspector: Inspector, method: string, parameters?: object): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    inspector.post(method, parameters, (error, result) => (error === null ? resolve(result) : reject(error)));
  });
}

/** `socketFilesMax`: with sockets. */
function atMost(t: TestContext, kind: LinkKind, files: readonly string[], socketFilesMax: number): void {
  const filesMax = socketFilesMax + LINK_FILES[kind].length - LINK_FILES.sockets.length;
  t.diagnostic(`${files.length} files: ${files.join(" ")}`);
  assert.ok(files.length > 5, "the coverage has seen the request");
  assert.deepEqual(
    files.filter((path) =>
      Object.values(LINK_FILES)
        .flat()
        .includes(path as never),
    ),
    LINK_FILES[kind],
  );
  assert.ok(files.length <= filesMax, `${files.length} files, and at most ${filesMax} are allowed:\n${files.join("\n")}`);
  const untold = files.filter((path) => !new RegExp(`\`([a-z-]+/)*${basename(path, ".ts")}\``).test(WALK));
  assert.deepEqual(untold, [], "ARCHITECTURE.md walks through every file of the list");
}

for (const kind of LINK_KINDS) {
  const skip = kind === "shared memory" && !hasMemory ? "this system shares no memory" : false;
  test(`a steady kv push passes a bounded list of files at worker and server together, over ${kind}`, { skip }, async (t) => {
    const { servers, worker } = await startCluster(t, kind);
    for (const server of servers) new KVServer(server, 0);
    const kv = new KVWorker(worker, 0);
    const keys = BigUint64Array.of(1n, 2n ** 63n + 1n);
    const values = new Float32Array(2);
    const push = async (): Promise<void> => await kv.wait(kv.push(keys, values));
    atMost(t, kind, await filesOf(push), FILES_MAX.push);
  });

  test(`a steady pull of rows of a table passes a bounded list of files at worker and server together, over ${kind}`, {
    skip,
  }, async (t) => {
    const { worker } = await startCluster(t, kind);
    const session = await Session.open(worker.node);
    const table = await session.embedding("rows", { dim: 4, optimizer: "sum", consistency: "asp" });
    const keys = BigUint64Array.from({ length: 16 }, (_, i) => BigInt(i));
    const pull = async (): Promise<void> => void (await table.pull(keys));
    atMost(t, kind, await filesOf(pull), FILES_MAX.pull);
  });

  test(`a steady BSP round, push, clock and pull, passes a bounded list of files at worker and server together, over ${kind}`, {
    skip,
  }, async (t) => {
    const { worker } = await startCluster(t, kind);
    const session = await Session.open(worker.node);
    const tensor = await session.tensor("weights", { shape: [8, 4], consistency: "bsp", optimizer: { type: "sgd", learningRate: 0.1 } });
    const gradient = new Float32Array(32);
    const into = new Float32Array(32);
    const round = async (): Promise<void> => {
      const pushed = tensor.push(gradient);
      session.clock();
      await Promise.all([pushed, tensor.pull({ into })]);
    };
    atMost(t, kind, await filesOf(round), FILES_MAX.round);
  });
}
