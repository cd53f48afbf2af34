// Goal: an unmodified program of ps-lite and nodes of ours form one cluster, whoever plays which role; without such a
// program, a cluster of ours over its protocol.
//
// WEIGHBRIDGE_PSLITE_PROGRAM names the program. It reads the DMLC_* variables and gets its role as its first argument;
// as scheduler it starts and finalizes, as server it serves application 0 and sums one float per key, as worker it
// pushes to and pulls from that application, checks what it gets, and ends with 0. ps-lite's own tests/test_kv_app.cc
// is such a program. Those of its other tests that lie beside it are run as well, in all combinations of roles. None of
// them is part of this repository, nor is a way to build them.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running, script, until } from "./processes.ts";

const PROGRAM = process.env.WEIGHBRIDGE_PSLITE_PROGRAM ?? "";
const skip: string | false =
  PROGRAM === ""
    ? "WEIGHBRIDGE_PSLITE_PROGRAM names no program of ps-lite to run it with"
    : existsSync(PROGRAM)
      ? false
      : `there is no program ${PROGRAM} (WEIGHBRIDGE_PSLITE_PROGRAM)`;

/** What a role of ours runs: a script, or, without one, the node built in. */
type Job = { readonly program: string; readonly scheduler?: string; readonly server?: string; readonly worker: string };

const SUMS: Job = { program: PROGRAM, worker: "sums" };

/** The program of another of ps-lite's own tests, which lies beside the one that is named. */
function besideProgram(name: string): string {
  return join(dirname(PROGRAM), name);
}

type Side = "ours" | "theirs";
type Roles = { readonly scheduler: Side; readonly server: Side; readonly worker: Side };
type Setting = { readonly count?: number; readonly env?: Readonly<Record<string, string>> };

const SIDES: readonly Side[] = ["ours", "theirs"];
const ALL_ROLES: readonly Roles[] = SIDES.flatMap((scheduler) =>
  SIDES.flatMap((server) => SIDES.map((worker): Roles => ({ scheduler, server, worker }))),
);

class MixedCluster extends Processes {
  readonly environment: Readonly<Record<string, string>>;

  private constructor(port: number, { count = 1, env = {} }: Setting) {
    super();
    this.environment = {
      DMLC_PS_ROOT_URI: "127.0.0.1",
      DMLC_PS_ROOT_PORT: String(port),
      DMLC_NODE_HOST: "127.0.0.1",
      DMLC_NUM_SERVER: String(count),
      DMLC_NUM_WORKER: String(count),
      DMLC_PS_VAN_TYPE: "zmq",
      ...env,
    };
  }

  static async create(setting: Setting = {}): Promise<MixedCluster> {
    return new MixedCluster(await freePort("127.0.0.1"), setting);
  }

  node(role: keyof Roles, side: Side, job: Job = SUMS): Running {
    const env = { ...this.environment, DMLC_ROLE: role };
    if (side === "theirs") return this.run(job.program, [role], { env });
    const { [role]: name } = job;
    return this.weighbridge([role, ...(name === undefined ? [] : [script(name)])], { env: this.environment });
  }

  /** All nodes end well. */
  async succeeds({ scheduler, server, worker }: Roles, count: number, job: Job = SUMS, workerCount: number = count): Promise<void> {
    const nodes = [this.node("scheduler", scheduler, job)];
    for (let i = 0; i < count; i++) nodes.push(this.node("server", server, job));
    for (let i = 0; i < workerCount; i++) nodes.push(this.node("worker", worker, job));
    await Promise.all(nodes.map((node) => node.succeeds()));
  }
}

function titleOf(roles: Roles): string {
  return Object.entries(roles)
    .map(([role, side]) => `${role} ${side}`)
    .join(", ");
}

function isAllOurs(roles: Roles): boolean {
  return Object.values(roles).every((side) => side === "ours");
}

// With all of theirs nothing of ours runs: it shows that the program is one. Such a cluster fails now and then by
// itself: ps-lite's scheduler tells workers before servers that the start is over, and a server that is asked before it
// has made its application ends (BarrierReleases.X1).
for (const roles of ALL_ROLES) {
  for (const count of [1, 2]) {
    test(`sums are right with ${titleOf(roles)}, ${count} × ${count}`, { skip: isAllOurs(roles) ? false : skip }, async () => {
      await using cluster = await MixedCluster.create({ count });
      await cluster.succeeds(roles, count);
    });
  }
}

const SIMPLE_APP = { scheduler: "simple-app", server: "simple-app", worker: "simple-app" };
const JOINER = { scheduler: "joiner", server: "joiner", worker: "joiner" };

/** ps-lite's other tests: what each shows, its name, and ours in its place. */
const OTHERS: readonly (readonly [string, string, Omit<Job, "program">])[] = [
  ["every node answers what the scheduler asks right after the start", "test_simple_app", SIMPLE_APP],
  ["a cluster starts and ends", "test_connection", JOINER],
  ["sums are right with two customers in one worker of theirs", "test_kv_app_multi_workers", { worker: "sums" }],
];

