// bad-requests.test — Goal: a well-framed request that makes no sense is answered with a typed failure, changes nothing, is counted and
// logged; its link stays open, and what peers can make a node keep is bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../src/base/errors.ts";
import { HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { encodeJson } from "../src/wire/json-body.ts";
import { dtypeBits, KvFlag } from "../src/wire/kv-message.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import { frameBytes, type HeaderFields, joinBytes, kvPayload } from "./hostile/raw-frame.ts";
import { HANDLE_APP, registration, SUMMING_APP, TargetCluster } from "./hostile/target-cluster.ts";

const WHOLE = KvFlag.FIRST | KvFlag.LAST;
const KEYS = [5n, 6n, 7n];
const PUSH: HeaderFields = { functionId: FunctionId.KV_PUSH, flags: WHOLE, stamp: 1, arg0: 3, arg1: 2 };
const PULL: HeaderFields = { functionId: FunctionId.KV_PULL, flags: WHOLE, arg0: 3, arg1: 2 };
const VALUES = [1, 2, 3, 4, 5, 6];

type Case = {
  readonly name: string;
  readonly fields: HeaderFields;
  readonly payload?: Uint8Array;
  readonly code: ErrorCode;
  readonly says: RegExp;
  /** Of an application that takes what the request asks for; by default both must refuse it. */
  readonly apps?: readonly number[];
};

const KV_CASES: readonly Case[] = [
  { name: "keys that fall", fields: PUSH, payload: kvPayload([5n, 7n, 6n], VALUES), code: "KEYS_NOT_ASCENDING", says: /6.* 7/ },
  { name: "a key twice", fields: PUSH, payload: kvPayload([5n, 5n, 6n], VALUES), code: "KEYS_NOT_ASCENDING", says: /5/ },
  { name: "pulled keys that fall", fields: PULL, payload: kvPayload([5n, 7n, 6n]), code: "KEYS_NOT_ASCENDING", says: /6.* 7/ },
  { name: "no keys", fields: { ...PUSH, arg0: 0 }, code: "BAD_REQUEST", says: /without keys/ },
  { name: "too few values", fields: PUSH, payload: kvPayload(KEYS, [1, 2, 3, 4, 5]), code: "BAD_REQUEST", says: /44 bytes for 3 keys/ },
  { name: "too many values", fields: PUSH, payload: kvPayload(KEYS, [...VALUES, 7]), code: "BAD_REQUEST", says: /52 bytes for 3 keys/ },
  {
    name: "a count of 2^32 − 1",
    fields: { ...PUSH, arg0: 2 ** 32 - 1 },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /4294967295 keys/,
  },
  {
    name: "a count and a width whose product is 2^64",
    fields: { ...PUSH, arg0: 2 ** 31, arg1: 2 ** 31 },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /2147483648 keys/,
  },
  { name: "a push without a width", fields: { ...PUSH, arg1: 0 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /no width/ },
  { name: "a pull without a width", fields: { ...PULL, arg1: 0 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /no width/ },
  { name: "a pull with values", fields: PULL, payload: kvPayload(KEYS, [1]), code: "BAD_REQUEST", says: /28 bytes for 3 keys/ },
  {
    name: "lengths in a pull",
    fields: { ...PULL, flags: WHOLE | KvFlag.LENS },
    payload: kvPayload(KEYS, [], [1, 1, 1]),
    code: "BAD_REQUEST",
    says: /where none belong/,
  },
  {
    name: "a negative length",
    fields: { ...PUSH, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 },
    payload: kvPayload(KEYS, [1, 2, 3], [4, -2, 1]),
    code: "BAD_REQUEST",
    says: /-2/,
  },
  {
    name: "lengths that do not add up",
    fields: { ...PUSH, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 },
    payload: kvPayload(KEYS, [1, 2, 3], [1, 1, 2]),
    code: "BAD_REQUEST",
    says: /add up to 4/,
  },
  {
    name: "a piece beyond the end",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 1, arg1: 131_072, arg2: 131_072 },
    payload: kvPayload([5n], [1]),
    code: "BAD_REQUEST",
    says: /at value 131072 of 131072/,
  },
  {
    name: "a piece that does not begin at a block",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 1, arg1: 200_000, arg2: 1000 },
    payload: kvPayload([5n], [1]),
    code: "BAD_REQUEST",
    says: /at value 1000/,
  },
  {
    name: "a piece of two keys",
    fields: { ...PUSH, flags: WHOLE | KvFlag.PIECE, arg0: 2, arg1: 131_072 },
    payload: kvPayload([5n, 6n], [1]),
    code: "BAD_REQUEST",
    says: /a piece of 2 keys/,
  },
  { name: "an offset outside a piece", fields: { ...PULL, arg2: 8 }, payload: kvPayload(KEYS), code: "BAD_REQUEST", says: /offset 8/ },
  {
    name: "values of no type",
    fields: { ...PUSH, flags: WHOLE | dtypeBits(77) },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /type 77/,
    apps: [HANDLE_APP],
  },
  {
    name: "values that the default handle cannot sum",
    fields: { ...PUSH, flags: WHOLE | dtypeBits(6) },
    payload: kvPayload(KEYS, VALUES),
    code: "UNSUPPORTED",
    says: /Int32Array/,
    apps: [SUMMING_APP],
  },
  {
    name: "a pull of more than a frame",
    fields: { ...PULL, arg1: 4000, arg0: 100 },
    payload: kvPayload(Array.from({ length: 100 }, (_, i) => BigInt(i))),
    code: "BAD_REQUEST",
    says: /1600000 bytes/,
    apps: [SUMMING_APP],
  },
  {
    name: "a long value in one piece",
    fields: { ...PUSH, arg0: 1, arg1: 4096 },
    payload: kvPayload([5n], new Float32Array(4096)),
    code: "BAD_REQUEST",
    says: /not cut into pieces/,
    apps: [SUMMING_APP],
  },
  {
    name: "the end of a request that did not begin",
    fields: { ...PUSH, flags: KvFlag.LAST },
    payload: kvPayload(KEYS, VALUES),
    code: "BAD_REQUEST",
    says: /beginning/,
    apps: [HANDLE_APP],
  },
];

async function refused(cluster: TargetCluster, client: RawClient, { fields, payload, code, says }: Case): Promise<void> {
  const failure = failureOf(await cluster.world.run(client.ask(fields, payload)));
  assert.equal(failure.code, code, failure.message);
  assert.match(failure.message, says);
}

for (const testCase of KV_CASES) {
  const { name, fields, apps = [SUMMING_APP, HANDLE_APP] } = testCase;
  test(`${name}: ${testCase.code}, and nothing is applied`, async () => {
    const cluster = await TargetCluster.start();
    const client = await cluster.intrude();
    const { metrics } = cluster.server;
    for (const app of apps) {
      const failedBefore = metrics.requestsFailed;
      await refused(cluster, client, {
        ...testCase,
        fields: { ...fields, app, ...(fields.stamp === undefined ? {} : { stamp: 1 + app }) },
      });
      assert.equal(metrics.requestsFailed, failedBefore + 1);
      assert.match(cluster.log.recent.at(-1) ?? "", /a request failed.*worker 1/);
      const untouched = new Float32Array(6);
      const kv = app === SUMMING_APP ? cluster.kv : cluster.handleKv;
      if (app === SUMMING_APP) await cluster.world.run(kv.wait(kv.pull(BigUint64Array.from(KEYS), untouched)));
      assert.deepEqual([...untouched], [0, 0, 0, 0, 0, 0]);
    }
    assert.equal(client.isClosed, false);
    await cluster.close();
  });
}

test("a repeated pushPull whose lengths lie cannot make the server write beyond its answer", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const fields = { ...PUSH, functionId: FunctionId.KV_PUSH_PULL, flags: WHOLE | KvFlag.LENS | KvFlag.VARIABLE, arg1: 0 };
  const first = await cluster.world.run(client.ask(fields, kvPayload(KEYS, VALUES, [1, 2, 3])));
  assert.equal(first?.header.kind, Kind.REPLY);
  for (const lens of [
    [1, 2, 1000],
    [1, 2, 2 ** 30],
    [1, 2, -1],
  ]) {
    // The stamp is old, so that nothing is pushed and no push looks at the lengths.
    const failure = failureOf(await cluster.world.run(client.ask(fields, kvPayload(KEYS, VALUES, lens))));
    assert.equal(failure.code, "BAD_REQUEST");
  }
  await cluster.close();
});

