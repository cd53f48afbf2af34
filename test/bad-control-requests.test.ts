// bad-control-requests.test — Goal: control messages of the wrong shape, size or sender are answered with typed
// failures; nobody can fill the scheduler's memory, speak in its name, or speak for another node (spec/protocol.md, C
// rules).

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../src/base/bytes.ts";
import { statusReplyShape } from "../src/wire/control.ts";
import { Kind, PAYLOAD_BYTES_MAX } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { decodeJson, encodeJson } from "../src/wire/json-body.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import { type Refusal, refused } from "./hostile/refusal.ts";
import { registration, TargetCluster } from "./hostile/target-cluster.ts";

const deep = (depth: number): Uint8Array => new TextEncoder().encode("[".repeat(depth) + "]".repeat(depth));

const UNITS = {
  ...{ name: "train", epoch: 0, batchCount: 2 ** 30, partCount: 1, assignment: "free" },
  ...{ done: [], held: [], unused: [], want: 1, waitMs: 0, inherited: 0, leaves: false },
};

const CONTROL_CASES: readonly (Refusal & { readonly at: "scheduler" | "server" })[] = [
  {
    at: "scheduler",
    name: "HEARTBEAT that is not JSON",
    fields: { functionId: FunctionId.HEARTBEAT },
    payload: new Uint8Array(3),
    code: "BAD_REQUEST",
    says: /not JSON/,
  },
  { at: "scheduler", name: "STATUS without a body", fields: { functionId: FunctionId.STATUS }, code: "BAD_REQUEST", says: /not JSON/ },
  {
    at: "scheduler",
    name: "BARRIER of the wrong shape",
    fields: { functionId: FunctionId.BARRIER },
    payload: encodeJson({ group: "7" }),
    code: "BAD_REQUEST",
    says: /wb\/cluster\/barrier.group must be/,
  },
  {
    at: "scheduler",
    name: "BARRIER of no group",
    fields: { functionId: FunctionId.BARRIER },
    payload: encodeJson({ group: 8, customer: 0, round: 1 }),
    code: "BAD_ARGUMENT",
    says: /no group 8/,
  },
  {
    at: "scheduler",
    name: "BARRIER of a customer of no size",
    fields: { functionId: FunctionId.BARRIER },
    payload: encodeJson({ group: 4, customer: 2 ** 40, round: 1 }),
    code: "BAD_ARGUMENT",
    says: /customer/,
  },
  {
    at: "scheduler",
    name: "REGISTER with NaN counts",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration({ serverCount: NaN })),
    code: "BAD_REQUEST",
    says: /serverCount must be .* null/,
  },
  {
    at: "scheduler",
    name: "REGISTER of 900,000 nested lists",
    fields: { functionId: FunctionId.REGISTER },
    payload: deep(450_000),
    code: "BAD_REQUEST",
    says: /must be an object, but is a list/,
  },
  {
    at: "scheduler",
    name: "REGISTER with a label of 900 KB",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration({ label: "x".repeat(900_000) })),
    code: "BAD_REQUEST",
    says: /label must be a string of at most/,
  },
  {
    at: "scheduler",
    name: "REGISTER with a token of 900 KB",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration({ token: "x".repeat(900_000) })),
    code: "BAD_REQUEST",
    says: /token must be/,
  },
  {
    at: "scheduler",
    name: "REGISTER by a node that has its rank",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration()),
    code: "BAD_REQUEST",
    says: /has its rank/,
  },
  {
    at: "scheduler",
    name: "ROSTER to the scheduler",
    fields: { functionId: FunctionId.ROSTER },
    payload: encodeJson({ version: 9, nodes: [] }),
    code: "UNKNOWN_FUNCTION",
    says: /8/,
  },
  {
    at: "scheduler",
    name: "ABORT to the scheduler",
    fields: { functionId: FunctionId.ABORT },
    payload: encodeJson({ code: "ABORTED", message: "" }),
    code: "UNKNOWN_FUNCTION",
    says: /9/,
  },
  {
    at: "scheduler",
    name: "UNITS with runs that fall",
    fields: { functionId: FunctionId.UNITS },
    payload: encodeJson({ ...UNITS, done: [3, 1] }),
    code: "BAD_REQUEST",
    says: /wb\/cluster\/units.done must be runs/,
  },
  {
    at: "scheduler",
    name: "UNITS of an epoch without batches",
    fields: { functionId: FunctionId.UNITS },
    payload: encodeJson({ ...UNITS, batchCount: 0 }),
    code: "BAD_REQUEST",
    says: /at least one batch/,
  },
  {
    at: "scheduler",
    name: "UNITS done that were lent to nobody",
    fields: { functionId: FunctionId.UNITS },
    payload: encodeJson({ ...UNITS, done: [0, 2 ** 29] }),
    code: "BAD_REQUEST",
    says: /unit 0 of epoch 0 of "train", which was lent to nobody/,
  },
  {
    at: "scheduler",
    name: "UNITS held, far too many",
    fields: { functionId: FunctionId.UNITS },
    payload: encodeJson({ ...UNITS, held: [0, 2 ** 29] }),
    code: "BAD_REQUEST",
    says: /cannot hold 536870912 units/,
  },
  {
    at: "server",
    name: "UNITS at a server",
    fields: { functionId: FunctionId.UNITS },
    payload: encodeJson(UNITS),
    code: "UNKNOWN_FUNCTION",
    says: /7/,
  },
  {
    at: "server",
    name: "ROSTER by a worker",
    fields: { functionId: FunctionId.ROSTER },
    payload: encodeJson({ version: 99, nodes: [] }),
    code: "BAD_REQUEST",
    says: /from the scheduler, not from worker 1/,
  },
  {
    at: "server",
    name: "ABORT by a worker",
    fields: { functionId: FunctionId.ABORT },
    payload: encodeJson({ code: "ABORTED", message: "" }),
    code: "BAD_REQUEST",
    says: /from the scheduler, not from worker 1/,
  },
  {
    at: "server",
    name: "REGISTER at a server",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration()),
    code: "UNKNOWN_FUNCTION",
    says: /1/,
  },
];

