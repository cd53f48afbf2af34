// server — Goal: whatever comes twice, late or in pieces, a handler runs as often as it may, every call gets its own
// answer, and no memory is kept longer than the answer needs it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../base/bytes.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { VectorClock } from "../consistency/vector-clock.ts";
import { type Contract, contract } from "../contracts/contract.ts";
import { type PsFunction, psFunction } from "../contracts/ps-function.ts";
import { Arena } from "../kernel/arena.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { StubCaller } from "../testing/stub-caller.ts";
import type { StubFrame } from "../testing/stub-link.ts";
import { BLOCK_BYTES, Kind } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { CheckpointService } from "./checkpoint/checkpoint-service.ts";
import { PartsDeparture } from "./copy/parts-departure.ts";
import { Ownership } from "./ownership.ts";
import { Parameters } from "./parameters/parameters.ts";
import { WorkerGroups } from "./parameters/worker-groups.ts";
import { PlacementPrepare } from "./placement-prepare.ts";
import { type ServerFunctions, serverFunctions } from "./server.ts";
import { serve } from "./server-context.ts";
import { WorkerCalls } from "./worker-calls.ts";

type Frame = { readonly command: number; readonly flags: number; readonly args: number[]; readonly payload: Uint8Array };

class Stage {
  readonly clock = new SimClock();
  readonly requester: StubCaller;
  readonly arena = new Arena({ bytesMax: 2 ** 25 });
  readonly host: ServerFunctions;

  constructor(functions: readonly PsFunction[], { isRestored = false } = {}) {
    const { arena, clock } = this;
    const kernels = new SimdKernels(arena);
    const parameters = new Parameters({ arena, kernels, clock, workerCount: 1, secret: 1n });
    const ownership = new Ownership(arena);
    const checkpoints = new CheckpointService({
      parameters,
      vectorClock: new VectorClock(),
      ownership,
      placement: new PlacementPrepare(ownership, clock),
      files: undefined,
      log: SILENT_LOG,
      clock,
    });
    const groups = new WorkerGroups(clock, 1);
    this.host = serverFunctions(
      {
        arena,
        kernels,
        parameters,
        groups,
        checkpoints,
        ownership,
        departure: new PartsDeparture({ ownership, parameters: () => parameters, groups: () => groups, clock }),
        workers: new WorkerCalls(),
      },
      clock,
    );
    for (const fn of functions) this.host.add(fn);
    this.requester = new StubCaller(clock);
    this.requester.serve(FunctionId.FUNCTION, {
      destination: (channel, header) => this.host.destination(channel, header),
      // After a restore nothing is fresh, and nothing is remembered.
      handle: (channel, header, bytes, at, fresh) => this.host.handle(channel, header, bytes, at, fresh && !isRestored),
    });
  }

  /** A frame arrives; returns what was answered to it: "REPLY 1", and values if there are any. */
  async ask(frame: Frame, request?: number): Promise<string[]> {
    await this.requester.request(request === undefined ? frame : { ...frame, request });
    return this.requester.frames().map(told);
  }
}

function told({ header, payload }: StubFrame): string {
  if (header.kind === Kind.FAILURE)
    return `FAILURE ${header.request} ${(JSON.parse(new TextDecoder().decode(payload)) as { code: string }).code}`;
  const values =
    payload.length === 8 ? ` ${new Float64Array(payload.slice().buffer)[0]}` : payload.length > 0 ? ` ${payload.length} bytes` : "";
  return `REPLY ${header.request}${values}`;
}

/** The frames of a request, cut every `cutBytes`. */
function framesOf<Q extends Fields, R extends Fields>(
  fn: Contract<Q, R>,
  request: FieldValues<Q>,
  cutBytes = Infinity,
  number = 1,
): Frame[] {
  const { chunks, byteCount } = fn.request.encode(request);
  const whole = joinBytes(chunks);
  const frames: Frame[] = [];
  for (let from = 0; from === 0 || from < byteCount; from += cutBytes) {
    const to = Math.min(byteCount, from + cutBytes);
    const flags = to < byteCount ? FunctionFlag.PART : 0;
    frames.push({ command: fn.nameHash, flags, args: [fn.signatureHash, number, from, byteCount], payload: whole.slice(from, to) });
  }
  return frames;
}