test("what was refused is not half applied: the rest of a request whose part was refused is refused as well", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const part = { ...PUSH, app: HANDLE_APP, arg3: 77 };
  const ask = async (flags: number, keys: readonly bigint[], stamp: number) =>
    await cluster.world.run(client.ask({ ...part, flags, stamp }, kvPayload(keys, VALUES)));
  assert.equal((await ask(KvFlag.FIRST, [1n, 2n, 3n], 1))?.header.kind, Kind.REPLY);
  assert.equal(failureOf(await ask(0, [4n, 5n], 2)).code, "BAD_REQUEST");
  assert.equal(failureOf(await ask(KvFlag.LAST, [6n, 7n, 8n], 3)).code, "BAD_REQUEST");
  await cluster.close();
});

test("an unknown function is UNKNOWN_FUNCTION, an unknown app UNKNOWN_APP after a while", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  for (const functionId of [0, 7, 35, 1024, 65_535]) {
    assert.equal(failureOf(await cluster.world.run(client.ask({ functionId }))).code, "UNKNOWN_FUNCTION");
  }
  const startedAtMs = cluster.world.clock.nowMs();
  for (const functionId of [FunctionId.KV_PULL, FunctionId.SIMPLE]) {
    const failure = failureOf(await cluster.world.run(client.ask({ ...PULL, functionId, app: 500 }, kvPayload(KEYS))));
    assert.equal(failure.code, "UNKNOWN_APP");
    assert.equal(failure.retryable, true);
  }
  assert.equal(cluster.world.clock.nowMs() - startedAtMs, 20_000);
  await cluster.close();
});

