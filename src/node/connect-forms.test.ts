// Goal: every form of connect() means one thing, and what contradicts itself is refused before anything is sent, with
// what to write instead.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import type { ErrorCode } from "../base/errors.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { loadConfig } from "./config/config.ts";
import { connect } from "./connect.ts";
import { freePort } from "./launcher/free-port.ts";
import { startNode } from "./start.ts";

/** Nothing listens there, and no other node would be waited for. */
const NOWHERE = "weighbridge://127.0.0.1:1";
const loose = connect as unknown as (...given: readonly unknown[]) => Promise<unknown>;

async function refuses(given: readonly unknown[], message: RegExp, code: ErrorCode = "BAD_ARGUMENT"): Promise<void> {
  await assert.rejects(loose(...given), (error) => {
    assert.ok(isWeighbridgeError(error, code), String(error));
    assert.match(error.message, message);
    return true;
  });
}

async function withEnv(env: Readonly<Record<string, string>>, use: () => Promise<void>): Promise<void> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    await use();
  } finally {
    for (const name of Object.keys(env)) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  }
}

test("an address names the scheduler alone: what names it again is refused", async () => {
  await refuses([NOWHERE, { schedulerPort: 9700 }], /names the scheduler, and so does the option schedulerPort: leave out one/);
  await refuses([NOWHERE, { schedulerHost: "a" }], /the option schedulerHost/);
  await refuses([NOWHERE, { schedulers: "a:1" }], /the option schedulers/);
  await refuses([`${NOWHERE}/ads`, { job: "ads" }], /names the job, and so does the option job/);
  await refuses([NOWHERE, { transport: "unix" }], /an address leads over TCP, and transport is "unix"/);
});

test("connect() joins as a worker or a guest, and says how another role is started", async () => {
  for (const first of [[], [NOWHERE]]) {
    await refuses([...first, { role: "server" }], /role "worker" or "guest", not "server"; start a server with: npx weighbridge server/);
    await refuses([...first, { role: "scheduler" }], /start a scheduler with: npx weighbridge scheduler/);
    await refuses([...first, { role: "gest" }], /not "gest"; did you mean guest\?/);
    await refuses([...first, { role: null }], /not null/);
  }
  await withEnv({ WEIGHBRIDGE_ROLE: "server", WEIGHBRIDGE_SCHEDULER_PORT: "1" }, async () => {
    const counts = { serverCount: 1, workerCount: 1 };
    await refuses([counts], /this process is the server.*connect\(\{ role: "worker" \}\)/, "BAD_CONFIG");
  });
});