function only(frames: readonly Frame[]): Frame {
  const [frame] = frames;
  assert.ok(frame !== undefined && frames.length === 1);
  return frame;
}

/** Counts how often it ran, in its answers as well. */
function counter(options: { readonly reads?: boolean; readonly isSilent?: boolean; readonly again?: boolean } = {}) {
  const runs = { handled: 0, again: 0 };
  const request = { values: "f32[]", step: "f64" } as const;
  const answer = (): { count: number } => ({ count: runs.handled });
  const again = (): { count: number } => {
    runs.again++;
    return answer();
  };
  const fn = psFunction({
    name: "count",
    request,
    response: { count: "f64" },
    ...(options.reads === true ? { reads: true } : {}),
    ...(options.again === true ? { again } : {}),
    handler: (_context, { step }) => {
      runs.handled += step;
      return answer();
    },
  });
  const silent = psFunction({
    name: "count",
    request,
    response: {},
    handler: (_context, { step }) => {
      runs.handled += step;
      return {};
    },
  });
  return { fn: (options.isSilent === true ? silent : fn) as unknown as PsFunction<typeof request, Fields>, runs };
}
const ONE = { values: new Float32Array(2), step: 1 };
const any = (fn: unknown): PsFunction => fn as PsFunction;

test("an update runs once; whoever asks again gets the answer of then (FunctionHost.H1)", async () => {
  const { fn, runs } = counter();
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, ONE));
  assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1 1"]);
  assert.deepEqual(await stage.ask(frame, 2), ["REPLY 2 2"]);
  assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1 1"], "not 2");
  assert.equal(runs.handled, 2);
});

test("an update without a response is acknowledged again, not run again (FunctionHost.H1)", async () => {
  const { fn, runs } = counter({ isSilent: true });
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, ONE));
  for (let i = 0; i < 3; i++) assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1"]);
  assert.equal(runs.handled, 1);
});

test("an update that can answer again does so without a second run (FunctionHost.H1)", async () => {
  const { fn, runs } = counter({ again: true });
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, ONE));
  await stage.ask(frame, 1);
  assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1 1"]);
  assert.deepEqual(runs, { handled: 1, again: 1 });
});

test("a read runs again", async () => {
  const { fn, runs } = counter({ reads: true });
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, ONE));
  await stage.ask(frame, 1);
  assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1 2"]);
  assert.equal(runs.handled, 2);
});

test("a restored server acknowledges updates that it has, makes answers again where it can, and says where it cannot (FunctionHost.H1)", async () => {
  for (const [options, expected] of [
    [{}, "FAILURE 1 ANSWER_LOST"],
    [{ isSilent: true }, "REPLY 1"],
    [{ again: true }, "REPLY 1 0"],
    [{ reads: true }, "REPLY 1 1"],
  ] as const) {
    const { fn } = counter(options);
    const stage = new Stage([any(fn)], { isRestored: true });
    assert.deepEqual(await stage.ask(only(framesOf(fn, ONE)), 1), [expected]);
  }
});

test("what a handler throws, now or later, and a response that does not fit fail that one call, and the same again when it is asked again (FunctionHost.H2)", async () => {
  let runs = 0;
  const failures: Record<string, () => { n: number } | Promise<{ n: number }>> = {
    throws: () => {
      throw new Error("no");
    },
    refuses: () => {
      throw new WeighbridgeError("OUT_OF_RANGE", "row 9");
    },
    rejects: async () => await Promise.reject(new WeighbridgeError("VALUE_LENGTH", "2 of 3")),
    "answers nonsense": () => ({ n: 0.5 }),
    "answers nonsense later": async () => await Promise.resolve({ n: -1 }),
  };
  const codes = ["HANDLER_FAILED", "OUT_OF_RANGE", "VALUE_LENGTH", "HANDLER_FAILED", "HANDLER_FAILED"];
  for (const [i, [name, run]] of Object.entries(failures).entries()) {
    runs = 0;
    const handler = (): { n: number } | Promise<{ n: number }> => {
      runs++;
      return run();
    };
    const fn = psFunction({ name: "fail", request: {}, response: { n: "u32" }, handler });
    const stage = new Stage([any(fn)]);
    const frame = only(framesOf(fn, {}));
    assert.deepEqual(await stage.ask(frame, 1), [`FAILURE 1 ${codes[i]}`], name);
    assert.deepEqual(await stage.ask(frame, 1), [`FAILURE 1 ${codes[i]}`], `${name} again`);
    assert.equal(runs, 1, name);
  }
});