test("requests to an app that never comes wait in a bounded queue", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const payload = new Uint8Array(64);
  for (let i = 0; i < 3000; i++) client.request({ functionId: FunctionId.SIMPLE, app: 500, stamp: i + 1, settled: 1 }, payload);
  await cluster.settle();
  assert.ok(client.frames.length > 1000, "those beyond the bound are refused at once");
  for (const frame of client.frames) assert.equal(failureOf(frame).code, "UNKNOWN_APP");
  await cluster.close();
});

// Conversations.

test("an answer to a request that was never made closes the link and is counted", async () => {
  const cluster = await TargetCluster.start();
  for (const address of cluster.addresses) {
    for (const kind of [Kind.REPLY, Kind.FAILURE] as const) {
      const { metrics } = cluster.officeAt(address);
      const { orphanAnswers, badFrames } = metrics;
      const client = await cluster.intrude(address);
      client.send(frameBytes(kind, { request: 17 }, encodeJson({ code: "CLOSED", message: "", retryable: false })));
      await cluster.world.run(client.closed());
      assert.equal(metrics.orphanAnswers, orphanAnswers + 1);
      assert.equal(metrics.badFrames, badFrames + 1);
      assert.match(cluster.log.recent.at(-1) ?? "", /answered request 17/);
    }
  }
  await cluster.close();
});

test("a notice about a request that was never made, and request 0, close the link", async () => {
  const cluster = await TargetCluster.start();
  const frames = [
    frameBytes(Kind.NOTICE, { request: 5 }),
    frameBytes(Kind.NOTICE),
    frameBytes(Kind.REQUEST, { functionId: FunctionId.KV_PULL }),
  ];
  for (const bytes of frames) {
    const client = await cluster.intrude();
    client.send(bytes);
    await cluster.world.run(client.closed());
  }
  await cluster.close();
});

test("a request too far ahead of what its sender has settled closes the link: nobody makes a node remember more", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  client.send(frameBytes(Kind.REQUEST, { functionId: 1024, request: 2 ** 20 + 2, settled: 1 }));
  await cluster.world.run(client.closed());
  assert.match(cluster.log.recent.at(-1) ?? "", /request 1048578/);
  await cluster.close();
});

test("a flood of requests behind a gap is answered with one notice", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const { metrics } = cluster.server;
  const frame = frameBytes(Kind.REQUEST, { ...PULL, request: 9, settled: 1 }, kvPayload(KEYS));
  client.send(joinBytes(Array.from({ length: 10_000 }, () => frame)));
  await cluster.settle();
  assert.equal(metrics.gaps, 10_000);
  assert.deepEqual(
    client.frames.map(({ header }) => [header.kind, header.request]),
    [[Kind.NOTICE, 1]],
  );
  await cluster.close();
});

