// What the simulated network does beyond being a transport (test/conformance): cuts, breaks and crashes, from a seed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Link, LinkReader } from "../transport/transport.ts";
import { SimClock } from "./sim-clock.ts";
import { SimNetwork, type SimNetworkOptions } from "./sim-network.ts";
import { throwsCode } from "./throws-code.ts";

const DEADLINE_MS = 1000;

/** Keeps all it receives, and how its link ended. */
class Sink implements LinkReader {
  readonly #view = new Uint8Array(64 * 1024);
  readonly bytes: number[] = [];
  readonly reads: string[] = [];
  closedCount = 0;
  cause: Error | undefined;
  readonly #clock: SimClock;

  constructor(clock: SimClock) {
    this.#clock = clock;
  }

  view(): Uint8Array {
    return this.#view;
  }

  received(byteCount: number): void {
    for (const byte of this.#view.subarray(0, byteCount)) this.bytes.push(byte);
    this.reads.push(`${byteCount} at ${this.#clock.nowMs().toFixed(6)}`);
  }

  closed(cause: Error | undefined): void {
    this.closedCount++;
    this.cause = cause;
  }
}

type Setup = { clock: SimClock; network: SimNetwork; near: Sink; far: Sink; link: Link; farLink: Link };

/** A link from "worker" to "server". */
async function connected(options: Omit<SimNetworkOptions, "clock">): Promise<Setup> {
  const clock = new SimClock({ settle: setImmediate });
  const network = new SimNetwork({ clock, ...options });
  const near = new Sink(clock);
  const far = new Sink(clock);
  let farLink: Link | undefined;
  await network.host("server").listen("sim://server:1", (accepted) => {
    farLink = accepted;
    return far;
  });
  const link = await clock.runUntil(network.host("worker").connect("sim://server:1", () => near, { timeoutMs: DEADLINE_MS }));
  return { clock, network, near, far, link, farLink: farLink as Link };
}

const counting = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i);

test("the same seed gives the same reads at the same times, another seed others", async () => {
  const readsOf = async (seed: number): Promise<string[]> => {
    const { clock, far, link } = await connected({ seed });
    for (let i = 0; i < 20; i++) link.write([counting(1000)], () => {});
    await clock.run();
    return far.reads;
  };
  assert.deepEqual(await readsOf(1), await readsOf(1));
  assert.notDeepEqual(await readsOf(1), await readsOf(2));
});

test("latency lies between its bounds, and bandwidth is kept", async () => {
  const { clock, far, link } = await connected({ seed: 3, latencyMsMin: 10, latencyMsMax: 20, bytesPerMs: 1000 });
  const startMs = clock.nowMs();
  link.write([counting(50_000)], () => {});
  await clock.run();
  assert.equal(far.bytes.length, 50_000);
  const tookMs = clock.nowMs() - startMs;
  assert.ok(tookMs >= 60 && tookMs <= 71, `${tookMs} ms`);
});

test("chunks are read just before flushed, so that early reuse is found out (SimLink.N2)", async () => {
  const { clock, far, link } = await connected({ seed: 4 });
  const chunk = counting(10);
  link.write([chunk], () => {});
  chunk.fill(99);
  await clock.run();
  assert.deepEqual(far.bytes, new Array(10).fill(99));
});

test("a partition stalls bytes both ways, and healing lets them flow on in order", async () => {
  const { clock, network, near, far, link, farLink } = await connected({ seed: 5 });
  network.partition("server", "worker");
  link.write([counting(100)], () => {});
  farLink.write([counting(50)], () => {});
  await clock.advance(60_000);
  assert.equal(far.bytes.length + near.bytes.length, 0);
  assert.equal(far.closedCount + near.closedCount, 0);
  link.write([counting(10)], () => {});
  await clock.advance(1000);
  network.heal("worker", "server");
  await clock.run();
  assert.deepEqual(far.bytes, [...counting(100), ...counting(10)]);
  assert.deepEqual(near.bytes, [...counting(50)]);
});

test("a partition fills the window, and then flushed waits (SimLink.N3)", async () => {
  const { clock, network, far, link } = await connected({ seed: 6, windowBytes: 1000 });
  network.partition("server", "worker");
  let flushedCount = 0;
  for (let i = 0; i < 10; i++) link.write([counting(400)], () => flushedCount++);
  await clock.run();
  assert.equal(flushedCount, 2);
  network.heal();
  await clock.run();
  assert.equal(flushedCount, 10);
  assert.equal(far.bytes.length, 4000);
});

test("a partition may break the links as well, each side at its own time", async () => {
  const { clock, network, near, far, link } = await connected({ seed: 7 });
  let flushedCount = 0;
  network.partition("worker", "server", { breakLinks: true });
  link.write([counting(100)], () => flushedCount++);
  await clock.run();
  assert.equal(near.closedCount, 1);
  assert.equal(far.closedCount, 1);
  assert.match(String(near.cause), /the link to server broke/);
  assert.equal(far.bytes.length, 0);
  assert.equal(flushedCount, 1);
});

test("an isolated host is cut off from hosts that come later, too", async () => {
  const { clock, network } = await connected({ seed: 8 });
  network.isolate("server");
  const late = network.host("late").connect("sim://server:1", () => new Sink(clock), { timeoutMs: 500 });
  await assert.rejects(clock.runUntil(late), throwsCode("NO_ROUTE", /no answer within 500 ms/));
  network.heal("server");
  const link = await clock.runUntil(network.host("late").connect("sim://server:1", () => new Sink(clock), { timeoutMs: 500 }));
  assert.equal(link.remote, "sim://server:1");
});

