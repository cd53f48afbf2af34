// Which processes there are, and what each of them is told.

import assert from "node:assert/strict";
import test from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { loadConfig } from "../config/config.ts";
import { type JobRequest, planJob } from "./job-plan.ts";

function plan(commandLine: Record<string, unknown>, rest: Partial<JobRequest> = {}) {
  const request = {
    commandLine,
    env: {},
    defaults: { schedulerPort: 9700 },
    programOf: ({ role }) => ["run", role],
    ...rest,
  } satisfies JobRequest;
  return planJob(request).processes;
}

test("is a scheduler, then servers and workers by rank", () => {
  const names = plan({ servers: "2", workers: "3" }).map(({ name }) => name);
  assert.deepEqual(names, ["scheduler", "server/0", "server/1", "worker/0", "worker/1", "worker/2"]);
});

test("puts several servers into a process, fewer into the last one", () => {
  const servers = plan({ servers: "5", workers: "1", threads: "2" }).filter(({ role }) => role === "server");
  assert.deepEqual(
    servers.map(({ name, ranks, env }) => [name, ranks, env.WEIGHBRIDGE_RANK, env.WEIGHBRIDGE_THREADS]),
    [
      ["server/0-1", [0, 1], "0", "2"],
      ["server/2-3", [2, 3], "2", "2"],
      ["server/4", [4], "4", "1"],
    ],
  );
});

test("with replicas 2 every server has two processes, which ask for the same ranks", () => {
  const servers = plan({ servers: "3", workers: "1", threads: "2", replicas: "2" }).filter(({ role }) => role === "server");
  assert.deepEqual(
    servers.map(({ ranks, env }) => [ranks, env.WEIGHBRIDGE_REPLICAS]),
    [[0, 1], [2], [0, 1], [2]].map((ranks) => [ranks, "2"]),
  );
});

test("more threads than servers is one process", () => {
  assert.deepEqual(
    plan({ servers: "2", workers: "1", threads: "8" }).map(({ name }) => name),
    ["scheduler", "server/0-1", "worker/0"],
  );
});

test("gives every process its whole configuration, whatever the launcher's own environment says", () => {
  const env = { DMLC_ROLE: "worker", DMLC_RANK: "7", PORT: "80", WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS: "900" };
  const processes = plan({ servers: "1", workers: "2" }, { env });
  const configs = processes.map((process) => loadConfig({ env: { ...env, ...process.env } }));
  assert.deepEqual(
    configs.map(({ role, rank, listenPort }) => [role, rank, listenPort]),
    [
      ["scheduler", 0, 9700],
      ["server", 0, 0],
      ["worker", 0, 0],
      ["worker", 1, 0],
    ],
  );
  assert.ok(configs.every(({ schedulerPort, heartbeatTimeoutMs }) => schedulerPort === 9700 && heartbeatTimeoutMs === 900));
});

test("speaks to programs written for ps-lite and Hetu", () => {
  const worker = plan({ servers: "1", workers: "2" }).at(-1)?.env;
  const { DMLC_ROLE, DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, WORKER_ID } = worker ?? {};
  assert.deepEqual(
    [DMLC_ROLE, DMLC_NUM_SERVER, DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, WORKER_ID],
    ["worker", "1", "2", "127.0.0.1", "9700", "1"],
  );
});

test("a port that somebody names beats the free one", () => {
  const portOf = (request: Partial<JobRequest>, flags = {}) =>
    plan({ servers: "1", workers: "1", ...flags }, request)[0]?.env.WEIGHBRIDGE_SCHEDULER_PORT;
  assert.equal(portOf({}), "9700");
  assert.equal(portOf({}, { schedulerPort: "9800" }), "9800");
  assert.equal(portOf({ env: { DMLC_PS_ROOT_PORT: "9900" } }), "9900");
});

test("leaves out roles that nothing is run for", () => {
  const names = plan({ servers: "1", workers: "2" }, { programOf: ({ role }) => (role === "worker" ? undefined : ["run"]) });
  assert.deepEqual(
    names.map(({ name }) => name),
    ["scheduler", "server/0"],
  );
});

test("refuses what makes no sense", () => {
  assert.throws(
    () => plan({ servers: "0", workers: "0" }),
    (error) => isWeighbridgeError(error, "BAD_CONFIG"),
  );
});

test("a server that is added later has its rank, one thread, and counts that it fits", () => {
  const commandLine = { servers: "2", workers: "1", threads: "2" };
  const { serversOf } = planJob({ commandLine, env: {}, defaults: { schedulerPort: 9700 }, programOf: ({ role }) => ["run", role] });
  const [added, ...more] = serversOf(5);
  assert.deepEqual(more, []);
  const config = loadConfig({ env: { ...added?.env } });
  assert.deepEqual([config.role, config.rank, config.threads, config.serverCount, config.listenPort], ["server", 5, 1, 6, 0]);
});

test("of replicated servers one that is added later has two processes, which are alike", () => {
  const commandLine = { servers: "2", workers: "1", replicas: "2" };
  const { serversOf } = planJob({ commandLine, env: {}, defaults: { schedulerPort: 9700 }, programOf: ({ role }) => ["run", role] });
  const [one, other, ...more] = serversOf(2);
  assert.deepEqual([one, more], [other, []]);
  assert.notEqual(one, other, "each is a process of its own");
  assert.deepEqual([one?.name, one?.ranks], ["server/2", [2]]);
});
