// Goal: a link goes on in memory, or stays a socket and loses nothing; what a hostile peer does to the memory ends its
// link alone; and no link leaves anything behind. (What every link does: test/conformance/transport.test.ts.)

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { SharedTransport } from "../../../test/conformance/shared-transport.ts";
import { connectPair, Recorder, randomBytes, type TransportBench } from "../../../test/conformance/transport-bench.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { Random } from "../../base/random.ts";
import type { Link, LinkReader } from "../../transport/transport.ts";
import { realClock } from "../real-clock.ts";
import { DATA_BYTES, PAGE_BYTES, RingControl, RingWriter, SLOTS } from "./byte-ring.ts";
import { SharedLink } from "./shared-link.ts";
import { type SharedMemory, type SharedMemorySystem, sharedMemory } from "./shared-memory.ts";
import { SocketTransport } from "./socket-transport.ts";
import { wakefulLoop } from "./wakeful-loop.ts";

const system = await sharedMemory({ log: SILENT_LOG });
const skip = system === undefined ? "this system shares no memory" : false;
const ADDRESS = "tcp://127.0.0.1:0";

type Noting = { readonly made: SharedMemory[]; readonly noted: SharedMemorySystem };

/** Notes the memory that is made. `ring` gets each bell before it leaves, and lets it leave. */
function noting(ring: (leave: () => void) => void = (leave) => leave()): Noting {
  const made: SharedMemory[] = [];
  const create: SharedMemorySystem["create"] = (byteCount) => {
    const memory = system!.create(byteCount);
    made.push(memory);
    return memory;
  };
  const noted: SharedMemorySystem = {
    ...{ host: system!.host, log: SILENT_LOG, create },
    open: (...given) => system!.open(...given),
    link(options): SharedLink {
      const { socket } = options;
      const write = socket.write.bind(socket);
      socket.write = (chunks, flushed) => (chunks[0]?.length === 1 ? ring(() => write(chunks, flushed)) : write(chunks, flushed));
      return new SharedLink({ ...options, system: noted });
    },
  };
  return { made, noted };
}

function benchOver(memories: SharedMemorySystem): TransportBench {
  const inner = new SocketTransport({ clock: realClock(), sharedMemory: memories, loop: wakefulLoop(realClock()) });
  const transport = new SharedTransport(inner);
  return { listening: transport, connecting: transport, freeAddress: () => ADDRESS, drive: (body) => body };
}

function leftovers(): string[] {
  const maps = readFileSync("/proc/self/maps", "latin1").split("\n");
  return maps.filter((line) => line.includes("memfd:weighbridge"));
}

/** Both ends go on in memory. */
function share(near: Link, far: Link): void {
  const offer = far.upgrade!.offer()!;
  far.upgrade!.hold();
  const proof = near.upgrade!.take(offer)!;
  near.upgrade!.begin();
  far.upgrade!.settle(proof);
}

/** Two sockets that can be upgraded, and have not been. */
async function upgradablePair(context: TestContext, memories = system!): Promise<{ near: Link; far: Link; ends: Recorder[] }> {
  const transport = new SocketTransport({ clock: realClock(), sharedMemory: memories });
  const ends = [new Recorder(), new Recorder()];
  const accepted = Promise.withResolvers<Link>();
  const take = (end: Recorder, link: Link): LinkReader => {
    end.take(link);
    return end;
  };
  const listener = await transport.listen(ADDRESS, (link) => {
    accepted.resolve(link);
    return take(ends[1] as Recorder, link);
  });
  const near = await transport.connect(listener.address, (link) => take(ends[0] as Recorder, link), { timeoutMs: 5000 });
  const far = await accepted.promise;
  context.after(async () => {
    near.destroy();
    far.destroy();
    await listener.close();
  });
  return { near, far, ends };
}