test("connecting waits for a partition to heal, up to its deadline", async () => {
  const { clock, network } = await connected({ seed: 9 });
  network.partition("late", "server");
  clock.after(400, () => network.heal("late", "server"));
  await clock.runUntil(network.host("late").connect("sim://server:1", () => new Sink(clock), { timeoutMs: 500 }));
  assert.ok(clock.nowMs() >= 400);
});

test("a write may break its link after any part of its bytes: what arrives is a prefix (SimLink.N1)", async () => {
  const lengths = new Set<number>();
  for (let seed = 1; seed <= 60; seed++) {
    const { clock, network, near, far, link } = await connected({ seed });
    let flushedCount = 0;
    link.write([counting(100)], () => flushedCount++);
    network.breakChance = 1;
    link.write([counting(50), counting(50)], () => flushedCount++);
    network.breakChance = 0;
    link.write([counting(100)], () => flushedCount++);
    await clock.run();
    assert.equal(flushedCount, 3, `seed ${seed}`);
    assert.equal(near.closedCount, 1, `seed ${seed}`);
    assert.equal(far.closedCount, 1, `seed ${seed}`);
    assert.ok(near.cause !== undefined && far.cause !== undefined);
    assert.ok(far.bytes.length >= 100 && far.bytes.length <= 200, `seed ${seed}: ${far.bytes.length} bytes`);
    assert.deepEqual(far.bytes, [...counting(100), ...counting(50), ...counting(50)].slice(0, far.bytes.length), `seed ${seed}`);
    lengths.add(far.bytes.length);
  }
  assert.ok(lengths.size > 20, "breaks happen everywhere");
});

test("a crash closes the links of the others abruptly, and a new host of that name starts from nothing", async () => {
  const { clock, network, near, far, link, farLink } = await connected({ seed: 10 });
  const old = network.host("server");
  farLink.write([counting(1000)], () => {});
  network.crash("server");
  await clock.run();
  assert.match(String(near.cause), /server crashed/);
  assert.equal(near.closedCount, 1);
  assert.equal(far.closedCount, 1, "the dead node's own end is told as well");
  link.write([counting(1)], () => {});
  const refused = network.host("worker").connect("sim://server:1", () => near, { timeoutMs: DEADLINE_MS });
  await assert.rejects(clock.runUntil(refused), /refused/);

  const reborn = network.host("server");
  assert.notEqual(reborn, old);
  const zombie = old.connect("sim://server:1", () => far, { timeoutMs: DEADLINE_MS });
  await assert.rejects(clock.runUntil(zombie), /server crashed/);
  await assert.rejects(
    old.listen("sim://server:2", () => far),
    throwsCode("CLOSED"),
  );
  await reborn.listen("sim://server:1", () => new Sink(clock));
  await clock.runUntil(network.host("worker").connect("sim://server:1", () => new Sink(clock), { timeoutMs: DEADLINE_MS }));
});

test("a silent crash tells nobody: links stall and connecting runs into its deadline", async () => {
  const { clock, network, near, far, link } = await connected({ seed: 11, windowBytes: 1000 });
  network.crash("server", { silent: true });
  let flushedCount = 0;
  for (let i = 0; i < 10; i++) link.write([counting(400)], () => flushedCount++);
  await clock.advance(60_000);
  assert.equal(near.closedCount, 0);
  assert.equal(far.closedCount, 1);
  assert.equal(far.bytes.length, 0);
  assert.equal(flushedCount, 2);
  const late = network.host("late").connect("sim://server:1", () => new Sink(clock), { timeoutMs: 500 });
  await assert.rejects(clock.runUntil(late), /no answer within 500 ms/);
  link.destroy();
  await clock.run();
  assert.equal(near.closedCount, 1);
  assert.equal(flushedCount, 10);
});

test("a host that comes back after a silent crash resets the links it does not know, once they are used", async () => {
  const { clock, network, near, link } = await connected({ seed: 12 });
  network.crash("server", { silent: true });
  await clock.run();
  network.host("server");
  await clock.run();
  assert.equal(near.closedCount, 0, "an idle link notices nothing");
  link.write([counting(1)], () => {});
  await clock.run();
  assert.match(String(near.cause), /server was restarted/);
});

test("connecting outlasts a restart within its deadline", async () => {
  const { clock, network } = await connected({ seed: 13 });
  network.crash("server", { silent: true });
  clock.after(700, () => void network.host("server").listen("sim://server:1", () => new Sink(clock)));
  await clock.runUntil(network.host("worker").connect("sim://server:1", () => new Sink(clock), { timeoutMs: DEADLINE_MS }));
  assert.ok(clock.nowMs() >= 700);
});

test("breakLinks ends the links of one host and leaves the others alone", async () => {
  const { clock, network, near, far } = await connected({ seed: 14 });
  const other = new Sink(clock);
  await network.host("third").listen("sim://third:1", () => new Sink(clock));
  await clock.runUntil(network.host("fourth").connect("sim://third:1", () => other, { timeoutMs: DEADLINE_MS }));
  network.breakLinks("worker");
  await clock.run();
  assert.deepEqual([near.closedCount, far.closedCount, other.closedCount], [1, 1, 0]);
});

test("a host listens only at its own name", async () => {
  const network = new SimNetwork({ clock: new SimClock(), seed: 1 });
  await assert.rejects(
    network.host("a").listen("sim://b:1", () => assert.fail()),
    throwsCode("BAD_ARGUMENT", /this is a, not b/),
  );
});
