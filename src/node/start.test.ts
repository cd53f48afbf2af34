// start.test — Goal: what the environment says of a node is what the node does: every variable of ps-lite, Hetu and
// MindSpore reaches the engine. That they are read and checked is config/'s; here are whole clusters of three nodes on
// this machine.

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { KVServer } from "../faces/kv/kv-server.ts";
import { KVWorker } from "../faces/kv/kv-worker.ts";
import type { Postoffice } from "../faces/kv/postoffice.ts";
import { loadConfig } from "./config/config.ts";
import { freePort } from "./launcher/free-port.ts";
import { startNode } from "./start.ts";

type Environment = Readonly<Record<string, string>>;

class Trio implements AsyncDisposable {
  readonly scheduler: Postoffice;
  readonly server: Postoffice;
  readonly worker: Postoffice;

  private constructor([scheduler, server, worker]: readonly [Postoffice, Postoffice, Postoffice]) {
    this.scheduler = scheduler;
    this.server = server;
    this.worker = worker;
  }

  /** One node of each role, each with this environment and what is its own. */
  static async start(common: Environment, own: { readonly server?: Environment; readonly worker?: Environment } = {}): Promise<Trio> {
    const port = String(await freePort("127.0.0.1"));
    const where = { DMLC_PS_ROOT_URI: "127.0.0.1", DMLC_PS_ROOT_PORT: port, DMLC_NUM_SERVER: "1", DMLC_NUM_WORKER: "1" };
    const quiet = common.PS_VERBOSE === undefined ? { WEIGHBRIDGE_LOG_LEVEL: "silent" } : {};
    const node = async (env: Environment): Promise<Postoffice> =>
      await startNode(loadConfig({ env: { ...where, ...quiet, ...common, ...env } }));
    return new Trio(
      await Promise.all([
        node({ DMLC_ROLE: "scheduler" }),
        node({ DMLC_ROLE: "server", ...own.server }),
        node({ DMLC_ROLE: "worker", ...own.worker }),
      ]),
    );
  }

  /** Where the worker was told that the server is. */
  get serverAddress(): string {
    return this.worker.roster.nodes.find(({ role }) => role === "server")?.address ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.worker, this.server, this.scheduler].map((office) => office.close()));
  }
}

const ONE = BigUint64Array.of(1n);

async function pushes(kv: KVWorker, count: number): Promise<number> {
  for (let i = 0; i < count; i++) await kv.wait(kv.push(ONE, Float32Array.of(1)));
  const sum = new Float32Array(1);
  await kv.wait(kv.pull(ONE, sum));
  return sum[0] ?? Number.NaN;
}

test("PS_DROP_MSG loses messages, and every update counts once all the same", async () => {
  await using trio = await Trio.start({ PS_DROP_MSG: "20", PS_RESEND_TIMEOUT: "20" });
  new KVServer(trio.server, 0);
  assert.equal(await pushes(new KVWorker(trio.worker, 0), 50), 50);
  assert.ok(trio.worker.metrics.framesDropped + trio.server.metrics.framesDropped > 0, "nothing was lost");
  assert.ok(trio.worker.metrics.resends > 0, "nothing was sent again");
});

test("messages that are doubled on purpose count once", async () => {
  await using trio = await Trio.start({ WEIGHBRIDGE_FAULT_DUPLICATE_PERCENT: "50" });
  new KVServer(trio.server, 0);
  assert.equal(await pushes(new KVWorker(trio.worker, 0), 30), 30);
  assert.ok(trio.server.metrics.duplicates > 0, "nothing was doubled");
});

test("PS_RESEND sends again what was not answered in time", async () => {
  for (const [env, expects] of [
    [{ PS_RESEND: "1", PS_RESEND_TIMEOUT: "20" }, true],
    [{ PS_RESEND: "0", PS_RESEND_TIMEOUT: "20" }, false],
  ] as const) {
    await using trio = await Trio.start(env);
    const kv = new KVServer(trio.server, 0);
    kv.setRequestHandle(async (meta) => {
      await new Promise((resolve) => setTimeout(resolve, 200));
      kv.response(meta);
    });
    const worker = new KVWorker(trio.worker, 0);
    await worker.wait(worker.push(ONE, Float32Array.of(1)));
    assert.equal(trio.worker.metrics.resends > 0, expects, JSON.stringify(env));
  }
});

test("DMLC_PS_WATER_MARK bounds the calls that wait for a node", async () => {
  for (const [env, taken] of [
    [{ DMLC_PS_WATER_MARK: "4" }, 4],
    [{}, 200],
  ] as const) {
    await using trio = await Trio.start(env);
    new KVServer(trio.server, 0);
    const kv = new KVWorker(trio.worker, 0);
    const open: number[] = [];
    try {
      while (open.length < 200) open.push(kv.push(ONE, Float32Array.of(1))); // in one turn: nothing leaves meanwhile
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "QUEUE_FULL"), String(thrown));
    }
    assert.equal(open.length, taken);
    for (const timestamp of open) await kv.wait(timestamp);
  }
});

