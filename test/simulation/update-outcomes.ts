// Goal: what an error says of an update is true. Every update has keys of its own, and adds 1 to each: what the servers
// have in the end tells whether it counted. "applied" has counted, "not-applied" has not, and stays so; no update
// counts twice; an error is retryable only if its update did not count. Links are lost, cut and broken, parts move,
// heads of replicated servers die, callers stop waiting, before or after their call.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError, type UpdateOutcome, type UpdatePart } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { keepChanging } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const SERVERS = 2;
const UPDATES = 48;
const KEYS_EACH = 3;
const LINK_TIMEOUT_MS = 3000;
const HEARTBEAT_TIMEOUT_MS = 1000;

type Wait = { readonly timeoutMs?: number; readonly signal?: AbortSignal };
type Way = {
  readonly update: (keys: readonly number[], wait: Wait) => Promise<unknown>;
  readonly read: (keys: readonly number[]) => Promise<ArrayLike<number>>;
  /** Pushes what is kept for later. */
  readonly flush?: () => Promise<void>;
  /** By which server each of these keys is held, where none has moved. */
  readonly ownersOf?: (keys: readonly number[]) => Promise<readonly number[]>;
};

/** How an update ended. */
type End = {
  readonly what: string;
  readonly way: Way;
  readonly keys: readonly number[];
  readonly outcome: UpdateOutcome;
  readonly parts?: readonly UpdatePart[] | undefined;
  readonly settled?: UpdateOutcome | undefined;
};

/** How many updates failed with what outcome, and how many that continued settled to what. */
export type Tally = Map<string, number>;

/** What happens to the cluster. */
export type Weather = "links" | "moving" | "failover";

const ones = (count: number): Float32Array => new Float32Array(count).fill(1);

async function openWays(session: Session, kv: KVWorker): Promise<Readonly<Record<string, Way>>> {
  const rows = await session.embedding("rows", { dim: 1, optimizer: "sum" });
  const less = await session.embedding("less", { dim: 1, optimizer: "sum", link: { push: "fp16", pull: "fp16", keyCache: true } });
  const dense = await session.tensor("dense", { shape: [UPDATES * KEYS_EACH, 1], optimizer: "sum" });
  const both = await session.embedding("both", { dim: 1, optimizer: "sum" });
  const counted = await session.embedding("counted", { dim: 1, optimizer: "sum", versions: true });
  const cache = counted.cached({ rows: 16 });
  const kvKeys = (keys: readonly number[]): BigUint64Array => BigUint64Array.from(keys.map((key) => kvKey(key)).sort(byValue));
  return {
    rows: {
      update: (keys, wait) => rows.push(keys, ones(keys.length), wait),
      read: (keys) => rows.pull(keys),
      ownersOf: (keys) =>
        Promise.resolve(
          rows.openWith(({ functions: { router } }) => {
            const owners = new Array<number>(keys.length).fill(-1);
            for (const { to, positions } of router.sharesOf(BigUint64Array.from(keys, BigInt)))
              for (const position of positions) owners[position] = (to as { readonly server: number }).server;
            return owners;
          }),
        ),
    },
    less: { update: (keys, wait) => less.push(keys, ones(keys.length), wait), read: (keys) => less.pull(keys) },
    dense: { update: (keys, wait) => dense.pushRows(keys, ones(keys.length), wait), read: (keys) => dense.pullRows(keys) },
    both: {
      update: (keys, wait) => both.pushPull({ keys, gradients: ones(keys.length) }, [...keys, 1_000_000], wait),
      read: (keys) => both.pull(keys),
    },
    cached: {
      update: (keys, wait) => cache.push(keys, ones(keys.length), wait),
      read: (keys) => counted.pull(keys),
      flush: () => cache.flush(),
    },
    kv: {
      update: (keys, wait) => kv.wait(kv.push(kvKeys(keys), ones(keys.length)), wait),
      read: async (keys) => {
        const sorted = kvKeys(keys);
        const values = new Float32Array(keys.length);
        await kv.wait(kv.pull(sorted, values));
        return keys.map((key) => values[sorted.indexOf(kvKey(key))] as number);
      },
    },
  };
}

/** On either server. */
function kvKey(key: number): bigint {
  return BigInt(key % SERVERS) * 2n ** 63n + BigInt(key);
}

