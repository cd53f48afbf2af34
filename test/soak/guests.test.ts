// guests — Goal: 10,000 guests that leave, are killed or fall silent, a hundred at a time, leave the memory of real
// servers and their scheduler as it was, and nothing of a guest that was forgotten counts later. Ten to twenty minutes.

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Holdings } from "./scripts/guest-house.ts";

const GUESTS = Number(process.env.SOAK_GUESTS ?? 10_000);
const CROWD = 100;
/** Of ten crowds: one is killed, one falls silent, the others leave. */
const TURN = 10 * CROWD;
const LEAVING_ROUNDS = 8;
/** Long enough that no guest is taken for silent because the machine is busy with others. */
const HEARTBEAT_TIMEOUT_MS = 15_000;
const SILENT_MS = HEARTBEAT_TIMEOUT_MS + 3000;
/**
 * So that resident memory is memory that is held: without it glibc keeps what was freed between other blocks, as much
 * as the busiest moment needed.
 */
const MALLOC = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "65536", MALLOC_TRIM_THRESHOLD_: "65536" };
const HEAP_GROWTH_MAX = 1024 * 1024;
const RSS_GROWTH_MAX = 32 * 1024 * 1024;
/** Until then what is made once is made, and the pages that so many guests at a time need are touched. */
const WARM_UP_TURNS = 2;
const MIB = 1024 * 1024;

class GuestHouse {
  readonly #house: ChildProcess;
  readonly #address: string;
  readonly #crowds: ChildProcess[] = [];

  private constructor(house: ChildProcess, port: number) {
    this.#house = house;
    this.#address = `weighbridge://127.0.0.1:${port}`;
  }

  static async start(): Promise<GuestHouse> {
    const env = { ...process.env, ...MALLOC };
    const args = [String(HEARTBEAT_TIMEOUT_MS)];
    const house = fork(join(import.meta.dirname, "scripts/guest-house.ts"), args, { env, execArgv: ["--expose-gc"] });
    const [port] = (await once(house, "message")) as [number];
    return new GuestHouse(house, port);
  }

  async holdings(): Promise<Holdings> {
    this.#house.send("how much?");
    const [held] = (await once(this.#house, "message")) as [Holdings];
    return held;
  }

  async crowd(rounds: number, end: "leave" | "stay"): Promise<ChildProcess> {
    const args = [this.#address, String(CROWD), String(rounds), end];
    const crowd = fork(join(import.meta.dirname, "scripts/guest-crowd.ts"), args);
    this.#crowds.push(crowd);
    const [told] = (await Promise.race([once(crowd, "message"), once(crowd, "exit")])) as [unknown];
    assert.equal(told, "ready");
    return crowd;
  }

  /** A thousand guests. */
  async turn(): Promise<void> {
    const leaving = this.crowd(LEAVING_ROUNDS, "leave");
    const killed = await this.crowd(1, "stay");
    killed.kill("SIGKILL");
    const silent = await this.crowd(1, "stay");
    silent.kill("SIGSTOP");
    await Promise.all([leaving, sleep(SILENT_MS)]);
    silent.kill("SIGCONT");
    silent.send("go on");
    const [fenced] = (await once(silent, "message")) as [number];
    assert.equal(fenced, CROWD, "each guest that was forgotten is told so");
    silent.kill("SIGKILL");
    (await leaving).kill("SIGKILL");
  }

  close(): void {
    for (const process of [this.#house, ...this.#crowds]) process.kill("SIGKILL"); // those that are stopped, too
  }
}

function told(held: Holdings): string {
  const { rssBytes, heapBytes, externalBytes, arenaBytes, ...counts } = held;
  const mib = (bytes: number): string => `${(bytes / MIB).toFixed(2)} MiB`;
  return `rss ${mib(rssBytes)}, heap ${mib(heapBytes)}, external ${mib(externalBytes)}, arena ${mib(arenaBytes)}, ${JSON.stringify(counts)}`;
}

test(`${GUESTS} guests leave nothing`, { timeout: 3_600_000 }, async (t) => {
  const house = await GuestHouse.start();
  t.after(() => house.close());
  const held = async (): Promise<Holdings> => {
    await sleep(SILENT_MS);
    return await house.holdings();
  };
  for (let turn = 0; turn < WARM_UP_TURNS; turn++) await house.turn();
  const before = await held();
  t.diagnostic(`before: ${told(before)}`);
  for (let done = TURN; done <= GUESTS; done += TURN) {
    await house.turn();
    console.log(`${done} guests: ${told(await house.holdings())}`); // at once: this takes a while
  }
  const after = await held();
  t.diagnostic(`after: ${told(after)}`);
  const { listed, conversations, stamps, keyLists } = after;
  assert.deepEqual({ listed, conversations, stamps, keyLists }, { listed: 0, conversations: 0, stamps: 0, keyLists: 0 });
  assert.deepEqual([after.links, after.arenaBytes], [before.links, before.arenaBytes]);
  assert.ok(after.heapBytes - before.heapBytes <= HEAP_GROWTH_MAX, "the heap");
  assert.ok(after.rssBytes - before.rssBytes <= RSS_GROWTH_MAX, "resident memory");
});