for (const testCase of CONTROL_CASES) {
  test(`${testCase.name}: ${testCase.code}`, async () => {
    const cluster = await TargetCluster.start();
    const client = await cluster.intrude(testCase.at === "server" ? cluster.serverAddress : cluster.world.schedulerAddress);
    await refused(cluster, client, testCase);
    assert.equal(client.isClosed, false);
    for (const office of [cluster.scheduler, cluster.server, cluster.worker]) assert.equal(office.failure, undefined);
    await cluster.close();
  });
}

test("a peer that is not registered can register and ask for the status, and nothing else", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.anonymous(cluster.world.schedulerAddress);
  const bodies = [
    [FunctionId.HEARTBEAT, {}],
    [FunctionId.LEAVE, {}],
    [FunctionId.BARRIER, { group: 7, customer: 0, round: 1 }],
    [FunctionId.UNITS, UNITS],
  ] as const;
  for (const [functionId, body] of bodies) {
    const failure = failureOf(await cluster.world.run(client.ask({ functionId }, encodeJson(body))));
    assert.equal(failure.code, "NO_ROUTE");
    assert.match(failure.message, /register first/);
  }
  const status = await cluster.world.run(client.ask({ functionId: FunctionId.STATUS }, encodeJson({})));
  assert.equal(status?.header.kind, Kind.REPLY);
  await cluster.close();
});

test("a link registers once: it cannot fill the scheduler with applications", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.anonymous(cluster.world.schedulerAddress);
  client.request({ functionId: FunctionId.REGISTER }, encodeJson(registration({ token: "first" })));
  for (let i = 0; i < 100; i++) {
    const again = client.ask({ functionId: FunctionId.REGISTER, settled: 1 }, encodeJson(registration({ token: `again ${i}` })));
    assert.match(failureOf(await cluster.world.run(again)).message, /registered already/);
  }
  const status = await cluster.world.run(client.ask({ functionId: FunctionId.STATUS, settled: 1 }, encodeJson({})));
  assert.equal(JSON.parse(new TextDecoder().decode(status?.payload)).waiting.length, 1);
  await cluster.close();
});

test("nobody resumes another node's rank, or an incarnation of its own that it was not given", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude(cluster.world.schedulerAddress);
  const { roster } = cluster.scheduler;
  const claims = [
    { node: 9, incarnation: 1 },
    { node: 11, incarnation: 2 ** 53 - 1 },
  ];
  for (const claim of claims) {
    const body = registration({ resume: { job: "job", ...claim, roster, passed: [] } });
    const failure = failureOf(await cluster.world.run(client.ask({ functionId: FunctionId.REGISTER }, encodeJson(body))));
    assert.match(failure.message, /cannot resume the rank/);
  }
  await cluster.close();
});

test("what a node remembers of the others cannot bury them while the scheduler knows better", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude(cluster.world.schedulerAddress);
  const { version, nodes } = cluster.scheduler.roster;
  const lies = { version: 2 ** 53 - 1, nodes: nodes.map((entry) => ({ ...entry, incarnation: 1000, state: "dead" })) };
  const { job, node, incarnation } = cluster.registration;
  const body = registration({ token: "other", resume: { job, node, incarnation, roster: lies, passed: [] } });
  await cluster.world.run(client.ask({ functionId: FunctionId.REGISTER }, encodeJson(body)));
  assert.ok(cluster.scheduler.roster.version <= version + 1);
  for (const entry of cluster.scheduler.roster.nodes) assert.deepEqual([entry.state, entry.incarnation], ["alive", 1]);
  await cluster.close();
});

test("a status that does not fit a frame comes in several", async () => {
  const cluster = await TargetCluster.start();
  const { schedulerAddress } = cluster.world;
  const clients: RawClient[] = [];
  for (let i = 0; i < 300; i++) {
    const client = await cluster.anonymous(schedulerAddress);
    const wide = "\u0001".repeat(256); // six bytes each in JSON
    client.request({ functionId: FunctionId.REGISTER }, encodeJson(registration({ token: `${i}`, label: wide, address: wide + wide })));
    clients.push(client);
  }
  const client = await cluster.intrude(schedulerAddress);
  const status = client.request({ functionId: FunctionId.STATUS }, encodeJson({}));
  const frames: Uint8Array[] = [];
  for (let left = Infinity; left > 0; ) {
    const frame = await cluster.world.run(client.answerTo(status));
    assert.ok(frame?.header.kind === Kind.REPLY);
    frames.push(frame.payload);
    left = frame.header.arg0 - frames.reduce((sum, { length }) => sum + length, 0);
  }
  const body = joinBytes(frames);
  assert.ok(body.length > PAYLOAD_BYTES_MAX);
  assert.equal(decodeJson(statusReplyShape, "a status", body).waiting.length, clients.length);
  for (const other of clients) other.destroy();
  await cluster.close();
});