test("a call that waits is not run again by its duplicates, and answers once", async () => {
  const gate = Promise.withResolvers<{ n: number }>();
  let runs = 0;
  const handler = async (): Promise<{ n: number }> => {
    runs++;
    return await gate.promise;
  };
  const fn = psFunction({ name: "wait", request: {}, response: { n: "f64" }, handler });
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, {}));
  assert.deepEqual(await stage.ask(frame, 1), []);
  assert.deepEqual(await stage.ask(frame, 1), []);
  assert.equal(stage.requester.channel.parkedCount, 1);
  gate.resolve({ n: 4 });
  await stage.clock.advance(0);
  assert.deepEqual(stage.requester.frames().map(told), ["REPLY 1 4"]);
  assert.deepEqual(await stage.ask(frame, 1), ["REPLY 1 4"]);
  assert.deepEqual([runs, stage.requester.channel.parkedCount], [1, 0]);
});

/** Answers with memory of the arena that is held. */
function holder(stage: () => Stage, byteCount: number) {
  const released: number[] = [];
  const hold = contract({ name: "hold", target: "server", effect: "read", request: {}, response: { bytes: "u8[]" } });
  const fn = serve(hold, {
    inPlace: true,
    handler: (_, __, call) => {
      const address = stage().arena.allocate(byteCount);
      call.hold({
        release: () => {
          released.push(address);
          stage().arena.release(address, byteCount);
        },
      });
      return { bytes: stage().arena.bytes.subarray(address, address + byteCount) };
    },
  });
  return { fn, released };
}

test("what an answer lies in is held until its last frame has left, and let go once (FunctionHost.H3)", async () => {
  for (const [byteCount, frameCount] of [
    [100, 1],
    [BLOCK_BYTES, 1],
    [2 * BLOCK_BYTES + 8, 3],
  ] as const) {
    const { fn, released } = holder(() => stage, byteCount);
    const stage = new Stage([any(fn)]);
    const usedBytes = stage.arena.usedBytes;
    stage.requester.receive(only(framesOf(fn, {})));
    if (byteCount > 1000) assert.equal(released.length, 0, "nothing has left yet");
    await stage.clock.advance(0);
    assert.equal(stage.requester.frames().length, frameCount);
    await stage.clock.run();
    assert.equal(released.length, 1, `${byteCount} bytes`);
    assert.equal(stage.arena.usedBytes, usedBytes);
  }
});

test("what an answer lies in is let go when its link breaks, and when the handler throws after it took it (FunctionHost.H3)", async () => {
  const { fn, released } = holder(() => stage, 3 * BLOCK_BYTES);
  const stage = new Stage([any(fn)]);
  stage.requester.receive(only(framesOf(fn, {})));
  stage.requester.channel.detach(stage.requester.link);
  while (stage.requester.link.flush());
  await stage.clock.run();
  assert.equal(released.length, 1);
  let isReleased = false;
  const thrower = serve(contract({ name: "throw", target: "server", effect: "update", request: {}, response: {} }), {
    handler: (_, __, call) => {
      call.hold({
        release: () => {
          isReleased = true;
        },
      });
      throw new Error("no");
    },
  });
  const other = new Stage([any(thrower)]);
  await other.ask(only(framesOf(thrower, {})));
  assert.equal(isReleased, true);
});

test("a request of several frames runs once, when it is whole, with others in between; its memory is free again", async () => {
  const { fn, runs } = counter();
  const stage = new Stage([any(fn)]);
  const usedBytes = stage.arena.usedBytes;
  const large = { values: new Float32Array(1000), step: 1 };
  const one = framesOf(fn, large, 1024, 1);
  const two = framesOf(fn, { ...large, step: 10 }, 1024, 2);
  for (let i = 0; i < one.length - 1; i++) {
    assert.match((await stage.ask(one[i] as Frame))[0] ?? "", /^REPLY \d+$/);
    assert.match((await stage.ask(two[i] as Frame))[0] ?? "", /^REPLY \d+$/);
  }
  assert.equal(runs.handled, 0);
  assert.match((await stage.ask(two.at(-1) as Frame))[0] ?? "", / 10$/);
  assert.match((await stage.ask(one.at(-1) as Frame))[0] ?? "", / 11$/);
  assert.equal(stage.arena.usedBytes, usedBytes);
});