test("a dialer that cannot take the memory leaves a socket, over which everything that was held comes, in order", {
  skip,
}, async (context) => {
  const before = leftovers();
  const { near, far, ends } = await upgradablePair(context);
  const [nearEnd] = ends as [Recorder, Recorder];
  const parts: Uint8Array[] = [];
  nearEnd.onReceived = (bytes) => parts.push(bytes.slice());
  const offer = far.upgrade!.offer()!;
  far.write([randomBytes(100, 1)], () => {});
  far.upgrade!.hold();
  far.write([randomBytes(100, 2)], () => {});
  far.write([randomBytes(100_000, 3)], () => {});
  await nearEnd.until(100);
  for (const wrong of [
    { ...offer, byteCount: 4096 },
    { ...offer, nonce: "0".repeat(64) },
    { ...offer, path: "/proc/1/fd/1" },
  ])
    assert.equal(near.upgrade!.take(wrong), undefined);
  far.upgrade!.settle(undefined);
  far.write([randomBytes(50, 4)], () => {});
  await nearEnd.until(100_250);
  assert.deepEqual(
    Buffer.concat(parts),
    Buffer.concat([randomBytes(100, 1), randomBytes(100, 2), randomBytes(100_000, 3), randomBytes(50, 4)]),
  );
  assert.equal(near.upgrade!.isShared || far.upgrade!.isShared, false);
  assert.deepEqual(leftovers(), before);
});

test("a link that is closed while its offer is open sends what was held", { skip }, async (context) => {
  const { far, ends } = await upgradablePair(context);
  const [nearEnd] = ends as [Recorder, Recorder];
  far.upgrade!.offer();
  far.upgrade!.hold();
  far.write([randomBytes(1000, 1)], () => {});
  far.close();
  await nearEnd.untilClosed();
  assert.equal(nearEnd.byteCount, 1000);
});

test("a proof that is not in the memory is refused, and so is an answer to no offer", { skip }, async (context) => {
  const { far } = await upgradablePair(context);
  const isBad = (thrown: unknown): boolean => isWeighbridgeError(thrown, "BAD_FRAME");
  assert.throws(() => far.upgrade!.settle(undefined), isBad);
  assert.throws(() => far.upgrade!.settle("0".repeat(64)), isBad);
  far.upgrade!.offer();
  far.upgrade!.hold();
  assert.throws(() => far.upgrade!.settle("1".repeat(64)), isBad);
  assert.throws(() => far.upgrade!.settle("no digest"), isBad);
});

test("a peer that writes garbage into the ring ends its link, and nothing else (SharedLink.S4)", { skip }, async () => {
  const { made, noted } = noting();
  const bench = benchOver(noted);
  const healthy = await connectPair(bench);
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const pair = await connectPair(bench);
    const words = new Int32Array(made.at(-1)!.buffer);
    // the words of both directions, and the first slots: tails, heads and pieces that cannot be
    for (const direction of [128, 256]) for (const word of [0, 32]) words[direction + word] = (1000 + random.below(2 ** 31)) | 0;
    for (let slot = 0; slot < 2 * SLOTS; slot++) words[PAGE_BYTES / 4 + slot] = random.below(2 ** 32) | 0;
    pair.nearLink.write([randomBytes(100, seed)], () => {});
    pair.farLink.write([randomBytes(100, seed)], () => {});
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
    const causes = [pair.near.cause, pair.far.cause].filter((cause) => cause instanceof WeighbridgeError);
    assert.ok(causes.length > 0 && causes.every(({ code }) => code === "BAD_FRAME"), `seed ${seed}`);
    await pair.listener.close();
  }
  healthy.nearLink.write([randomBytes(1000, 1)], () => {});
  await healthy.far.until(1000);
  healthy.nearLink.close();
  await Promise.all([healthy.near.untilClosed(), healthy.far.untilClosed(), healthy.listener.close()]);
});

test("a link that goes on in memory between two reads is woken by the next bell, and takes no bell for a frame", {
  skip,
}, async (context) => {
  const { near, far, ends } = await upgradablePair(context);
  const [, farEnd] = ends as [Recorder, Recorder];
  near.write([randomBytes(200, 1)], () => {});
  await farEnd.until(200);
  share(near, far); // not from inside a read: its channel had paused
  for (let round = 1; round <= 10; round++) {
    for (let turn = 0; turn < 5; turn++) await setImmediate(); // far sleeps
    near.write([randomBytes(100, round)], () => {});
    await farEnd.until(200 + 100 * round);
  }
  assert.equal(near.upgrade!.isShared && far.upgrade!.isShared, true);
});

