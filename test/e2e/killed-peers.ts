// killed-peers — peers of a shared-memory link that are killed at seeded moments, for the end-to-end and the soak test.

import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { sharedMemory } from "../../src/node/transport/shared-memory.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import type { Link, LinkReader } from "../../src/transport/transport.ts";
import { SharedTransport } from "../conformance/shared-transport.ts";
import { streamBytes } from "../support/stream-bytes.ts";

const PEER: string = new URL("./scripts/stream-peer.ts", import.meta.url).pathname;
/** What the killed one has sent by then: often less than a ring, sometimes several. */
const BYTES_MAX = 6_000_000;

export async function sharedTransport(): Promise<SharedTransport> {
  return new SharedTransport(new SocketTransport({ clock: realClock(), sharedMemory: await sharedMemory({ log: SILENT_LOG }) }));
}

/** What this process has open and mapped, and what lies in the system's folder for shared memory. */
function leftovers(): unknown {
  const maps = readFileSync("/proc/self/maps", "latin1").split("\n");
  const files = readdirSync("/dev/shm").filter((name) => name.includes("weighbridge"));
  return { descriptors: readdirSync("/proc/self/fd").length, maps: maps.filter((line) => line.includes("memfd:weighbridge")), files };
}

/** Checks what arrives, and kills the sender at some byte. */
class Victim implements LinkReader {
  readonly ended: Promise<Error | undefined>;
  readonly #end = Promise.withResolvers<Error | undefined>();
  readonly #view = new Uint8Array(100_000);
  readonly #killAt: number;
  readonly #kill: () => void;
  readonly #seed: number;
  #link: Link | undefined;
  byteCount = 0;

  constructor(seed: number, kill: () => void) {
    this.ended = this.#end.promise;
    this.#seed = seed;
    this.#killAt = new Random(seed).below(BYTES_MAX);
    this.#kill = kill;
  }

  /** Writes as fast as the other side takes it. */
  take(link: Link): this {
    this.#link = link;
    this.#write();
    return this;
  }

  readonly #write = (): void => {
    if (this.#link !== undefined) this.#link.write([streamBytes(0, 50_000)], () => void setImmediate().then(this.#write));
  };

  view(): Uint8Array {
    return this.#view;
  }

  received(byteCount: number): void {
    const bytes = this.#view.subarray(0, byteCount);
    assert.equal(Buffer.compare(bytes, streamBytes(this.byteCount, byteCount)), 0, `seed ${this.#seed}: at byte ${this.byteCount}`);
    this.byteCount += byteCount;
    if (this.byteCount >= this.#killAt) this.#kill();
  }

  closed(cause: Error | undefined): void {
    this.#link = undefined;
    this.#end.resolve(cause);
  }
}

/** Kills peers, one after the other; what came of each is a beginning of its stream, and nothing is left of it. */
export async function killPeers(count: number, directory: string): Promise<void> {
  const transport = await sharedTransport();
  const address = `unix://${join(directory, "killed.sock")}`;
  const before = leftovers();
  for (let seed = 1; seed <= count; seed++) {
    let victim: Victim | undefined;
    const listener = await transport.listen(address, (link) => (victim as Victim).take(link));
    const peer = fork(PEER, [address, String(seed)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const exited = new Promise((resolve) => peer.once("exit", resolve));
    victim = new Victim(seed, () => peer.kill("SIGKILL"));
    const cause = await victim.ended;
    assert.equal(cause === undefined || !(cause instanceof assert.AssertionError), true, String(cause));
    assert.ok(victim.byteCount > 0, `seed ${seed}`);
    await Promise.all([exited, listener.close()]);
    await setImmediate();
    await setImmediate();
    assert.deepEqual(leftovers(), before, `seed ${seed}`);
  }
}
