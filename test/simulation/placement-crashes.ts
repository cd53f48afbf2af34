// Goal: nodes of every role die, and links are cut, at every phase of a change of the placement, while workers push,
// pull and end clocks. Nobody hangs: each call is served or fails with an error that says who is gone. No acknowledged
// update is lost unless with the server that held it, and none counts twice. A change is finished or given up, and in
// the end all nodes have the same placement, and it can be changed again.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { PART_COUNT, partOf } from "../../src/keys/part.ts";
import { placementOf } from "../../src/keys/placement-of.ts";
import type { PlacementChange } from "../../src/scheduler/placement-epochs.ts";
import type { ServerNode } from "../../src/server/server-node.ts";
import { changePlacement, nodesOf } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { SETTLING } from "../support/settling.ts";

const SERVERS = 3;
const WORKERS = 2;
const CHANGES = 4;
/** Between two steps of a worker. */
const PAUSE_MS_MAX = 80;
const KEYS = BigUint64Array.from({ length: 40 }, (_, i) => BigInt(i) * 7919n);
/** So many parts go from one server to another. */
const MOVED = 600;
/** Whatever takes longer hangs: a worker that was prepared by a scheduler which died waits 30 s. */
const WAIT = { timeoutMs: 60_000 };

export const PHASES = ["preparing", "prepared", "moving", "told"] as const;
export type Phase = (typeof PHASES)[number];
export const VICTIMS = ["scheduler", "worker", "giver", "receiver", "bystander", "link"] as const;
export type Victim = (typeof VICTIMS)[number];

/** What is known of one row, of which each worker has a column. */
type Account = { sure: number; maybe: number };