test("a peer that asks and never reads is not read either: what waits for it is bounded", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const { metrics } = cluster.server;
  const receivedBefore = metrics.framesReceived;
  client.pause();
  const batchCount = 100;
  const batch = 5000;
  for (let i = 0; i < batchCount; i++) {
    const frames = Array.from({ length: batch }, (_, j) => {
      const request = i * batch + j + 1;
      return frameBytes(
        Kind.REQUEST,
        { functionId: FunctionId.KV_PULL, flags: WHOLE, request, settled: request, arg0: 1, arg1: 1 },
        kvPayload([1n]),
      );
    });
    client.send(joinBytes(frames));
  }
  await cluster.settle();
  const taken = metrics.framesReceived - receivedBefore;
  assert.ok(taken < 200_000, `${taken} of ${batch * batchCount} requests were taken`);
  client.resume();
  await cluster.settle();
  assert.equal(metrics.framesReceived - receivedBefore, batch * batchCount, "all of them once it reads again");
  await cluster.close();
});

// The control plane.

const deep = (depth: number): Uint8Array => new TextEncoder().encode("[".repeat(depth) + "]".repeat(depth));

const CONTROL_CASES: readonly (Case & { readonly at: "scheduler" | "server" })[] = [
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
    says: /BARRIER.group must be/,
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
    name: "REGISTER by a node that has its place",
    fields: { functionId: FunctionId.REGISTER },
    payload: encodeJson(registration()),
    code: "BAD_REQUEST",
    says: /has its place/,
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

test("a peer without a place can register and ask for the status, and nothing else", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.anonymous(cluster.world.schedulerAddress);
  const bodies = [
    [FunctionId.HEARTBEAT, {}],
    [FunctionId.LEAVE, {}],
    [FunctionId.BARRIER, { group: 7, customer: 0, round: 1 }],
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

test("nobody resumes another node's place, or a life of its own that it was not given", async () => {
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
    assert.match(failure.message, /cannot resume the place/);
  }
  await cluster.close();
});

test("what a node remembers of the others cannot bury them while the scheduler knows better", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude(cluster.world.schedulerAddress);
  const { version, nodes } = cluster.scheduler.roster;
  const lies = { version: 2 ** 53 - 1, nodes: nodes.map((entry) => ({ ...entry, incarnation: 1000, state: "dead" })) };
  const { job, node, incarnation } = cluster.place;
  const body = registration({ token: "other", resume: { job, node, incarnation, roster: lies, passed: [] } });
  await cluster.world.run(client.ask({ functionId: FunctionId.REGISTER }, encodeJson(body)));
  assert.ok(cluster.scheduler.roster.version <= version + 1);
  for (const entry of cluster.scheduler.roster.nodes) assert.deepEqual([entry.state, entry.incarnation], ["alive", 1]);
  await cluster.close();
});

test("a status that does not fit a frame is a failure, not the scheduler's end", async () => {
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
  const failure = failureOf(await cluster.world.run(client.ask({ functionId: FunctionId.STATUS }, encodeJson({}))));
  assert.equal(failure.code, "UNSUPPORTED");
  assert.match(failure.message, new RegExp(`room for ${PAYLOAD_BYTES_MAX}`));
  for (const other of clients) other.destroy();
  await cluster.close();
});

test("a frame of the largest legal size is taken, and so is what follows it", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const keys = Array.from({ length: PAYLOAD_BYTES_MAX / 16 }, (_, i) => BigInt(i));
  const values = new Float32Array(keys.length * 2).fill(1);
  const payload = kvPayload(keys, values);
  assert.equal(HEADER_BYTES + payload.length, HEADER_BYTES + PAYLOAD_BYTES_MAX);
  const answer = await cluster.world.run(client.ask({ ...PUSH, arg0: keys.length }, payload));
  assert.equal(answer?.header.kind, Kind.REPLY);
  const pulled = await cluster.world.run(client.ask(PULL, kvPayload([0n, 1n, 65_535n])));
  assert.deepEqual([...new Float32Array(pulled?.payload.buffer ?? new ArrayBuffer(0))], [1, 1, 1, 1, 1, 1]);
  await cluster.close();
});