for (const options of [{}, { again: true }, { reads: true }, { isSilent: true }] as const) {
  test(`the last frame of a request in pieces that comes again gets the answer of then, whatever the function: ${JSON.stringify(options)} (FunctionHost.H4)`, async () => {
    const { fn, runs } = counter(options);
    const stage = new Stage([any(fn)]);
    const frames = framesOf(fn, { values: new Float32Array(1000), step: 1 }, 1024);
    for (const frame of frames.slice(0, -1)) await stage.ask(frame);
    const first = await stage.ask(frames.at(-1) as Frame, frames.length);
    assert.deepEqual(first, [`REPLY ${frames.length}${"isSilent" in options ? "" : " 1"}`]);
    assert.deepEqual(await stage.ask(frames[0] as Frame, 1), ["REPLY 1"], "a piece that comes again is acknowledged");
    assert.deepEqual(await stage.ask(frames.at(-1) as Frame, frames.length), first);
    assert.equal(runs.handled, 1);
  });
}

test("a request in pieces with a hole, or that never ends, is refused or forgotten with its worker", async () => {
  const { fn, runs } = counter();
  const stage = new Stage([any(fn)]);
  const usedBytes = stage.arena.usedBytes;
  const frames = framesOf(fn, { values: new Float32Array(1000), step: 1 }, 1024);
  await stage.ask(frames[0] as Frame);
  assert.match((await stage.ask(frames[2] as Frame))[0] ?? "", /BAD_REQUEST/);
  assert.match((await stage.ask(frames.at(-1) as Frame))[0] ?? "", /BAD_REQUEST/);
  assert.equal(stage.arena.usedBytes, usedBytes, "what was refused is forgotten");
  await stage.ask(frames[0] as Frame);
  assert.ok(stage.arena.usedBytes > usedBytes);
  stage.host.forgetNode(stage.requester.channel.id);
  assert.equal(stage.arena.usedBytes, usedBytes);
  assert.equal(runs.handled, 0);
});

test("a function that is not there, that is there twice, or that the caller knows differently", async () => {
  const { fn } = counter();
  const stage = new Stage([any(fn)]);
  assert.throws(() => stage.host.add(fn), /is there already/);
  const unknown = psFunction({ name: "unknown", request: {}, response: {}, handler: () => ({}) });
  assert.deepEqual(await stage.ask(only(framesOf(unknown, {}))), ["FAILURE 1 UNKNOWN_FUNCTION"]);
  const other = psFunction({ name: "count", request: {}, response: {}, handler: () => ({}) });
  assert.deepEqual(await stage.ask(only(framesOf(other, {}))), ["FAILURE 2 SPEC_MISMATCH"]);
});

test("a request whose bytes do not add up is refused before the handler sees it", async () => {
  const { fn, runs } = counter();
  const stage = new Stage([any(fn)]);
  const frame = only(framesOf(fn, ONE));
  const short = frame.payload.slice(0, 8);
  assert.deepEqual(await stage.ask({ ...frame, args: [fn.signatureHash, 1, 0, 8], payload: short }), ["FAILURE 1 BAD_REQUEST"]);
  assert.equal(runs.handled, 0);
});

test("an async handler that throws something without a text fails its call alone (FunctionHost.H2)", async () => {
  const fn = psFunction({
    name: "textless",
    request: {},
    response: { value: "f64" },
    handler: async () => {
      throw Object.create(null);
    },
  });
  const stage = new Stage([fn as unknown as PsFunction]);
  const frame = { command: fn.nameHash, flags: 0, args: [fn.signatureHash, 0, 0, 0], payload: new Uint8Array(0) };
  assert.deepEqual(await stage.ask(frame), ["FAILURE 1 HANDLER_FAILED"]);
  assert.deepEqual(await stage.ask(frame), ["FAILURE 2 HANDLER_FAILED"]);
});