export class PlacementCrashes {
  readonly #random: Random;
  readonly #cluster: SimCluster;
  readonly #accounts: Account[][] = Array.from({ length: WORKERS }, () => Array.from(KEYS, () => ({ sure: 0, maybe: 0 })));
  /** How often the server that held a row has died. */
  readonly #lossesOf: number[] = Array.from(KEYS, () => 0);
  readonly #sessions = new WeakMap<Postoffice, Promise<Session>>();
  #isOver = false;
  /** What became of changes. */
  readonly tally: Record<"told" | "givenUp", number> = { told: 0, givenUp: 0 };

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#cluster = new SimCluster({
      seed,
      serverCount: SERVERS,
      workerCount: WORKERS,
      placement: "range",
      network: { latencyMsMin: 0, latencyMsMax: 1 + this.#random.below(8) },
      heartbeatIntervalMs: 100,
      heartbeatTimeoutMs: 1000,
      settle: SETTLING,
    });
  }

  async run(): Promise<void> {
    const cluster = this.#cluster;
    await cluster.start();
    const workers = Array.from({ length: WORKERS }, (_, rank) => this.#workUntilOver(rank));
    await cluster.run(Promise.all([...workers, this.#changeAgainAndAgain()]));
    await cluster.run(Promise.all(workers.map((_, rank) => this.#retry(() => this.#beginAgain(rank)))));
    const epochs = this.#epochs();
    assert.equal(new Set(epochs).size, 1, `all nodes have the same placement in the end, not those of epochs ${epochs.join(", ")}`);
    await cluster.run(this.#changeAtLast());
    await cluster.clock.advance(1000);
    assert.deepEqual(new Set(this.#epochs()), new Set([(epochs[0] as number) + 1]), "it can be changed again, and all hear of it");
    await cluster.run(Promise.all(workers.map((_, rank) => this.#check(rank))));
    await cluster.finalize();
  }

  #epochs(): readonly number[] {
    const cluster = this.#cluster;
    return cluster.nodes().map((node) => {
      const {
        scheduler,
        server,
        node: { worker },
      } = cluster.office(node);
      return scheduler?.roster.placement?.epoch ?? server?.ownership.epoch ?? worker?.router.epoch ?? -1;
    });
  }

  // Changes and what happens to them.

  async #changeAgainAndAgain(): Promise<void> {
    const random = this.#random;
    for (let i = 0; i < CHANGES; i++) {
      await this.#sleep(random.below(60));
      const phase = PHASES[random.below(PHASES.length)] as Phase;
      const victim = VICTIMS[random.below(VICTIMS.length)] as Victim;
      await this.#changeWith(phase, victim);
    }
    this.#isOver = true;
  }

  /** One change, with one mishap. */
  async #changeWith(phase: Phase, victim: Victim): Promise<void> {
    const random = this.#random;
    const from = random.below(SERVERS);
    const to = (from + 1 + random.below(SERVERS - 1)) % SERVERS;
    const change = this.#changeFrom(from, to);
    if (change === undefined) return;
    const mishap: { healed: Promise<void> } = { healed: Promise.resolve() };
    const strike = (): void => {
      mishap.healed = this.#strike(victim, { from, to });
      if (victim === "scheduler" && phase !== "told") throw new WeighbridgeError("CLOSED", "the scheduler died");
    };
    if (phase === "preparing") mishap.healed = this.#sleep(random.below(4)).then(() => this.#strike(victim, { from, to }));
    const epoch = Math.max(...this.#epochs());
    try {
      const changing = changePlacement(nodesOf(this.#cluster), change, phase === "prepared" ? strike : undefined);
      if (phase === "moving") mishap.healed = this.#strikeBehind(epoch, changing, () => this.#strike(victim, { from, to }));
      await changing;
      this.tally.told++;
    } catch (thrown) {
      if (!isOneOf(thrown, "NO_ROUTE", "DEADLINE", "CLOSED", "NODE_DEAD", "UNKNOWN_PARAMETER")) throw thrown;
      this.tally.givenUp++;
    }
    if (phase === "told") {
      await this.#sleep(random.below(4));
      strike();
    }
    await mishap.healed;
  }

  /** Once a server has heard of the next placement: parts are on their way. */
  async #strikeBehind(epoch: number, changing: Promise<void>, strike: () => Promise<void>): Promise<void> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    changing.then(over, over);
    const isHeard = (): boolean =>
      [0, 1, 2].some((rank) => (this.#cluster.running(idOf("server", rank))?.server?.ownership.epoch ?? 0) > epoch);
    while (!isOver && !isHeard()) await this.#sleep(1);
    await this.#sleep(this.#random.below(8));
    await strike();
  }

  /** Parts of one server that go to another; undefined without a scheduler. */
  #changeFrom(from: number, to: number): PlacementChange | undefined {
    const current = this.#cluster.running(SCHEDULER_ID)?.scheduler?.roster.placement;
    if (current === undefined) return undefined;
    const placement = placementOf(current);
    const moved = new Map<number, number>();
    for (let i = 0; i < (current.moved?.length ?? 0); i += 2) moved.set(current.moved?.[i] as number, current.moved?.[i + 1] as number);
    const parts = Array.from({ length: PART_COUNT }, (_, part) => part).filter((part) => placement.ownerOf(part) === from);
    for (let i = 0; i < MOVED && parts.length > 0; i++) moved.set(parts[this.#random.below(parts.length)] as number, to);
    return { moved: [...moved].flat() };
  }

  /** Lets the mishap happen; resolves when it is over. */
  async #strike(victim: Victim, { from, to }: { readonly from: number; readonly to: number }): Promise<void> {
    const random = this.#random;
    if (victim === "scheduler") await this.#killFor(SCHEDULER_ID);
    else if (victim === "worker") await this.#killFor(idOf("worker", random.below(WORKERS)));
    else if (victim === "giver") await this.#killFor(idOf("server", from));
    else if (victim === "receiver") await this.#killFor(idOf("server", to));
    else if (victim === "bystander") await this.#killFor(idOf("server", SERVERS - from - to));
    else await this.#cutSome();
  }

  async #killFor(node: number): Promise<void> {
    const cluster = this.#cluster;
    if (cluster.running(node) === undefined) return;
    if (roleOf(node) === "server") this.#lose(rankOf(node));
    cluster.kill(node);
    await this.#sleep(this.#random.below(2) * this.#random.below(2000));
    await cluster.startNode(node);
  }

  /** Two nodes cannot reach each other for a while, which may be too long. */
  async #cutSome(): Promise<void> {
    const { network } = this.#cluster;
    const random = this.#random;
    const nodes = this.#cluster.nodes();
    const a = random.below(nodes.length);
    const b = (a + 1 + random.below(nodes.length - 1)) % nodes.length;
    const [one, other] = [a, b].map((i) => this.#cluster.hostOf(nodes[i] as number)) as [string, string];
    network.partition(one, other, { breakLinks: random.chance(0.5) });
    await this.#sleep(random.below(random.chance(0.5) ? 50 : 2000));
    network.heal(one, other);
  }

  /** With a server what it holds is gone; and maybe what has just been taken from one by another. */
  #lose(rank: number): void {
    const holds = (server: number, part: number): boolean =>
      (this.#cluster.running(idOf("server", server))?.node as ServerNode | undefined)?.exchange.holds(part) === true;
    for (const [i, key] of KEYS.entries()) {
      const part = partOf(Number(key & 0xffff_ffffn), Number(key >> 32n));
      const isLost = holds(rank, part);
      if (!isLost && [0, 1, 2].some((server) => holds(server, part))) continue;
      (this.#lossesOf[i] as number)++;
      for (const accounts of this.#accounts) {
        const { sure, maybe } = accounts[i] as Account;
        accounts[i] = { sure: 0, maybe: isLost ? 0 : sure + maybe };
      }
    }
  }

  /** All workers and servers are there, and have heard of each other. */
  async #changeAtLast(): Promise<void> {
    await this.#retry(() => changePlacement(nodesOf(this.#cluster), { policy: "ring" }), "NO_ROUTE", "DEADLINE");
  }

  // Workers.

  async #workUntilOver(rank: number): Promise<void> {
    while (!this.#isOver) {
      await this.#sleep(this.#random.below(PAUSE_MS_MAX));
      await this.#step(rank).catch((thrown: unknown) => {
        if (!isMishap(thrown)) throw thrown;
      });
    }
    await this.#retry(async () => (await this.#session(rank)).leaveClocks(WAIT));
  }

  /** Until it succeeds. */
  async #retry(run: () => Promise<unknown>, ...codes: readonly ErrorCode[]): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await run();
        return;
      } catch (thrown) {
        if (tries === 20 || !(isMishap(thrown) || isOneOf(thrown, ...codes))) throw thrown;
        await this.#sleep(500);
      }
    }
  }

  /** Of the incarnation that the worker has now. */
  async #session(rank: number): Promise<Session> {
    const office = this.#cluster.worker(rank);
    const session = this.#sessions.get(office) ?? Session.open(office.node, WAIT);
    this.#sessions.set(office, session);
    session.catch(() => this.#sessions.delete(office));
    return await session;
  }

  /** Makes them where they are not, as on a server that was started again. */
  async #open(rank: number): Promise<{ readonly session: Session; readonly counts: Embedding; readonly paced: Embedding }> {
    const session = await this.#session(rank);
    const counts = await session.embedding("counts", { dim: WORKERS, optimizer: { type: "sum" }, ...WAIT });
    const paced = await session.embedding("paced", { dim: 1, optimizer: { type: "sum" }, consistency: { ssp: 1 }, ...WAIT });
    return { session, counts, paced };
  }

  async #step(rank: number): Promise<void> {
    const { session, counts, paced } = await this.#open(rank);
    const pushes = [this.#push(counts, rank), paced.push(KEYS, new Float32Array(KEYS.length).fill(1), WAIT)];
    session.clock();
    const reads = [this.#read(counts), paced.pull(KEYS, WAIT)];
    for (const outcome of await Promise.allSettled([...pushes, ...reads])) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #push(counts: Embedding, rank: number): Promise<void> {
    const before = [...this.#lossesOf];
    const accounts = this.#accounts[rank] as Account[];
    for (const account of accounts) account.maybe++;
    const rows = Float32Array.from({ length: WORKERS * KEYS.length }, (_, i) => (i % WORKERS === rank ? 1 : 0));
    await counts.push(KEYS, rows, WAIT);
    for (const [i, account] of accounts.entries()) {
      if (this.#lossesOf[i] !== before[i])
        account.maybe++; // it was applied before the loss, or after it
      else Object.assign(account, { sure: account.sure + 1, maybe: account.maybe - 1 });
    }
  }

  /** Nothing happens any more. */
  async #beginAgain(rank: number): Promise<void> {
    await (await this.#session(rank)).rejoin(WAIT);
    await this.#check(rank);
  }

  async #check(rank: number): Promise<void> {
    await this.#read((await this.#open(rank)).counts);
  }

  async #read(counts: Embedding): Promise<void> {
    const before = [...this.#lossesOf];
    const sure = this.#accounts.map((accounts) => accounts.map((account) => account.sure));
    const values = await counts.pull(KEYS, WAIT);
    for (const [i, key] of KEYS.entries()) {
      if (before[i] !== this.#lossesOf[i]) continue;
      for (let rank = 0; rank < WORKERS; rank++) {
        const now = this.#accounts[rank]?.[i] as Account;
        const [value, min, max] = [values[i * WORKERS + rank] as number, sure[rank]?.[i] as number, now.sure + now.maybe];
        assert.ok(value >= min && value <= max, `row ${key} has ${value} pushes of worker ${rank}, not ${min} to ${max}`);
      }
    }
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((wake) => this.#cluster.clock.after(ms, wake));
  }
}

function isOneOf(thrown: unknown, ...codes: readonly ErrorCode[]): boolean {
  return codes.some((code) => isWeighbridgeError(thrown, code));
}

/** What may come of a call while nodes die. DEADLINE is none of it: that would be a hang. */
function isMishap(thrown: unknown): boolean {
  const isGone = isOneOf(thrown, "NODE_DEAD", "CLOSED", "ABORTED", "NOT_JOINED", "UNKNOWN_PARAMETER", "LINK_LOST");
  return isGone || String(thrown).includes("is not running");
}

export async function runPlacementCrashes(seed: number): Promise<PlacementCrashes["tally"]> {
  const story = new PlacementCrashes(seed);
  await story.run();
  return story.tally;
}
