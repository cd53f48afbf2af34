// bad-collective-parts.test — Goal: whatever a worker sends another one among themselves (COLLECTIVE), or the scheduler
// on the way there (GATHER), is taken, refused with a typed failure or closes its own link. What the honest worker
// calls ends, well or with a typed error; it lives, goes on with its servers, and reduces again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../src/base/errors.ts";
import { Random } from "../src/base/random.ts";
import { meshOf } from "../src/testing/start-office.ts";
import { CollectiveKind, DIRECT_BYTES_MAX, PART_BYTES } from "../src/wire/collective-frame.ts";
import { Kind } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { encodeJson } from "../src/wire/json-body.ts";
import { Collective } from "../src/worker/collective.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import type { HeaderFields } from "./hostile/raw-frame.ts";
import { type Refusal, refused } from "./hostile/refusal.ts";
import { simulatedWorld, TargetCluster } from "./hostile/target-cluster.ts";

const MESH = "memory://worker-0";
const { COLLECTIVE, GATHER } = FunctionId;
const GATHERING = { step: "enter", address: "memory://intruder", generation: 0 };

/** An honest worker in one generation with the intruder, which has a link to it. */
class CollectiveGroup {
  readonly cluster: TargetCluster;
  readonly collective: Collective;
  client: RawClient;

  private constructor(cluster: TargetCluster, collective: Collective, client: RawClient) {
    this.cluster = cluster;
    this.collective = collective;
    this.client = client;
  }

  static async form(): Promise<CollectiveGroup> {
    const cluster = await TargetCluster.start(simulatedWorld(), { meshAddress: MESH });
    const opening = Collective.open(meshOf(cluster.worker));
    const scheduler = await cluster.intrude(cluster.world.schedulerAddress);
    const entered = scheduler.ask({ functionId: GATHER }, encodeJson(GATHERING));
    const [collective, reply] = await cluster.world.run(Promise.all([opening, entered]));
    assert.equal(reply?.header.kind, Kind.REPLY);
    assert.deepEqual(collective.members, [0, 1]);
    return new CollectiveGroup(cluster, collective, await cluster.intrude(MESH));
  }

  part(fields: HeaderFields): HeaderFields {
    return { functionId: COLLECTIVE, flags: CollectiveKind.ALL_REDUCE, arg0: this.collective.generation, arg1: 1, ...fields };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster.close();
  }
}

/** How a call of the honest worker ended: well, or with this code. */
function outcomeOf(call: Promise<unknown>): Promise<ErrorCode | "well"> {
  return call.then(
    () => "well",
    (thrown: unknown) => {
      assert.ok(isWeighbridgeError(thrown), String(thrown));
      return thrown.code;
    },
  );
}

type PartCase = Refusal & { readonly honest: ErrorCode };
const floats = (count: number): Uint8Array => new Uint8Array(4 * count);

/** Against an all-reduce of 4 floats, which is the first operation. */
const SMALL_CASES: readonly PartCase[] = [
  {
    name: "too few bytes",
    fields: { arg2: 4 },
    payload: floats(3),
    code: "BAD_REQUEST",
    says: /part 0 of 12 bytes/,
    honest: "BAD_REQUEST",
  },
  {
    name: "too many bytes",
    fields: { arg2: 4 },
    payload: floats(5),
    code: "BAD_REQUEST",
    says: /part 0 of 20 bytes/,
    honest: "BAD_REQUEST",
  },
  { name: "half a float", fields: { arg2: 4 }, payload: new Uint8Array(14), code: "BAD_REQUEST", says: /14 bytes/, honest: "BAD_REQUEST" },
  { name: "nothing", fields: { arg2: 4 }, code: "BAD_REQUEST", says: /part 0 of 0 bytes/, honest: "BAD_REQUEST" },
  {
    name: "a part from the middle",
    fields: { arg2: 4, arg3: 7 },
    payload: floats(4),
    code: "BAD_REQUEST",
    says: /part 7/,
    honest: "BAD_REQUEST",
  },
  {
    name: "another length",
    fields: { arg2: 5 },
    payload: floats(5),
    code: "SPEC_MISMATCH",
    says: /5 floats at worker 1/,
    honest: "SPEC_MISMATCH",
  },
  {
    name: "a broadcast of nobody's",
    fields: { arg2: 4, flags: CollectiveKind.BROADCAST, command: 99 },
    payload: floats(4),
    ...{ code: "SPEC_MISMATCH", says: /a broadcast of 4 floats from worker 99/, honest: "SPEC_MISMATCH" },
  },
  {
    name: "no kind of operation",
    fields: { arg2: 4, flags: 77 },
    payload: floats(4),
    code: "SPEC_MISMATCH",
    says: /unknown kind \(77\)/,
    honest: "SPEC_MISMATCH",
  },
];

for (const { name, fields, honest, ...refusal } of SMALL_CASES) {
  test(`a part with ${name} ends the operation for both, with the reason`, async () => {
    await using group = await CollectiveGroup.form();
    const outcome = outcomeOf(group.collective.allReduce(new Float32Array(4)));
    await refused(group.cluster, group.client, { ...refusal, name, fields: group.part(fields) });
    assert.equal(await group.cluster.world.run(outcome), honest);
  });
}

