// transport-ends — how a link of every Transport ends: closed, destroyed, or by a fault of whoever uses it; told once,
// and nothing after it.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { LinkReader } from "../../src/transport/transport.ts";
import {
  closePair,
  connectPair,
  DEADLINE_MS,
  Flushes,
  KIB,
  letTimePass,
  MIB,
  type Pair,
  Recorder,
  randomBytes,
  type Scenario,
  type TransportKind,
} from "./transport-bench.ts";

export function testEnds(scenario: Scenario, kind: TransportKind): void {
  scenario("delivers everything written before a close, then closes both sides plainly (Link.L4)", async (bench) => {
    const pair = await connectPair(bench);
    const bytes = randomBytes(8_000_000, 15);
    const flushes = new Flushes();
    flushes.write(pair.nearLink, [bytes.subarray(0, 1000), bytes.subarray(1000)]);
    flushes.write(pair.nearLink, []);
    pair.nearLink.close();
    assert.equal(pair.near.closedCount, 0, "Link.L4: not from inside close");
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), flushes.all()]);
    assert.equal(pair.far.crc, crc32(bytes));
    assert.equal(pair.near.cause, undefined);
    assert.equal(pair.far.cause, undefined);
    await pair.listener.close();
  });

  scenario(
    "delivers everything written before a close although the other side is sending, and nothing to the closer any more",
    async (bench) => {
      const pair = await connectPair(bench);
      const flood = randomBytes(MIB, 16);
      const farFlushes = new Flushes();
      for (let i = 0; i < 8; i++) farFlushes.write(pair.farLink, [flood]);
      await pair.near.until(1);
      const last = randomBytes(400_000, 17);
      pair.nearLink.write([last], () => {});
      pair.nearLink.close();
      const receivedAtClose = pair.near.byteCount;
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), farFlushes.all()]);
      assert.equal(pair.far.crc, crc32(last));
      assert.equal(pair.near.byteCount, receivedAtClose, "Link.L1: nothing after the close");
      await pair.listener.close();
    },
  );

  scenario("does not touch the reader's memory after close or destroy", async (bench) => {
    for (const end of ["close", "destroy"] as const) {
      const memory = new Uint8Array(64 * KIB);
      const far = new Recorder();
      const fourReads = Promise.withResolvers<void>();
      const closed = Promise.withResolvers<void>();
      let readCount = 0;
      const reader: LinkReader = {
        view: () => memory,
        received: () => {
          if (++readCount === 4) fourReads.resolve();
        },
        closed: () => closed.resolve(),
      };
      const listener = await bench.listening.listen(bench.freeAddress(), far.take);
      const link = await bench.connecting.connect(listener.address, () => reader, { timeoutMs: DEADLINE_MS });
      link.write([randomBytes(1, 1)], () => {});
      await far.until(1);
      far.link?.write([randomBytes(4 * MIB, 18)], () => {});
      await fourReads.promise;
      link[end]();
      memory.fill(77);
      await Promise.all([closed.promise, far.untilClosed()]);
      assert.equal(Buffer.compare(memory, new Uint8Array(64 * KIB).fill(77)), 0, `after ${end}`);
      await listener.close();
    }
  });

  scenario("flushes every write exactly once, whatever ends the link (Link.L3)", async (bench) => {
    for (const end of ["near.close", "near.destroy", "far.close", "far.destroy"]) {
      const pair = await connectPair(bench);
      const flushes = new Flushes();
      pair.farLink.pause();
      for (let i = 0; i < 5; i++) flushes.write(pair.nearLink, [randomBytes(100, i), randomBytes(MIB, i)]);
      const [side, method] = end.split(".") as ["near" | "far", "close" | "destroy"];
      const link = side === "near" ? pair.nearLink : pair.farLink;
      link[method]();
      flushes.write(pair.nearLink, [randomBytes(100, 1)]);
      pair.farLink.resume();
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
      flushes.write(pair.nearLink, [randomBytes(100, 2)]);
      flushes.write(pair.nearLink, []);
      await flushes.all();
      assert.equal(flushes.counts.length, 8, end);
      await pair.listener.close();
    }
  });

  scenario("tells both sides of the end exactly once and never from inside a call (Link.L4)", async (bench) => {
    const ends: readonly ((pair: Pair) => void)[] = [
      ({ nearLink }) => nearLink.close(),
      ({ farLink }) => farLink.close(),
      ({ nearLink }) => nearLink.destroy(),
      ({ farLink }) => farLink.destroy(),
      ({ nearLink, farLink }) => {
        nearLink.close();
        farLink.close();
      },
      ({ nearLink, farLink }) => {
        nearLink.destroy();
        farLink.destroy();
      },
      ({ nearLink, farLink }) => {
        nearLink.close();
        nearLink.close();
        nearLink.destroy();
        nearLink.destroy();
        nearLink.close();
        farLink.destroy();
      },
      ({ nearLink }) => {
        nearLink.write([randomBytes(MIB, 19)], () => {});
        nearLink.close();
        nearLink.destroy();
      },
    ];
    for (const end of ends) {
      const pair = await connectPair(bench);
      end(pair);
      assert.equal(pair.near.closedCount + pair.far.closedCount, 0, "Link.L4: asynchronously");
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
      pair.nearLink.pause();
      pair.nearLink.resume();
      pair.nearLink.close();
      pair.farLink.destroy();
      await pair.listener.close();
      await letTimePass(bench, 2);
      assert.equal(pair.near.closedCount + pair.far.closedCount, 2);
    }
  });

  scenario("closes a link whose chunk lost its memory before it left: nothing behind it is delivered (Link.L6)", async (bench) => {
    const pair = await connectPair(bench);
    pair.farLink.pause();
    const first = randomBytes(8 * MIB, 30); // more than the system takes while nobody reads
    const lost = randomBytes(2 * MIB, 31);
    const flushes = new Flushes();
    flushes.write(pair.nearLink, [first]);
    flushes.write(pair.nearLink, [randomBytes(64, 32), lost, randomBytes(64, 33)]);
    flushes.write(pair.nearLink, [randomBytes(MIB, 34)]);
    structuredClone(lost, { transfer: [lost.buffer as ArrayBuffer] });
    pair.farLink.resume();
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), flushes.all()]);
    assert.ok(pair.near.cause instanceof Error && /memory of a chunk was transferred away/.test(pair.near.cause.message));
    assert.ok(pair.far.byteCount <= first.length + 64, `${pair.far.byteCount} bytes came, ${first.length} and 64 had left`);
    await pair.listener.close();
  });

  scenario("flushes every write of a link that is closed over a chunk that lost its memory (Link.L3, Link.L6)", async (bench) => {
    const pair = await connectPair(bench);
    pair.farLink.pause();
    const lost = randomBytes(MIB, 36);
    const flushes = new Flushes();
    for (const chunk of [randomBytes(8 * MIB, 35), lost, randomBytes(MIB, 37), randomBytes(64, 38)]) flushes.write(pair.nearLink, [chunk]);
    structuredClone(lost, { transfer: [lost.buffer as ArrayBuffer] });
    pair.nearLink.close();
    pair.farLink.resume();
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), flushes.all()]);
    await pair.listener.close();
  });

  scenario("ends abruptly on destroy: the other side sees a prefix, and a cause where the system tells", async (bench) => {
    const pair = await connectPair(bench);
    const bytes = randomBytes(64 * MIB, 20);
    const prefix: Uint8Array[] = [];
    pair.far.onReceived = (part) => prefix.push(part.slice());
    pair.nearLink.write([bytes], () => {});
    await pair.far.until(1);
    pair.nearLink.destroy();
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
    assert.ok(pair.far.byteCount < bytes.length, "not everything can have left");
    assert.equal(Buffer.compare(Buffer.concat(prefix), bytes.subarray(0, pair.far.byteCount)), 0);
    assert.equal(pair.near.cause, undefined, "this side wanted it");
    if (kind.tellsAbruptEnds) assert.ok(pair.far.cause instanceof Error);
    await pair.listener.close();
  });

  scenario("lets a reader close or destroy its link while it receives", async (bench) => {
    for (const end of ["close", "destroy"] as const) {
      const pair = await connectPair(bench);
      pair.far.onReceived = () => pair.farLink[end]();
      pair.nearLink.write([randomBytes(MIB, 21)], () => {});
      await pair.far.untilClosed();
      await pair.near.untilClosed();
      assert.equal(pair.far.cause, undefined);
      await pair.listener.close();
    }
  });
}