test("WEIGHBRIDGE_OUTBOX_BYTES_MAX is the engine's bound on the bytes in flight, in both directions", async () => {
  await using trio = await Trio.start({ WEIGHBRIDGE_OUTBOX_BYTES_MAX: "64KiB" });
  assert.equal(trio.worker.roster.nodes.length, 2);
  assert.deepEqual(
    // What a bound does is peer/frame-writer's.
    [trio.scheduler, trio.server, trio.worker].map(({ node }) => node.peer.limits.inFlightBytesMax),
    [65_536, 65_536, 65_536],
  );
});

test("PS_VERBOSE decides what a node tells of itself", async (t) => {
  for (const [level, tells] of [
    ["0", false],
    ["1", true],
  ] as const) {
    const { mock } = t.mock.method(process.stderr, "write", () => true);
    {
      await using trio = await Trio.start({ PS_VERBOSE: level });
      assert.equal(trio.worker.roster.nodes.length, 2);
    }
    const lines = mock.calls.map(({ arguments: [line] }) => String(line)).filter((line) => / info {2}(scheduler|server|worker)/.test(line));
    mock.restore();
    assert.equal(lines.length > 0, tells, `${level}: ${lines.join("")}`);
  }
});

test("WEIGHBRIDGE_REQUEST_TIMEOUT_MS ends waits that have no deadline of their own", async () => {
  await using trio = await Trio.start({ WEIGHBRIDGE_REQUEST_TIMEOUT_MS: "50" });
  new KVServer(trio.server, 0).setRequestHandle(() => {});
  const kv = new KVWorker(trio.worker, 0);
  await assert.rejects(kv.wait(kv.push(ONE, Float32Array.of(1))), (error) => isWeighbridgeError(error, "DEADLINE"));
});

test("WEIGHBRIDGE_ARENA_BYTES_MAX bounds the memory of a server", async () => {
  await using trio = await Trio.start({ WEIGHBRIDGE_ARENA_BYTES_MAX: "8MiB" });
  new KVServer(trio.server, 0);
  const kv = new KVWorker(trio.worker, 0);
  const push = kv.push(ONE, new Float32Array(4 * 2 ** 20));
  await assert.rejects(kv.wait(push), (error) => isWeighbridgeError(error, "ARENA_FULL"));
});

test("a server is where its variables say, and its rank and name are what they say", async () => {
  const port = String(await freePort("127.0.0.1"));
  await using documented = await Trio.start(
    { MS_NODE_ID: "shelf 7" },
    { server: { DMLC_PS_SERVER_URI: "localhost", DMLC_PS_SERVER_PORT: port, SERVER_ID: "0" }, worker: { WORKER_ID: "0" } },
  );
  assert.equal(documented.serverAddress, `tcp://localhost:${port}`);
  assert.deepEqual(
    documented.scheduler.roster.nodes.map(({ label }) => label),
    ["shelf 7", "shelf 7"],
  );
  await using everywhere = await Trio.start({}, { server: { WEIGHBRIDGE_HOST: "0.0.0.0", DMLC_NODE_HOST: "127.0.0.1" } });
  assert.match(everywhere.serverAddress, /^tcp:\/\/127\.0\.0\.1:\d+$/);
  await using own = await Trio.start({}, { server: { PORT: String(await freePort("127.0.0.1")), DMLC_INTERFACE: "lo" } });
  assert.match(own.serverAddress, /^tcp:\/\/127\.0\.0\.1:\d+$/);
});

test("DMLC_LOCAL takes Unix sockets", async () => {
  const socketDir = temporaryDirectory("start");
  await using trio = await Trio.start({ DMLC_LOCAL: "1", WEIGHBRIDGE_SOCKET_DIR: socketDir });
  assert.ok(trio.serverAddress.startsWith(`unix://${socketDir}/`), trio.serverAddress);
  new KVServer(trio.server, 0);
  assert.equal(await pushes(new KVWorker(trio.worker, 0), 3), 3);
});

test("a cluster of MindSpore's variables alone", async () => {
  const port = String(await freePort("127.0.0.1"));
  const where = {
    MS_SCHED_HOST: "127.0.0.1",
    MS_SCHED_PORT: port,
    MS_SERVER_NUM: "1",
    MS_WORKER_NUM: "1",
    WEIGHBRIDGE_LOG_LEVEL: "silent",
  };
  const offices = await Promise.all(
    ["MS_SCHED", "MS_PSERVER", "MS_WORKER"].map(async (role) => await startNode(loadConfig({ env: { ...where, MS_ROLE: role } }))),
  );
  assert.deepEqual(
    offices.map(({ role }) => role),
    ["scheduler", "server", "worker"],
  );
  await Promise.all(offices.map((office) => office.finalize()));
});

test("a worker that was started for ps-lite's words opens no session, and the error names connect()", async () => {
  await using trio = await Trio.start({});
  await assert.rejects(
    Session.open(trio.worker.node),
    (error) => isWeighbridgeError(error, "UNSUPPORTED") && /^worker 0 .*connect\(\) of weighbridge/.test(error.message),
  );
});