for (const [what, name, ours] of OTHERS) {
  const job: Job = { program: besideProgram(name), ...ours };
  const skipOther = skip === false && !existsSync(job.program) ? `there is no program ${job.program}` : skip;
  for (const roles of ALL_ROLES) {
    const isShown = isAllOurs(roles) && name === "test_simple_app"; // the others are shown elsewhere without a program
    if (isAllOurs(roles) && !isShown) continue;
    test(`${what} (${name}) with ${titleOf(roles)}`, { skip: isShown ? false : skipOther }, async () => {
      await using cluster = await MixedCluster.create({ count: 2 });
      const isShared = name === "test_kv_app_multi_workers" && roles.worker === "theirs"; // one process is both workers
      await cluster.succeeds(roles, 2, job, isShared ? 1 : 2);
    });
  }
}

for (const scheduler of SIDES) {
  test(`sums are right with a server and a worker of each side in one cluster, scheduler ${scheduler}`, { skip }, async () => {
    await using cluster = await MixedCluster.create({ count: 2 });
    const nodes = [cluster.node("scheduler", scheduler)];
    for (const side of SIDES) nodes.push(cluster.node("server", side), cluster.node("worker", side));
    await Promise.all(nodes.map((node) => node.succeeds()));
  });
}

const SETTINGS: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ["heartbeats", { PS_HEARTBEAT_INTERVAL: "1", PS_HEARTBEAT_TIMEOUT: "10" }],
  ["ipc (DMLC_LOCAL)", { DMLC_LOCAL: "1" }],
  ["p3", { DMLC_PS_VAN_TYPE: "p3" }],
];

/** Longer than the job: what their scheduler did not acknowledge counts twice when it is sent again. */
const RESEND = { PS_RESEND: "1", PS_RESEND_TIMEOUT: "4000" };
for (const roles of ALL_ROLES) {
  if (roles.scheduler === "theirs") continue;
  test(`sums are right with acknowledgements (PS_RESEND) and ${titleOf(roles)}`, { skip: isAllOurs(roles) ? false : skip }, async () => {
    await using cluster = await MixedCluster.create({ env: RESEND });
    await cluster.succeeds(roles, 1);
  });
}

/**
 * A scheduler of ps-lite acknowledges nothing until its main thread sees, up to 100 ms after the list, that everybody
 * is there. A node of ps-lite that entered the first barrier before that never hears that its entry came. When it
 * stops, its resender wakes once more, about PS_RESEND_TIMEOUT after the entry, however long that is; if the entry is
 * overdue, it asks for `my_node()`, which ends the process, because it is not `ready_` any more. All work is done by
 * then. Clusters of ps-lite alone end that way as often: our server has no part in it.
 */
const STOP_CHECK = /van\.h:\d+: Check failed: ready_ call Start\(\) first/;

test("sums are right with acknowledgements (PS_RESEND), server ours, others theirs", { skip }, async () => {
  await using cluster = await MixedCluster.create({ env: RESEND });
  const [scheduler, server, worker] = [
    cluster.node("scheduler", "theirs"),
    cluster.node("server", "ours"),
    cluster.node("worker", "theirs"),
  ];
  await server.succeeds();
  for (const node of [scheduler, worker]) {
    const { code } = await node.ends();
    if (code !== 0) assert.match(node.stderr, STOP_CHECK, node.transcript);
  }
  assert.match(worker.stderr, /error: 0, 0$/m, worker.transcript);
});

for (const [name, env] of SETTINGS) {
  for (const roles of [
    { scheduler: "ours", server: "ours", worker: "ours" },
    { scheduler: "theirs", server: "ours", worker: "theirs" },
    { scheduler: "ours", server: "theirs", worker: "ours" },
  ] as const) {
    const title = `sums are right with ${name}, server ${roles.server}, others ${roles.worker}`;
    test(title, { skip: isAllOurs(roles) ? false : skip }, async () => {
      await using cluster = await MixedCluster.create({ env });
      await cluster.succeeds(roles, 1);
    });
  }
}

test("a node too many hears at the end of the job that it is over", async () => {
  await using cluster = await MixedCluster.create({ count: 2, env: { WEIGHBRIDGE_LOG_LEVEL: "debug" } });
  const scheduler = cluster.node("scheduler", "ours");
  const servers = [cluster.node("server", "ours"), cluster.node("server", "ours")];
  const pushers = [0, 1].map(() => cluster.weighbridge(["worker", script("pusher"), "--verify"], { env: cluster.environment }));
  await Promise.all(pushers.map((pusher) => pusher.says(/push works/)));
  const registered = (): number => [...scheduler.stderr.matchAll(/a node of ps-lite registers/g)].length;
  const tooMany = cluster.weighbridge(["worker", script("pusher")], { env: cluster.environment });
  await until(() => registered() === 5, "the node too many to register");
  for (const pusher of pushers) pusher.endInput();
  await Promise.all([scheduler, ...servers, ...pushers].map((node) => node.succeeds()));
  await tooMany.fails(/no rank for worker .*: the job is over, everybody has left/);
  for (const pusher of pushers) assert.doesNotMatch(pusher.stdout, /push failed/);
});

test("a server of theirs that is killed fails the worker's calls, with its name", { skip }, async () => {
  await using cluster = await MixedCluster.create({ env: { PS_HEARTBEAT_INTERVAL: "1", PS_HEARTBEAT_TIMEOUT: "3" } });
  cluster.node("scheduler", "ours");
  const server = cluster.node("server", "theirs");
  const worker = cluster.weighbridge(["worker", script("pusher")], { env: cluster.environment });
  await worker.says(/push works/);
  await server.kill();
  await worker.says(/push failed after \d+ ms: NODE_DEAD: .*server 0/);
});