test("who sleeps is rung once for a write, when all chunks of it are there (SharedLink.S6)", { skip }, async (context) => {
  let bellCount = 0;
  const { made, noted } = noting((leave) => {
    bellCount++;
    leave();
    new RingControl(made[0]!.buffer, 1).isAwake = false; // on another core near takes what is there, and sleeps again
  });
  const { near, far, ends } = await upgradablePair(context, noted);
  const [nearEnd] = ends as [Recorder, Recorder];
  share(near, far);
  for (let turn = 0; turn < 5; turn++) await setImmediate(); // both sleep
  const chunks = Array.from({ length: 5 }, (_, i) => randomBytes(1000, i));
  far.write(chunks, () => {});
  assert.equal(bellCount, 1);
  await nearEnd.until(5000);
  assert.equal(nearEnd.crc, crc32(Buffer.concat(chunks)));
  assert.equal(bellCount, 1);
});

test("who sleeps is rung for what it had to make room for, also while the other side closes (SharedLink.S6)", { skip }, async (context) => {
  // The turns of another process come when they like: near is asleep again when far hears that there is room.
  const { noted } = noting(async (leave) => {
    for (let turn = 0; turn < 5; turn++) await setImmediate();
    leave();
  });
  const { near, far, ends } = await upgradablePair(context, noted);
  const [, farEnd] = ends as [Recorder, Recorder];
  share(near, far);
  const bytes = randomBytes(4 * DATA_BYTES, 1);
  near.write([bytes], () => {});
  near.close();
  await farEnd.untilClosed();
  assert.equal(farEnd.crc, crc32(bytes));
});

test("a peer that goes on writing when its socket has ended is read to the end of a ring, and no further (SharedLink.S2)", {
  skip,
}, async () => {
  const { made, noted } = noting();
  const pair = await connectPair(benchOver(noted));
  const writer = new RingWriter({ buffer: made[0]!.buffer, copyIn: () => {}, copyOut: () => {} }, 1);
  const piece = new Uint8Array(60_000);
  let written = 0;
  pair.far.onReceived = () => (written += writer.write(piece, 0)); // as a peer on another core does
  pair.farLink.pause();
  written += writer.write(piece, 0);
  pair.nearLink.close();
  await pair.near.untilClosed();
  pair.farLink.resume();
  await pair.far.untilClosed();
  assert.ok(pair.far.byteCount >= DATA_BYTES && pair.far.byteCount < 2 * DATA_BYTES, `${pair.far.byteCount} of ${written}`);
  await pair.listener.close();
});

test("a byte on the socket that is no bell ends the link", { skip }, async (context) => {
  const { near, far, ends } = await upgradablePair(context);
  const [, farEnd] = ends as [Recorder, Recorder];
  const offer = far.upgrade!.offer()!;
  far.upgrade!.hold();
  const proof = near.upgrade!.take(offer)!;
  far.upgrade!.settle(proof);
  near.write([Uint8Array.of(1, 2, 3)], () => {}); // near has not begun: it still writes to the socket
  await farEnd.untilClosed();
  assert.ok(isWeighbridgeError(farEnd.cause, "BAD_FRAME"));
});

test("links leave no descriptor and no mapping behind, however they end", { skip }, async () => {
  while (leftovers().length > 0) await setImmediate(); // of the tests before
  const before = [readdirSync("/proc/self/fd").length, leftovers()];
  const bench = benchOver(system!);
  for (const end of ["close", "destroy"] as const) {
    const pairs = await Promise.all(Array.from({ length: 5 }, () => connectPair(bench)));
    assert.equal(leftovers().length, 10);
    for (const { nearLink, far } of pairs) {
      nearLink.write([randomBytes(10_000, 1)], () => {});
      await far.until(10_000);
    }
    for (const { nearLink } of pairs) nearLink[end]();
    await Promise.all(pairs.flatMap(({ near, far, listener }) => [near.untilClosed(), far.untilClosed(), listener.close()]));
  }
  assert.deepEqual([readdirSync("/proc/self/fd").length, leftovers()], before);
});
