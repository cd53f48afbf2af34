// What a launcher hands to its children: a configuration as variables, and back.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ConfigSources, loadConfig } from "./config.ts";
import { configToEnvironment, ownEnvironment } from "./config-environment.ts";
import { variableOf } from "./config-key.ts";
import { KEY_NAMES } from "./config-keys.ts";
import { FILE_VARIABLES, FOREIGN_VARIABLES } from "./known-names.ts";
import { isWildcard } from "./network-interface.ts";
import type { NodeConfig } from "./node-config.ts";
import { DURATION_MS_MAX } from "./value-kind.ts";

/** Everything a child might wrongly listen to. */
const PARENT = {
  DMLC_ROLE: "scheduler",
  DMLC_NUM_WORKER: "77",
  DMLC_RANK: "5",
  DMLC_INTERFACE: "nope",
  DMLC_PS_VAN_TYPE: "ibverbs",
  WORKER_ID: "6",
  PORT: "1",
  PS_DROP_MSG: "50",
  PS_RESEND: "1",
  MS_NODE_ID: "parent",
  WEIGHBRIDGE_CONFIG: "/no/such/file",
  WEIGHBRIDGE_SECTION: "w0",
};

/** As object literals make them. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}

const port = fc.integer({ min: 1, max: 65_535 });
const percent = fc.double({ min: 0, max: 100, noNaN: true });
const durationMs = fc.integer({ min: 1, max: DURATION_MS_MAX });
const host = fc.oneof(fc.ipV4(), fc.ipV6(), fc.domain()).filter((text) => !isWildcard(text));
const bytes = fc.integer({ min: 65_536, max: Number.MAX_SAFE_INTEGER });
const nodeId = fc.string({ minLength: 1, maxLength: 40 }).filter((text) => text.trim() === text && text !== "none");

/** Keys that depend on no others. */
const free = record({
  job: fc.option(fc.constantFrom("train", "a job"), { nil: undefined }),
  schedulers: fc.constant(undefined),
  schedulerHost: host,
  schedulerPort: port,
  host: fc.oneof(host, fc.constantFrom("0.0.0.0", "::")),
  advertiseHost: host,
  transport: fc.constantFrom("tcp" as const, "unix" as const),
  van: fc.constantFrom("weighbridge" as const, "zmq" as const, "p3" as const),
  socketDir: fc.constant("/run/weighbridge"),
  stateDir: fc.constantFrom("auto", "none", "/srv/my state"),
  etcd: fc.constant(undefined),
  etcdLeaseMs: fc.integer({ min: 1000, max: 100_000 }),
  placement: fc.constantFrom("ring" as const, "range" as const),
  startTimeoutMs: durationMs,
  linkTimeoutMs: durationMs,
  requestTimeoutMs: fc.option(durationMs, { nil: undefined }),
  resendTimeoutMs: fc.oneof(fc.constant(0), durationMs),
  faults: record({
    dropPercent: percent,
    duplicatePercent: percent,
    reorderPercent: percent,
    delayMs: durationMs,
    seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  }),
  outboxMessagesMax: fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  outboxBytesMax: bytes,
  arenaBytesMax: fc.integer({ min: 8 * 2 ** 20, max: 2 ** 32 }),
  checkpointDir: fc.option(fc.constantFrom("checkpoints", "/srv/my checkpoints"), { nil: undefined }),
  durable: fc.constant(undefined),
  restore: fc.option(fc.constantFrom("checkpoints/step-000001", "/srv/my checkpoints"), { nil: undefined }),
  resume: fc.constant(undefined),
  checkpointEvery: fc.constant(undefined),
  keep: fc.constant(undefined), // without checkpointEvery
  wakefulLoop: fc.constantFrom("on" as const, "off" as const),
  sharedMemory: fc.constantFrom("on" as const, "off" as const),
  serve: fc.constant("off" as const), // with every van
  functions: fc.option(fc.constantFrom("functions.ts", "/srv/my functions.mjs"), { nil: undefined }),
  logFormat: fc.constantFrom("text", "mindspore"),
  logLevel: fc.constantFrom("silent" as const, "error" as const, "warn" as const, "info" as const, "debug" as const),
  managePort: fc.constant(0),
  nodeId: fc.option(nodeId, { nil: undefined }),
});
const heartbeat = fc
  .tuple(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 100_000 }))
  .chain(([interval, more]) =>
    fc.constantFrom(
      { heartbeatIntervalMs: interval, heartbeatTimeoutMs: interval + more },
      { heartbeatIntervalMs: interval, heartbeatTimeoutMs: 0 },
      { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 },
    ),
  );
const place = record({
  role: fc.constantFrom("scheduler" as const, "server" as const, "worker" as const),
  serverCount: fc.integer({ min: 4, max: 65_535 }),
  workerCount: fc.integer({ min: 4, max: 65_535 }),
  listenPort: port,
  rank: fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined }),
  replicas: fc.constant(1),
  threads: fc.constantFrom(1, 2),
});
const more = fc.integer({ min: 0, max: 100 });
const configs = fc.tuple(free, heartbeat, place, more).map(([a, b, c, added]): NodeConfig => {
  const workerCountMax = a.van === "weighbridge" ? Math.min(65_535, c.workerCount + added) : c.workerCount;
  const config = { ...a, ...b, ...c, workerCountMax, loopTimeoutMs: 30_000 + added };
  return c.role === "scheduler" ? { ...config, listenPort: a.schedulerPort, rank: undefined } : config;
});

function load(sources: ConfigSources): NodeConfig {
  return loadConfig({ interfaces: {}, warn: () => {}, ...sources });
}

test("gives a child exactly its parent's config, whatever else is in its environment", () => {
  fc.assert(
    fc.property(configs, (config) => {
      const env = configToEnvironment(config);
      assert.deepEqual(load({ env }), config);
      assert.deepEqual(load({ env: { ...PARENT, ...env } }), config);
    }),
    { numRuns: 200 },
  );
});

test("loads the same config from options as from the variables", () => {
  fc.assert(
    fc.property(configs, (config) => {
      // Options cannot say "none": what they leave out may come from elsewhere, so nothing else is given here.
      assert.deepEqual(load({ options: config }), config);
    }),
    { numRuns: 100 },
  );
});

test("drops every variable that configures a node but those of the keys that are named", () => {
  const names = [...KEY_NAMES.map(variableOf), ...FILE_VARIABLES, ...FOREIGN_VARIABLES];
  const env = Object.fromEntries(names.map((name) => [name, "1"]));
  const kept = { WEIGHBRIDGE_LOG_LEVEL: "1", WEIGHBRIDGE_FAULT_DROP_PERCENT: "1" };
  assert.deepEqual(ownEnvironment({ ...env, PATH: "/bin" }, ["logLevel", "faults.dropPercent"]), { ...kept, PATH: "/bin" });
});

test("drops mistyped names of ps-lite and MindSpore, keeps mistyped ones of ours and names of other programs", () => {
  const others = { WEIGHBRIDGE_WORKERS: "2", PS_FORMAT: "pid", MS_TOPO_TIMEOUT: "30", HOME: "/root" };
  assert.deepEqual(ownEnvironment({ ...others, DMLC_NUM_SERVERS: "1", MS_SHCED_HOST: "x", DMLC_TRACKER_URI: "x" }, []), others);
});
