// Goal: nodes of every role are killed and come back, several times, while workers push. Nobody hangs, acknowledged
// pushes are there as long as their server lives, nothing counts twice, every node gets its rank back, and the job ends
// well.

import assert from "node:assert/strict";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { Group, idOf, rankOf, roleOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const SERVERS = 2;
const WORKERS = 2;
const STEPS = 10;

/** What is known of one key, which one worker alone pushes ones to. */
type Account = { holder: number; sure: number; maybe: number };

class Crashes {
  readonly seed: number;
  readonly random: Random;
  readonly cluster: SimCluster;
  /** How often each server was started. */
  readonly holders: number[] = Array.from({ length: SERVERS }, () => 1);
  readonly accounts: Account[][] = Array.from({ length: WORKERS }, () =>
    Array.from({ length: SERVERS }, () => ({ holder: 1, sure: 0, maybe: 0 })),
  );
  readonly done: number[] = Array.from({ length: WORKERS }, () => 0);
  readonly #kvWorkers = new WeakMap<Postoffice, KVWorker>();
  readonly #passed: boolean[] = Array.from({ length: WORKERS }, () => false);
  readonly #through = new AbortController();
  #ended = false;

  constructor(seed: number) {
    this.seed = seed;
    this.random = new Random(seed);
    this.cluster = new SimCluster({
      seed,
      serverCount: SERVERS,
      workerCount: WORKERS,
      network: { latencyMsMin: 0, latencyMsMax: 1 + this.random.below(10), breakChance: this.random.below(2) * 0.005 },
      heartbeatIntervalMs: 100,
      heartbeatTimeoutMs: 1000,
      settle: SETTLING,
    });
  }

  async run(): Promise<void> {
    const { cluster } = this;
    await cluster.start();
    for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
    const finished = Promise.all(Array.from({ length: WORKERS }, (_, rank) => this.#workUntilDone(rank)));
    const chaos = this.#chaos(1 + this.random.below(3));
    await cluster.run(Promise.all([finished, chaos]));
    this.#ended = true;
    await cluster.finalize();
  }

  /** Kills a node of any role, and starts it again later; `rounds` times, often the same one. */
  async #chaos(rounds: number): Promise<void> {
    const { cluster, random } = this;
    const nodes = cluster.nodes();
    let victim = nodes[random.below(nodes.length)] as number;
    for (let round = 0; round < rounds; round++) {
      await this.#sleep(random.below(400));
      if (random.chance(0.5)) victim = nodes[random.below(nodes.length)] as number;
      cluster.kill(victim);
      if (roleOf(victim) === "server") this.holders[rankOf(victim)] = (this.holders[rankOf(victim)] as number) + 1;
      await this.#sleep(random.below(2) * random.below(3000));
      const office = await cluster.startNode(victim);
      assert.equal(office.nodeId, victim, "a restarted node has its rank back");
      assert.ok(office.isRecovery, "and knows that it is one");
      if (roleOf(victim) === "server") new KVServer(office, 0);
    }
  }

  /** Works in whichever incarnation the worker has, until all steps are done. */
  async #workUntilDone(rank: number): Promise<void> {
    const node = idOf("worker", rank);
    while ((this.done[rank] as number) < STEPS) {
      try {
        await this.#work(this.#kvWorker(this.cluster.office(node)), rank);
      } catch (thrown) {
        if (this.#ended || !isMishap(thrown)) throw thrown;
        await this.#sleep(50);
      }
    }
    // A worker that died after the others had been let through stands at their barrier alone: it must not wait for
    // them.
    while (!this.#passed.some(Boolean)) {
      try {
        await this.cluster.office(node).barrier(0, Group.WORKERS, { timeoutMs: 30_000, signal: this.#through.signal });
        this.#passed[rank] = true;
        await this.#sleep(100);
        this.#through.abort();
      } catch (thrown) {
        if (!isMishap(thrown)) throw thrown;
        await this.#sleep(50);
      }
    }
  }

  #kvWorker(office: Postoffice): KVWorker {
    const known = this.#kvWorkers.get(office) ?? new KVWorker(office, 0);
    this.#kvWorkers.set(office, known);
    return known;
  }

  async #work(kv: KVWorker, rank: number): Promise<void> {
    for (; (this.done[rank] as number) < STEPS; this.done[rank] = (this.done[rank] as number) + 1) {
      await this.#sleep(this.random.below(60));
      await this.#push(kv, rank, this.random.below(SERVERS));
      for (let server = 0; server < SERVERS; server++) await this.#check(kv, rank, server);
    }
  }

  async #push(kv: KVWorker, rank: number, server: number): Promise<void> {
    const holderBefore = this.holders[server] as number;
    try {
      await kv.wait(kv.push(keyOf(rank, server), Float32Array.of(1)), { timeoutMs: 30_000 });
    } catch (thrown) {
      this.#account(rank, server).maybe++;
      throw thrown;
    }
    const account = this.#account(rank, server);
    if (this.holders[server] === holderBefore) account.sure++;
    else account.maybe++;
  }

  async #check(kv: KVWorker, rank: number, server: number): Promise<void> {
    const holderBefore = this.holders[server] as number;
    const before = { ...this.#account(rank, server) };
    const read = new Float32Array(1);
    await kv.wait(kv.pull(keyOf(rank, server), read), { timeoutMs: 30_000 });
    if (this.holders[server] !== holderBefore) return;
    const [value = -1] = read;
    const { sure, maybe } = before;
    assert.ok(value >= sure && value <= sure + maybe, `worker ${rank} at server ${server}: ${value} is not in ${sure} … ${sure + maybe}`);
  }

  /** A new incarnation of a server knows nothing of the old one. */
  #account(rank: number, server: number): Account {
    const account = this.accounts[rank]?.[server] as Account;
    const holder = this.holders[server] as number;
    if (account.holder !== holder) Object.assign(account, { holder, sure: 0, maybe: 0 });
    return account;
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((wake) => this.cluster.clock.after(ms, wake));
  }
}

function keyOf(worker: number, server: number): BigUint64Array {
  return BigUint64Array.of(BigInt(server) * 2n ** 63n + BigInt(worker));
}

/** What may happen to a caller while nodes die. DEADLINE is none of it: that would be a hang. */
function isMishap(thrown: unknown): boolean {
  const codes = ["NODE_DEAD", "CLOSED", "ABORTED"] as const;
  return codes.some((code) => isWeighbridgeError(thrown, code)) || String(thrown).includes("is not running");
}

/** Throws when something hangs, is lost, or counts twice. */
export async function runCrashes(seed: number): Promise<void> {
  await new Crashes(seed).run();
}