const byValue = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

export type OutcomesOptions = {
  readonly weather: Weather;
  readonly tally: Tally;
  /** Whether what fails is repeated as the guide says (docs/guides/when-nodes-fail.md). */
  readonly repeats?: boolean;
};

class UpdateOutcomes {
  readonly seed: number;
  readonly weather: Weather;
  readonly cluster: SimCluster;
  readonly #random: Random;
  readonly #tally: Tally;
  readonly #repeats: boolean;

  constructor(seed: number, { weather, tally, repeats = false }: OutcomesOptions) {
    this.seed = seed;
    this.weather = weather;
    this.#repeats = repeats;
    this.#tally = tally;
    this.#random = new Random(seed * 13 + 5);
    const isReplicated = weather === "failover";
    this.cluster = new SimCluster({
      seed,
      serverCount: SERVERS,
      workerCount: 1,
      replicas: isReplicated ? 2 : 1,
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs: isReplicated ? HEARTBEAT_TIMEOUT_MS : 20_000,
      linkTimeoutMs: LINK_TIMEOUT_MS,
      network: { latencyMsMin: 0, latencyMsMax: 1 + this.#random.below(20) },
      ...(this.#random.chance(0.3) ? { faults: { dropPercent: 5, duplicatePercent: 5, reorderPercent: 5, delayMs: 20 } } : {}),
      settle: SETTLING,
    });
  }

  async run(): Promise<void> {
    const { cluster } = this;
    await cluster.start();
    cluster.network.breakChance = this.#random.below(3) * 0.01; // while a cluster starts, a broken link fences a head
    for (let rank = 0; rank < SERVERS; rank++) {
      new KVServer(cluster.server(rank), 0);
      if (this.weather === "failover") new KVServer(cluster.office(idOf("standby", rank)), 0);
    }
    const session = await cluster.run(Session.open(cluster.worker(0).node));
    const ways = await cluster.run(openWays(session, new KVWorker(cluster.worker(0), 0)));
    const stop = this.#begin();
    const ends = await cluster.run(this.#pushAll(ways));
    stop();
    cluster.network.heal();
    cluster.network.breakChance = 0;
    for (let look = 0; look < 2; look++) {
      await cluster.clock.advance(2 * LINK_TIMEOUT_MS);
      for (const way of Object.values(ways))
        await this.#checkAll(
          way,
          ends.filter((end) => end.way === way),
        );
    }
    const nodes = cluster.nodes().map((node) => cluster.running(node)?.close());
    await cluster.run(Promise.all(nodes));
  }

  /** Everything that happens meanwhile. Returns what ends it. */
  #begin(): () => void {
    const { cluster } = this;
    const random = this.#random;
    for (let atMs = random.below(1000), cut = 0; cut < 2; cut++) {
      const server = `server-${random.below(SERVERS)}`;
      const options = { isOneWay: random.chance(0.5), breakLinks: random.chance(0.5) };
      cluster.clock.after(atMs, () => cluster.network.partition("worker-0", server, options));
      atMs += random.below(2 * LINK_TIMEOUT_MS);
      cluster.clock.after(atMs, () => cluster.network.heal());
      atMs += random.below(2000);
    }
    if (this.weather === "moving") return keepChanging(cluster, new Random(this.seed), 300, { count: 0 });
    if (this.weather === "links") return () => {};
    const head = idOf("server", random.below(SERVERS));
    cluster.clock.after(random.below(6000), () => {
      if (cluster.running(head)?.server?.replica?.log.isOn === true) cluster.kill(head);
    });
    return () => {};
  }

  async #pushAll(ways: Readonly<Record<string, Way>>): Promise<readonly End[]> {
    const random = this.#random;
    const names = Object.keys(ways);
    const ends: Promise<End>[] = [];
    for (let i = 0; i < UPDATES; i++) {
      const name = names[random.below(names.length)] as string;
      const keys = Array.from({ length: KEYS_EACH }, (_, at) => i * KEYS_EACH + at);
      ends.push(this.#update(`${name} ${i}`, ways[name] as Way, keys));
      await new Promise<void>((resolve) => this.cluster.clock.after(random.below(400), resolve));
    }
    return await Promise.all(ends);
  }

  #drawWait(): Wait {
    const random = this.#random;
    const kind = random.below(10);
    if (kind < 4) return {};
    if (kind < 7) return { timeoutMs: random.below(random.chance(0.5) ? 60 : 2 * LINK_TIMEOUT_MS) };
    const aborter = new AbortController();
    if (kind === 9) aborter.abort();
    else this.cluster.clock.after(random.below(random.chance(0.5) ? 60 : 2 * LINK_TIMEOUT_MS), () => aborter.abort());
    return { signal: aborter.signal };
  }

