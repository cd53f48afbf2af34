// Goal: a change of the placement moves parts from two servers to a third, and somebody dies at a boundary between two
// events of it. What the dead server held is gone with it. Nothing else is: each part is whole at its owner, or was the
// dead one's, and the servers that live serve by one placement. A server that is stopped on purpose, and started again,
// loses nothing.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { partOf } from "../../src/keys/part.ts";
import { placementOf } from "../../src/keys/placement-of.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { PartState } from "../../src/server/parameters/part-state.ts";
import type { DurableLog } from "../../src/server/replication/log-sink.ts";
import type { PlannedStopFiles } from "../../src/server/replication/planned-stop.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { stopLog } from "./planned-stops.ts";
import { SimStore } from "./replicated-job.ts";
import { SimDisk } from "./sim-disk.ts";

const SERVERS = 3;
const TARGET = 2;
const KEYS = Array.from({ length: 40 }, (_, i) => BigInt(i) * 7919n);
const HEARTBEATS = { heartbeatIntervalMs: 50, heartbeatTimeoutMs: 400 };
/** The dead are started again later than that. */
const AWAY_MS = 1000;
const WAIT = { timeoutMs: 60_000 };

export type MovingVictim = "target" | "first source" | "second source" | "scheduler";
/** Servers by their ranks. */
const RANKS: Readonly<Record<MovingVictim, number | undefined>> = {
  target: TARGET,
  "first source": 0,
  "second source": 1,
  scheduler: undefined,
};
export const MOVING_VICTIMS: readonly MovingVictim[] = ["target", "first source", "second source", "scheduler"];
export const STOPPED_VICTIMS: readonly MovingVictim[] = ["target", "first source", "second source"];

class MovingKills {
  readonly #cluster: SimCluster;
  readonly #random: Random;
  readonly #records: StateRecord[] = [];
  readonly #disk: SimDisk;
  /** The server that was stopped. */
  #stopped = -1;
  #store: SimStore | undefined;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#disk = new SimDisk(this.#random, "/stopped");
    const optionsOf = (node: number) => {
      if (node === SCHEDULER_ID) return { store: this.#nextStore() };
      return roleOf(node) === "server" ? { stops: this.#stopsOf(rankOf(node)) } : {};
    };
    const counts = { serverCount: SERVERS, workerCount: 1 };
    this.#cluster = new SimCluster({ seed, ...counts, placement: "range", settle: SETTLING, ...HEARTBEATS, optionsOf });
  }

  #stopsOf(rank: number): PlannedStopFiles {
    const { clock } = this.#cluster;
    const logOf = (of: number): DurableLog =>
      stopLog({ mount: this.#disk.mount(clock, 1), random: this.#random, clock, log: SILENT_LOG, rank: of });
    return { logOf: async (of) => logOf(of), found: rank === this.#stopped ? logOf(rank) : undefined };
  }

  /** Returns whether the change was over after so many events: there are no more boundaries. */
  async run(victim: MovingVictim, events: number, how: "killed" | "stopped"): Promise<boolean> {
    const cluster = this.#cluster;
    await cluster.start();
    const session = await cluster.run(Session.open(cluster.worker(0).node, WAIT));
    const rows = await cluster.run(session.embedding("rows", { dim: 1, optimizer: { type: "sum" }, ...WAIT }));
    const ones = new Float32Array(KEYS.length).fill(1);
    await cluster.run(rows.push(KEYS, ones, WAIT));
    let isOver = false;
    let failure: unknown;
    cluster.scheduler.scheduler?.publishPlacement({ moved: this.#moved() }).then(
      () => {
        isOver = true;
      },
      (thrown: unknown) => {
        failure = thrown;
      },
    );
    for (let i = 0; i < events && !isOver; i++) {
      cluster.clock.step();
      await setImmediate();
    }
    assert.equal(failure, undefined);
    const wasOver = isOver;
    const rank = RANKS[victim];
    const dead = how === "killed" ? rank : undefined;
    if (how === "stopped" && rank !== undefined) {
      await cluster.run(cluster.server(rank).node.leave());
      this.#stopped = rank;
    }
    this.#kill(rank);
    await cluster.clock.advance(AWAY_MS);
    await cluster.run(cluster.startNode(rank === undefined ? SCHEDULER_ID : idOf("server", rank)));
    await cluster.clock.advance(AWAY_MS);
    const owners = this.#check(dead, `${victim} after ${events} events`);
    const kept = KEYS.filter((key) => owners(key) !== dead);
    assert.deepEqual(await cluster.run(rows.pull(kept, WAIT)), ones.subarray(0, kept.length), "whoever lives serves what it has");
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
    return wasOver;
  }

  /** Half of what the sources have goes to the target. */
  #moved(): readonly number[] {
    const placement = this.#placement();
    const parts = new Set(KEYS.filter((_, i) => i % 2 === 0).map(partOfKey));
    return [...parts].filter((part) => placement.ownerOf(part) !== TARGET).flatMap((part) => [part, TARGET]);
  }

  #placement(): ReturnType<typeof placementOf> {
    const { placement } = this.#cluster.scheduler.roster;
    assert.ok(placement !== undefined);
    return placementOf(placement);
  }

  #kill(rank: number | undefined): void {
    if (rank === undefined) this.#store?.die();
    this.#cluster.kill(rank === undefined ? SCHEDULER_ID : idOf("server", rank));
  }

  #nextStore(): SimStore {
    this.#store = new SimStore(this.#records, (written) => void this.#cluster.clock.after(this.#random.below(3), written));
    return this.#store;
  }

  /** Returns who owns a key. */
  #check(dead: number | undefined, when: string): (key: bigint) => number {
    const placement = this.#placement();
    const servers = Array.from({ length: SERVERS }, (_, rank) => this.#cluster.server(rank).server);
    for (const [rank, server] of servers.entries()) {
      assert.ok(server !== undefined);
      assert.equal(server.ownership.servedEpoch, placement.epoch, `server ${rank} serves by the newest placement: ${when}`);
      const state = new PartState(server.parameters);
      for (const part of new Set(KEYS.map(partOfKey))) {
        const isHere = rank !== dead && placement.ownerOf(part) === rank;
        const expected = isHere ? KEYS.filter((key) => partOfKey(key) === part).length : 0;
        assert.equal(state.countPart(part), expected, `rows of part ${part} on server ${rank}: ${when}`);
      }
    }
    return (key) => placement.ownerOf(partOfKey(key));
  }
}

function partOfKey(key: bigint): number {
  return partOf(Number(key & 0xffff_ffffn), Number(key >> 32n));
}

/** Somebody dies after so many events of a change; returns whether the change was over by then. */
export async function killWhileMoving(victim: MovingVictim, events: number): Promise<boolean> {
  return await new MovingKills(7).run(victim, events, "killed");
}

/** A server is stopped on purpose after so many events of a change, and started again. Returns the same. */
export async function stopWhileMoving(victim: MovingVictim, events: number): Promise<boolean> {
  return await new MovingKills(7).run(victim, events, "stopped");
}
