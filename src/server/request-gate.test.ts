// Goal: a server applies what was cut by its own placement and is its own, once, and refuses everything else whole,
// with what the caller needs to cut it again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import type { Contract } from "../contracts/contract.ts";
import { contract } from "../contracts/contract.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { rowsPull, rowsPush } from "../contracts/rows.ts";
import { Arena } from "../kernel/arena.ts";
import { partOf } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import { resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { StubCaller, type StubRequest } from "../testing/stub-caller.ts";
import { APP_CUT, type FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { KvFlag } from "../wire/kv-message.ts";
import type { PlacementView } from "../wire/roster.ts";
import { ArenaWatch } from "./arena-watch.ts";
import { RequestGate } from "./request-gate.ts";
import { Server } from "./server.ts";
import { serve } from "./server-context.ts";

function codeOf(thrown: unknown): string {
  return isWeighbridgeError(thrown) ? thrown.code : String(thrown);
}

const POLICIES = ["ring", "range"] as const;
const KEY_LAST = 2n ** 64n - 1n;
const TABLE = {
  ...{ kind: "table", name: "t", width: 1, versions: false, updates: "async", reduce: "sum" },
  ...{ initializer: resolveInitializer({ type: "constant" }), optimizer: resolveOptimizer({ type: "sum" }) },
};
const note = psFunction({ name: "note", request: { n: "u32" }, response: {}, handler: () => ({}) });

class GateStage {
  readonly clock = new SimClock();
  readonly server: Server;
  readonly requester: StubCaller;
  /** What came to the application: "push 0 stamp 3", "again 0". */
  readonly applied: string[] = [];

  /** Server 0 of two. */
  constructor({ epoch = 1, policy = "ring" }: Partial<PlacementView> = {}) {
    const { clock } = this;
    this.server = new Server({ arena: new Arena({ bytesMax: 2 ** 24 }), clock, workerCount: 1, functions: [note] });
    this.requester = new StubCaller(clock);
    this.server.serve({
      serveFrames: ({ id }, handler) => this.requester.serve(id, handler),
      hostFunctions: (host) => this.requester.serve(FunctionId.FUNCTION, host),
    });
    this.server.apps.add(0, {
      handle: (channel, header, bytes, at, fresh) => {
        const key = new DataView(bytes.buffer, bytes.byteOffset + at).getBigUint64(0, true);
        this.applied.push(`${fresh ? "fresh" : "again"} ${key}`);
        channel.acknowledge(header);
      },
    });
    if (epoch > 0) this.adopt({ epoch, policy });
  }

  adopt(change: Partial<PlacementView>): void {
    this.server.ownership.adopt({ epoch: 1, policy: "ring", servers: [0, 1], ...change }, 0);
  }

  async kv(keys: readonly bigint[], request: StubRequest = {}): Promise<string[]> {
    const payload = new Uint8Array(BigUint64Array.from(keys).buffer);
    await this.requester.request({ functionId: FunctionId.KV_PUSH, args: [keys.length], payload, ...request });
    return this.requester.answers();
  }

  async call<Q extends Fields>(fn: Contract<Q>, request: FieldValues<Q>, options: StubRequest = {}): Promise<string[]> {
    const { chunks, byteCount } = fn.request.encode(request);
    const payload = new Uint8Array(byteCount);
    let at = 0;
    for (const chunk of chunks) {
      payload.set(chunk, at);
      at += chunk.length;
    }
    const args = [fn.signatureHash, 1, 0, byteCount];
    await this.requester.request({
      functionId: FunctionId.FUNCTION,
      command: fn.nameHash,
      args,
      payload,
      ...(fn.isUpdate ? {} : { stamp: 0 }),
      ...options,
    });
    return this.requester.answers();
  }
}

test("kv: an own key of the same epoch is served, another's is WRONG_OWNER, an older epoch is WRONG_EPOCH, and neither is applied (RequestGate.G1)", async () => {
  const stage = new GateStage({ epoch: 2 });
  assert.deepEqual(await stage.kv([0n, 1n], { epoch: 2, stamp: 1 }), ["REPLY 1"]);
  assert.deepEqual(await stage.kv([KEY_LAST], { epoch: 2, stamp: 2 }), ["FAILURE 2 WRONG_OWNER"]);
  assert.deepEqual(await stage.kv([0n, KEY_LAST], { epoch: 2, stamp: 3 }), ["FAILURE 3 WRONG_OWNER"]);
  assert.deepEqual(await stage.kv([0n], { epoch: 1, stamp: 4 }), ["FAILURE 4 WRONG_EPOCH"]);
  assert.deepEqual(await stage.kv([0n], { epoch: 0, stamp: 5 }), ["FAILURE 5 WRONG_EPOCH"]);
  assert.deepEqual(stage.applied, ["fresh 0"]);
});

test("what was refused for its epoch was not counted: the vector clock stands where it stood (RequestGate.G1)", async () => {
  const stage = new GateStage({ epoch: 2 });
  await stage.kv([0n], { epoch: 2, stamp: 3 });
  await stage.kv([0n], { epoch: 1, stamp: 9 });
  assert.equal(stage.server.clock.at(stage.requester.channel.id)?.stamp, 3);
});

test("an update without a stamp is refused, of kv and of functions, before anything is applied or counted; a read needs none", async () => {
  const stage = new GateStage();
  const { parameters } = stage.server;
  parameters.create(JSON.stringify(TABLE), { number: 7, edition: 1 });
  parameters.pacer.join({ worker: 9, incarnation: 1 });
  const keys = BigUint64Array.of(BigInt([...Array(100).keys()].find((key) => stage.server.ownership.ownsKey(key, 0)) ?? -1));
  const push = { parameter: 7, clock: 0, pushNumber: 1, scale: 1, keys, gradients: Float32Array.of(1) };
  assert.deepEqual(await stage.kv([0n], { epoch: 1, stamp: 0 }), ["FAILURE 1 BAD_REQUEST"]);
  assert.deepEqual(await stage.kv([0n], { functionId: FunctionId.KV_PUSH_PULL, epoch: 1, stamp: 0 }), ["FAILURE 2 BAD_REQUEST"]);
  assert.deepEqual(await stage.kv([0n], { flags: APP_CUT, stamp: 0 }), ["FAILURE 3 BAD_REQUEST"]);
  assert.deepEqual(await stage.call(rowsPush, push, { epoch: 1, stamp: 0 }), ["FAILURE 4 BAD_REQUEST"]);
  assert.deepEqual(stage.applied, []);
  assert.equal(stage.server.clock.at(stage.requester.channel.id), undefined);
  assert.deepEqual(await stage.kv([0n], { functionId: FunctionId.KV_PULL, epoch: 1, stamp: 0 }), ["REPLY 5"]);
  assert.deepEqual(await stage.call(rowsPush, push, { epoch: 1, stamp: 1 }), ["REPLY 6"]);
});

test("what was applied before is answered again, whatever its epoch", async () => {
  const stage = new GateStage();
  await stage.kv([0n], { epoch: 1, stamp: 7 });
  stage.adopt({ epoch: 2 });
  assert.deepEqual(await stage.kv([0n], { epoch: 1, stamp: 7, request: 1 }), ["REPLY 1"]);
  assert.deepEqual(stage.applied, ["fresh 0", "again 0"]);
});

test("a server with a log takes note of updates that are refused here: behind a later one of its worker they would count as applied (LoggedRequests.I5)", async () => {
  const stage = new GateStage({ epoch: 2 });
  const { arena, clock, ownership, epochWait } = stage.server;
  const noted: string[] = [];
  const refusals = { refusedAtGate: (_: unknown, { stamp }: FrameHeader, thrown: unknown) => noted.push(`${stamp} ${codeOf(thrown)}`) };
  const state = { arena, clock, ownership, epochWait, watch: new ArenaWatch(arena, SILENT_LOG), refusals };
  stage.requester.serve(FunctionId.KV_PUSH, new RequestGate(stage.server.apps, state, stage.server.apps.served));
  await stage.kv([0n], { epoch: 2, stamp: 1 });
  await stage.kv([0n], { epoch: 1, stamp: 2 });
  await stage.kv([KEY_LAST], { epoch: 2, stamp: 3 });
  assert.deepEqual(noted, ["2 WRONG_EPOCH", "3 WRONG_OWNER"]);
});

test("the failure of an older epoch carries the placement that the server has", async () => {
  const stage = new GateStage();
  stage.adopt({ epoch: 5, policy: "range", moved: [3, 1] });
  await stage.requester.request({ functionId: FunctionId.KV_PULL, args: [1], payload: new Uint8Array(8), epoch: 4 });
  const [frame] = stage.requester.frames();
  assert.equal(frame?.header.kind, Kind.FAILURE);
  const { code, retryable, detail } = JSON.parse(new TextDecoder().decode(frame!.payload));
  assert.deepEqual([code, retryable, detail], ["WRONG_EPOCH", true, { epoch: 5, policy: "range", servers: [0, 1], moved: [3, 1] }]);
});

test("a request that the application cut itself is served by the server that it names, whatever its keys are, and is noted", async () => {
  const stage = new GateStage({ epoch: 3 });
  assert.equal(stage.server.ownership.hasAppCut, false);
  assert.deepEqual(await stage.kv([KEY_LAST], { epoch: 0, flags: APP_CUT, stamp: 1 }), ["REPLY 1"]);
  assert.deepEqual(stage.applied, [`fresh ${KEY_LAST}`]);
  assert.equal(stage.server.ownership.hasAppCut, true);
});

for (const policy of POLICIES) {
  test(`functions with ${policy}: rows are served by their owner alone, and what is about a server needs no epoch`, async () => {
    const stage = new GateStage({ epoch: 2, policy });
    const placement = placementOf({ epoch: 2, policy, servers: [0, 1] });
    const keysOf = (rank: number): BigUint64Array =>
      BigUint64Array.from([...Array(100).keys()].filter((key) => placement.ownerOf(partOf(key, 0)) === rank).map(BigInt));
    const { parameters } = stage.server;
    parameters.create(JSON.stringify(TABLE), { number: 7, edition: 1 });
    parameters.pacer.join({ worker: 9, incarnation: 1 });
    const pull = (rank: number, epoch: number): Promise<string[]> =>
      stage.call(rowsPull, { parameter: 7, clock: 0, keys: keysOf(rank) }, { epoch });
    assert.deepEqual(await pull(0, 2), ["REPLY 1"]);
    assert.deepEqual(await pull(1, 2), ["FAILURE 2 WRONG_OWNER"]);
    assert.deepEqual(await pull(0, 1), ["FAILURE 3 WRONG_EPOCH"]);
    assert.deepEqual(await pull(0, 0), ["FAILURE 4 WRONG_EPOCH"], "a request about parts names a placement");
    assert.deepEqual(await stage.call(note, { n: 1 }, { epoch: 0, stamp: 1 }), ["REPLY 5"]);
    assert.deepEqual(await stage.call(note, { n: 1 }, { epoch: 1, stamp: 2 }), ["FAILURE 6 WRONG_EPOCH"]);
    const push = { parameter: 7, clock: 0, scale: 1, pushNumber: 1, keys: keysOf(1), gradients: new Float32Array(keysOf(1).length) };
    assert.deepEqual(await stage.call(rowsPush, push, { epoch: 2, stamp: 3 }), ["FAILURE 7 WRONG_OWNER"]);
    assert.equal(parameters.table(7).store.rowCount, 0);
  });
}

test("a request of a newer epoch waits until the placement is there, those behind it wait too, and their order stays (EpochWait.W1, RequestGate.G2)", async () => {
  const stage = new GateStage();
  let askCount = 0;
  stage.server.epochWait.requestPlacement = async () => void askCount++;
  assert.deepEqual(await stage.kv([1n], { epoch: 2, stamp: 1 }), []);
  assert.equal(stage.requester.link.isPaused, true, "nothing more of the link is read");
  assert.deepEqual(await stage.kv([2n], { epoch: 1, stamp: 2 }), []);
  assert.deepEqual(await stage.kv([3n], { epoch: 0, flags: APP_CUT, stamp: 3 }), []);
  assert.deepEqual(await stage.kv([1n], { epoch: 2, stamp: 1, request: 1 }), [], "the same request again is no second one");
  assert.ok(askCount > 0, "the scheduler is asked");
  stage.adopt({ epoch: 2 });
  await stage.clock.advance(0);
  assert.deepEqual(stage.requester.answers(), ["REPLY 1", "FAILURE 2 WRONG_EPOCH", "REPLY 3"]);
  assert.deepEqual(stage.applied, ["fresh 1", "fresh 3"]);
  assert.equal(stage.requester.link.isPaused, false);
  assert.deepEqual(await stage.kv([4n], { epoch: 2, stamp: 4 }), ["REPLY 4"]);
});

test("an epoch that the scheduler does not know in time is refused, and the link goes on (EpochWait.W2)", async () => {
  const stage = new GateStage();
  assert.deepEqual(await stage.kv([1n], { epoch: 9, stamp: 1 }), []);
  await stage.clock.advance(11_000);
  assert.deepEqual(stage.requester.answers(), ["FAILURE 1 WRONG_EPOCH"]);
  assert.deepEqual(stage.applied, []);
  assert.equal(stage.requester.link.isPaused, false);
  assert.deepEqual(await stage.kv([2n], { epoch: 1, stamp: 2 }), ["REPLY 2"]);
});

test("requests that wait are not lost with their link: they are answered on the next one", async () => {
  const stage = new GateStage();
  const { channel, link } = stage.requester;
  await stage.kv([1n], { epoch: 2, stamp: 1 });
  channel.detach(link);
  channel.attach(link);
  assert.deepEqual(await stage.kv([1n], { epoch: 2, stamp: 1, request: 1 }), [], "sent again on the new link");
  stage.adopt({ epoch: 2 });
  await stage.clock.advance(0);
  assert.deepEqual(stage.requester.answers(), ["REPLY 1"]);
  assert.deepEqual(stage.applied, ["fresh 1"]);
});

test("a request that makes no sense is the application's to refuse, not the gate's", async () => {
  const stage = new GateStage();
  assert.deepEqual(await stage.kv([KEY_LAST], { epoch: 1, stamp: 1, args: [2 ** 32 - 1] }), ["REPLY 1"], "this application takes anything");
});

test("an update that was applied and is asked again after a part has left is not answered from what is there now, unless its answer tells of no part (FunctionHost.H6)", async () => {
  for (const answersParts of [true, false]) {
    const stage = new GateStage({ policy: "range" });
    const shape = { request: { keys: "u64[]" }, response: { n: "u32" }, answersAgain: true, answersParts } as const;
    const about = contract({ name: "about", target: "part", effect: "update", ...shape });
    const handler = (): { n: number } => ({ n: 1 });
    stage.server.functions.add(serve(about, { handler, again: handler }));
    const keys = new BigUint64Array(0);
    assert.deepEqual(await stage.call(about, { keys }, { epoch: 1, stamp: 1 }), ["REPLY 1"]);
    const { channel, link } = stage.requester;
    channel.detach(link);
    stage.adopt({ epoch: 2, policy: "range", servers: [1] });
    channel.attach(link);
    const [answer] = await stage.call(about, { keys }, { epoch: 1, stamp: 1, request: 1 });
    assert.equal(answer, answersParts ? "FAILURE 1 ANSWER_LOST" : "REPLY 1");
  }
});

test("a read that waited is refused when a part has left meanwhile, an update's answer is lost, and both are answered when none has (FunctionHost.H6)", async () => {
  for (const loses of [true, false])
    for (const effect of ["read", "update"] as const) {
      const stage = new GateStage({ policy: "range" });
      const parked = new Deferred<Record<never, never>>();
      const about = contract({
        name: "about",
        target: "part",
        effect,
        request: { keys: "u64[]" },
        response: { n: "u32" },
        answersAgain: effect === "update",
      });
      const handler = async (): Promise<{ n: number }> => {
        await parked.promise;
        return { n: 1 };
      };
      stage.server.functions.add(serve(about, effect === "update" ? { handler, again: handler } : { handler }));
      assert.deepEqual(await stage.call(about, { keys: new BigUint64Array(0) }, { epoch: 1, stamp: effect === "update" ? 1 : 0 }), []);
      stage.adopt({ epoch: 2, policy: "range", servers: loses ? [1] : [0, 1] });
      parked.resolve({});
      await stage.clock.advance(0);
      const refusal = effect === "update" ? "FAILURE 1 ANSWER_LOST" : "FAILURE 1 WRONG_EPOCH";
      assert.deepEqual(stage.requester.answers(), [loses ? refusal : "REPLY 1"]);
    }
});

test("what came of a request in several frames goes when its last one is refused: of a function, and of a kv request that is served whole (RequestGate.G3)", async () => {
  const stage = new GateStage();
  const { server, requester } = stage;
  const frame = async (from: number, flags: number): Promise<string[]> => {
    const args = [note.signatureHash, 1, from, 2 * 65_536];
    const at = { functionId: FunctionId.FUNCTION, command: note.nameHash, args, flags, epoch: 1 };
    await requester.request({ ...at, payload: new Uint8Array(65_536) });
    return requester.answers();
  };
  server.openKv(1).serveWhole(() => assert.fail("it never comes whole"));
  const before = server.arena.usedBytes;
  assert.deepEqual(await frame(0, FunctionFlag.PART), ["REPLY 1"]);
  assert.ok(server.arena.usedBytes >= before + 2 * 65_536);
  const pull = (flags: number): Promise<string[]> =>
    stage.kv([0n], { functionId: FunctionId.KV_PULL, app: 1, epoch: 1, flags, args: [1, 1, 0, 7] });
  assert.deepEqual(await pull(KvFlag.FIRST), ["REPLY 2"]);
  assert.ok(server.unfinishedRequests.bytes > 0);
  stage.adopt({ epoch: 2 });
  assert.deepEqual(await frame(65_536, 0), ["FAILURE 3 WRONG_EPOCH"]);
  assert.equal(server.arena.usedBytes, before);
  assert.deepEqual(await pull(KvFlag.LAST), ["FAILURE 4 WRONG_EPOCH"]);
  assert.equal(server.unfinishedRequests.bytes, 0);
});

test("a kv push that waited for its application is refused when the placement has changed meanwhile, unless the application cut it", async () => {
  const stage = new GateStage();
  const { server, requester, clock } = stage;
  const applied: number[] = [];
  const app = (request: StubRequest): Promise<string[]> => stage.kv([0n], { app: 3, ...request });
  assert.deepEqual(await app({ epoch: 1, stamp: 1 }), []);
  assert.deepEqual(await app({ epoch: 0, flags: APP_CUT, stamp: 2 }), []);
  stage.adopt({ epoch: 2 });
  assert.deepEqual(await app({ epoch: 2, stamp: 3 }), []);
  server.apps.add(3, {
    handle: (channel, header) => {
      applied.push(header.stamp);
      channel.acknowledge(header);
    },
  });
  await clock.run();
  assert.deepEqual(requester.answers(), ["FAILURE 1 WRONG_EPOCH", "REPLY 2", "REPLY 3"]);
  assert.deepEqual(applied, [2, 3]);
  assert.deepEqual(await app({ epoch: 1, stamp: 1, request: 1 }), ["FAILURE 1 WRONG_EPOCH"], "asked again, it is refused again");
  assert.deepEqual(applied, [2, 3]);
});