  async #update(what: string, way: Way, keys: readonly number[]): Promise<End> {
    const wait = this.#drawWait();
    try {
      for (let attempt = 1; ; attempt++) if (await this.#attempt(() => way.update(keys, wait), attempt)) break;
      this.#count("no failure");
      return { what, way, keys, outcome: "applied" };
    } catch (error) {
      if (!isWeighbridgeError(error)) throw error;
      const { outcome, parts, retryable } = error;
      const told = `${what}: ${outcome}, ${error.code}: ${error.message}`;
      assert.ok(outcome !== undefined, `${told}: no outcome`);
      if (retryable) assert.equal(outcome, "not-applied", `${told}: retryable`);
      if (wait.signal?.aborted === true && error.code === "ABORTED")
        assert.ok(outcome === "not-applied" || error.settled !== undefined, told);
      const settled = await error.settled;
      this.#count(settled === undefined ? outcome : `${outcome}, then ${settled}`);
      if (parts !== undefined && new Set(parts.map((part) => part.outcome)).size > 1) this.#count("mixed parts");
      return { what: told, way, keys, outcome, parts, settled };
    }
  }

  /** Whether the update has counted; false: it is to be repeated. Throws what may not be. */
  async #attempt(update: () => Promise<unknown>, attempt: number): Promise<boolean> {
    try {
      await update();
      return true;
    } catch (error) {
      if (!this.#repeats || !isWeighbridgeError(error) || attempt === 5) throw error;
      const settled = await error.settled;
      if (settled === "applied") return true;
      if (!error.retryable && settled !== "not-applied") throw error;
      this.#count("repeated");
      await new Promise<void>((resolve) => this.cluster.clock.after(1000, resolve));
      return false;
    }
  }

  async #checkAll(way: Way, ends: readonly End[]): Promise<void> {
    if (ends.length === 0) return;
    await this.#again(async () => await way.flush?.());
    const values = await this.#again(() => way.read(ends.flatMap(({ keys }) => keys)));
    for (const [i, end] of ends.entries())
      await this.#check(
        end,
        Array.from({ length: KEYS_EACH }, (_, at) => values[i * KEYS_EACH + at] as number),
      );
  }

  async #check({ what, way, keys, outcome, parts = [], settled }: End, values: readonly number[]): Promise<void> {
    const told = `${what}, settled ${settled}; the servers have ${values.join(" ")}`;
    for (const value of values) assert.ok(value === 0 || value === 1, told);
    for (const known of [outcome, settled]) {
      if (known === "applied") assert.ok(!values.includes(0), told);
      if (known === "not-applied") assert.ok(!values.includes(1), told);
    }
    if (way.ownersOf === undefined || this.weather === "moving") return;
    const owners = await way.ownersOf(keys);
    for (const { server, outcome: known } of parts) {
      const own = values.filter((_, i) => owners[i] === server);
      assert.ok(own.length > 0, `${told}: server ${server} has none of its keys`);
      if (known === "applied") assert.ok(!own.includes(0), `${told}: server ${server}`);
      if (known === "not-applied") assert.ok(!own.includes(1), `${told}: server ${server}`);
    }
  }

  async #again<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.cluster.run(run());
      } catch (thrown) {
        if (!isWeighbridgeError(thrown) || !(thrown.retryable || thrown.code === "LINK_LOST") || attempt === 50) throw thrown;
        await this.cluster.clock.advance(100);
      }
    }
  }

  #count(what: string): void {
    this.#tally.set(what, (this.#tally.get(what) ?? 0) + 1);
  }
}

/** Throws when an error said of an update what is not true. */
export async function runUpdateOutcomes(seed: number, options: OutcomesOptions): Promise<void> {
  await new UpdateOutcomes(seed, options).run();
}