test("parts of a ring of the wrong size, and exchanges of no size, end their operation", async () => {
  const ring = DIRECT_BYTES_MAX / 4 + 2;
  const cases: readonly (readonly [HeaderFields, Uint8Array, (collective: Collective) => Promise<unknown>])[] = [
    [{ arg2: ring }, floats(1), (own) => own.allReduce(new Float32Array(ring))],
    [{ flags: CollectiveKind.EXCHANGE, arg2: 2 ** 31 }, floats(4), (own) => own.exchange([floats(0), floats(0)])],
    [{ flags: CollectiveKind.EXCHANGE, arg2: 3 * PART_BYTES }, floats(4), (own) => own.exchange([floats(0), floats(0)])],
    [{ flags: CollectiveKind.BROADCAST, command: 1, arg2: 9 }, floats(8), (own) => own.broadcast(new Float32Array(9), 1)],
  ];
  for (const [fields, payload, call] of cases) {
    await using group = await CollectiveGroup.form();
    const outcome = outcomeOf(call(group.collective));
    const answer = await group.cluster.world.run(group.client.ask(group.part(fields), payload));
    // Else its link was cut, over which the caller's memory may be leaving.
    if (answer !== undefined) assert.equal(failureOf(answer).code, "BAD_REQUEST");
    assert.equal(await group.cluster.world.run(outcome), "BAD_REQUEST");
  }
});

test("parts of no generation, of operations far ahead, and ends that are none are refused, and harm no operation", async () => {
  await using group = await CollectiveGroup.form();
  const { cluster, client, collective } = group;
  const refusals: readonly (Omit<Refusal, "name"> & { readonly fields: HeaderFields })[] = [
    { fields: { arg0: 0 }, code: "NODE_DEAD", says: /generation 0 is not that of worker 0/ },
    { fields: { arg0: 2 ** 32 - 1 }, code: "NODE_DEAD", says: /is not that of worker 0/ },
    { fields: { arg1: 2 ** 20 }, code: "BAD_REQUEST", says: /too far ahead/ },
  ];
  for (const { fields, ...refusal } of refusals)
    await refused(cluster, client, { ...refusal, name: "", fields: group.part(fields), payload: floats(1) });
  const over = group.part({ flags: CollectiveKind.OVER });
  await refused(cluster, client, { name: "", fields: over, payload: new Uint8Array(5), code: "BAD_REQUEST", says: /not JSON/ });
  await refused(cluster, client, { name: "", fields: over, payload: encodeJson({ from: -1 }), code: "BAD_REQUEST", says: /from must be/ });
  const values = Float32Array.of(1, 2);
  const reduced = collective.allReduce(values);
  client.request(group.part({ arg2: 2 }), new Uint8Array(Float32Array.of(10, 20).buffer));
  await cluster.world.run(reduced);
  assert.deepEqual([...values], [11, 22]);
});

test("GATHER of the wrong shape, or of generations that cannot have been, is refused, and the group stays", async () => {
  await using group = await CollectiveGroup.form();
  const { cluster, collective } = group;
  const scheduler = await cluster.intrude(cluster.world.schedulerAddress);
  const bodies: readonly (readonly [unknown, RegExp])[] = [
    [{ ...GATHERING, step: "storm" }, /step must be one of/],
    [{ ...GATHERING, address: "x".repeat(100_000) }, /address must be/],
    [{ ...GATHERING, address: "" }, /workers that listen/],
    [{ ...GATHERING, generation: -1 }, /generation must be/],
    [{ ...GATHERING, generation: 2 ** 52 }, /cannot have been in generation/],
    [[], /must be an object/],
  ];
  for (const [body, says] of bodies)
    await refused(cluster, scheduler, { name: "", fields: { functionId: GATHER }, payload: encodeJson(body), code: "BAD_REQUEST", says });
  await refused(cluster, scheduler, {
    name: "",
    fields: { functionId: GATHER },
    payload: floats(2),
    code: "BAD_REQUEST",
    says: /not JSON/,
  });
  await cluster.settle();
  assert.equal(collective.failure, undefined);
});

test("a thousand parts of anything, from seeds, end no process and leave no call open", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    await using group = await CollectiveGroup.form();
    const { cluster, collective } = group;
    const outcomes: Promise<ErrorCode | "well">[] = [];
    for (let i = 0; i < 25; i++) {
      if (random.chance(0.3)) outcomes.push(outcomeOf(callAny(collective, random)));
      if (group.client.isClosed) group.client = await cluster.intrude(MESH);
      group.client.request(
        anyPart(collective.generation, random),
        Uint8Array.from({ length: 4 * random.below(5) + random.below(2) }, () => random.below(256)),
      );
      await cluster.settle();
    }
    await cluster.world.run(Promise.all([collective.close(), ...outcomes]));
    const [keys, values] = [BigUint64Array.of(5n), new Float32Array(1)];
    await cluster.world.run(cluster.kv.wait(cluster.kv.push(keys, Float32Array.of(3))));
    await cluster.world.run(cluster.kv.wait(cluster.kv.pull(keys, values)));
    assert.deepEqual([...values], [3], `seed ${seed}: the honest worker goes on with its server`);
  }
});

function callAny(collective: Collective, random: Random): Promise<unknown> {
  const calls = [
    () => collective.allReduce(new Float32Array(random.below(5))),
    () => collective.exchange([floats(1), floats(2)]),
    () => collective.broadcast(new Float32Array(2), random.below(2)),
  ];
  return (calls[random.below(calls.length)] as () => Promise<unknown>)();
}

/** Most of them nearly right. */
function anyPart(generation: number, random: Random): HeaderFields {
  const word = (likely: number): number =>
    random.chance(0.7) ? likely : ([0, 1, 2 ** 32 - 1, random.below(2 ** 32)][random.below(4)] as number);
  const flags = random.chance(0.9) ? 1 + random.below(4) : random.below(65_536);
  return {
    ...{ functionId: COLLECTIVE, flags, command: word(random.below(2)) },
    ...{ arg0: word(generation), arg1: word(1 + random.below(6)), arg2: word(random.below(5)), arg3: word(0) },
  };
}