export function testFaults(scenario: Scenario): void {
  scenario("closes a link with the error its reader throws, and nothing else suffers (Link.L5)", async (bench) => {
    const failing = new Recorder();
    const boom = new Error("boom");
    failing.onReceived = () => {
      throw boom;
    };
    const healthy = await connectPair(bench);
    const broken = await connectPair(bench, failing);
    const flushes = new Flushes();
    flushes.write(broken.nearLink, [randomBytes(10, 1)]);
    flushes.write(broken.farLink, [randomBytes(100_000, 22)]);
    await Promise.all([failing.untilClosed(), broken.far.untilClosed(), flushes.all()]);
    assert.equal(failing.cause, boom);
    healthy.nearLink.write([randomBytes(10, 2)], () => {});
    await healthy.far.until(10);
    await closePair(healthy);
    await broken.listener.close();
  });

  scenario("closes a link whose reader gives no view or an empty one, or throws something that is no error", async (bench) => {
    const faults: Partial<LinkReader>[] = [
      { view: () => new Uint8Array(0) },
      {
        view: () => {
          throw new Error("no view");
        },
      },
      {
        received: () => {
          throw "a string";
        },
      },
    ];
    for (const fault of faults) {
      const near = new Recorder();
      const far = new Recorder();
      const faulty: LinkReader = {
        view: fault.view ?? (() => new Uint8Array(10)),
        received: fault.received ?? (() => {}),
        closed: (cause) => far.closed(cause),
      };
      const listener = await bench.listening.listen(bench.freeAddress(), () => faulty);
      const link = await bench.connecting.connect(listener.address, near.take, { timeoutMs: DEADLINE_MS });
      link.write([randomBytes(1000, 1)], () => {});
      await Promise.all([near.untilClosed(), far.untilClosed()]);
      assert.ok(far.cause instanceof Error);
      await listener.close();
    }
  });

  scenario("drops a connection whose accept throws, and goes on listening", async (bench) => {
    let acceptCount = 0;
    const far = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
      if (++acceptCount === 1) throw new Error("not today");
      return far.take(link);
    });
    const first = new Recorder();
    await bench.connecting.connect(listener.address, first.take, { timeoutMs: DEADLINE_MS }).then(
      () => first.untilClosed(),
      (error) => assert.ok(isWeighbridgeError(error, "NO_ROUTE")), // The system may already know.
    );
    const second = new Recorder();
    const link = await bench.connecting.connect(listener.address, second.take, { timeoutMs: DEADLINE_MS });
    link.write([randomBytes(10, 1)], () => {});
    await far.until(10);
    link.close();
    await Promise.all([second.untilClosed(), far.untilClosed(), listener.close()]);
  });

  scenario("fails to connect with the error that open throws, and closes the other side", async (bench) => {
    const far = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), far.take);
    const boom = new Error("boom");
    await assert.rejects(
      bench.connecting.connect(
        listener.address,
        () => {
          throw boom;
        },
        { timeoutMs: DEADLINE_MS },
      ),
      boom,
    );
    await far.untilClosed();
    await listener.close();
  });
}