test("no argument is dropped: two objects, a third argument and what is neither address nor options are refused", async () => {
  await refuses(
    [{ role: "guest" }, { timeoutMs: 5 }],
    /takes one object, got \{"timeoutMs":5\} as a second: put all options into the first/,
  );
  await refuses([NOWHERE, {}, { timeoutMs: 5 }], /takes two arguments, got \{"timeoutMs":5\} as a third/);
  await refuses([undefined, { timeoutMs: 5 }], /takes one object/);
  for (const wrong of [null, 5, ["weighbridge://a"], new URL("weighbridge://a:1"), () => {}]) {
    await refuses([wrong], /takes an address as text \(weighbridge:\/\/HOST:PORT/);
    await refuses([NOWHERE, wrong], /takes an address as text/);
  }
  await refuses(["127.0.0.1:9700"], /must be weighbridge:\/\/HOST:PORT/);
  await refuses([NOWHERE, { deadlineMs: 5 }], /deadlineMs is now called timeoutMs/);
  await refuses([NOWHERE, { logLevl: "info" }], /logLevl.*did you mean logLevel\?/s, "BAD_CONFIG");
});

test("an address without a role in a process that has one is refused, and a role that is named decides", async () => {
  for (const [variable, role] of [
    ["WEIGHBRIDGE_ROLE", "worker"],
    ["DMLC_ROLE", "server"],
    ["MS_ROLE", "MS_WORKER"],
  ] as const)
    await withEnv({ [variable]: role }, async () => {
      const forms = `joins as a guest, and ${variable} in the environment makes this process a ${role}: write connect\\("${NOWHERE}", \\{ role: "guest" \\}\\), or`;
      await refuses([NOWHERE], new RegExp(forms));
      await refuses([NOWHERE, { role: "guest", timeoutMs: 0 }], /127\.0\.0\.1:1/, "DEADLINE");
    });
});

test("a worker that joins by address has the counts of that scheduler's job, not those of another cluster in its environment", async () => {
  const port = await freePort("127.0.0.1");
  const own = { schedulerHost: "127.0.0.1", schedulerPort: port, serverCount: 1, workerCount: 2, logLevel: "silent" } as const;
  const nodes = (["scheduler", "server"] as const).map(async (role) => await startNode(loadConfig({ options: { ...own, role }, env: {} })));
  const address = `weighbridge://127.0.0.1:${port}`;
  const join = async (more: object = {}): Promise<Session> =>
    await connect(address, { role: "worker", logLevel: "silent", timeoutMs: 60_000, ...more });
  const elsewhere = { DMLC_NUM_SERVER: "7", DMLC_NUM_WORKER: "9", WEIGHBRIDGE_WORKER_COUNT_MAX: "1", WEIGHBRIDGE_SCHEDULER_PORT: "7" };
  await withEnv(elsewhere, async () => {
    const sessions = await Promise.all([join(), join({ workerCount: 2 })]);
    for (const { serverCount, workerCount } of sessions) assert.deepEqual([serverCount, workerCount], [1, 2]);
    await Promise.all(sessions.map((session) => session.close({ barrier: false })));
  });
  for (const node of await Promise.all(nodes)) await node.close();
});

test("an address joins as a guest, with role worker as a worker, and wins over an environment that describes another cluster", async () => {
  const elsewhere = { WEIGHBRIDGE_SCHEDULER_PORT: "7", WEIGHBRIDGE_SCHEDULERS: "127.0.0.1:8", WEIGHBRIDGE_TRANSPORT: "unix" };
  const counts = { DMLC_NUM_SERVER: "7", DMLC_NUM_WORKER: "9", WEIGHBRIDGE_RANK: "8", WEIGHBRIDGE_WORKER_COUNT_MAX: "8" };
  await withEnv({ ...elsewhere, ...counts }, async () => await refuses([NOWHERE, { timeoutMs: 0 }], /127\.0\.0\.1:1\b/, "DEADLINE"));
  await withEnv(elsewhere, async () => {
    await refuses([NOWHERE, { timeoutMs: 0 }], /127\.0\.0\.1:1\b/, "DEADLINE");
    const worker = { role: "worker", serverCount: 1, workerCount: 1, timeoutMs: 0 };
    await refuses([`${NOWHERE},127.0.0.1:2`, worker], /127\.0\.0\.1:1.*127\.0\.0\.1:2/, "DEADLINE");
  });
});

test("what means nothing to a guest is refused by its name, and not dropped", async () => {
  const cases = { rank: 3, serverCount: 2, workerCount: 2, workerCountMax: 3, functions: "functions.ts" };
  for (const [name, value] of Object.entries(cases)) {
    const message = new RegExp(`the option ${name} means nothing to a guest: remove it, or join with role: "worker"`);
    for (const given of [[NOWHERE, { [name]: value }], [{ role: "guest", [name]: value }]]) await refuses(given, message);
  }
  await refuses([NOWHERE, { rank: undefined, timeoutMs: 0 }], /127\.0\.0\.1:1/, "DEADLINE");
});

test("an option that only a server, a scheduler or a training reads is refused by its name, unless it is undefined", async () => {
  const cases = { placement: "ring", durable: "log", stateDir: "none", etcd: "http://a:1", replicas: 2, threads: 2, restore: "ckpt" };
  for (const [name, value] of Object.entries(cases))
    for (const given of [[{ [name]: value }], [NOWHERE, { [name]: value }]])
      await refuses(given, new RegExp(`the option ${name} is not for workers or guests: give it to the scheduler or the servers`));
  await refuses([{ logFormat: "mindspore" }], /the option logFormat is not for workers or guests/);
  await refuses([NOWHERE, { placement: undefined, timeoutMs: 0 }], /127\.0\.0\.1:1/, "DEADLINE");
});
