// scheduler-records.test — Goal: a scheduler's state is what its records say, in every run: replayed, also from JSON,
// they give the same state, whatever nodes, links and schedulers did; and a name has one number in all of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { rememberCatalogue } from "../../src/cluster/catalogue-calls.ts";
import type { Membership } from "../../src/cluster/membership.ts";
import { catalogueClear, catalogueOpen, catalogueReserve } from "../../src/contracts/catalogue.ts";
import type { Scheduler } from "../../src/scheduler/scheduler.ts";
import { applyRecord, emptyState, type StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { ControlCluster } from "../../src/testing/control-cluster.ts";
import { FixedCatalogue, specText } from "../../src/testing/test-catalogues.ts";
import type { Role } from "../../src/wire/node-id.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 12;
const STEPS = 30;
const HOSTS = ["s0", "s1", "w0", "w1"] as const;
const NAMES = ["a", "b", "c", "d", "e", "f"] as const;

class Storm {
  readonly random: Random;
  readonly cluster: ControlCluster;
  readonly nodes = new Map<string, Membership>();
  /** What each node knows, by host; lost with its process. */
  readonly known = new Map<string, FixedCatalogue>();
  /** Every number that a name was ever given. */
  readonly numbers = new Map<string, Set<number>>();
  records: StateRecord[] = [];
  scheduler: Scheduler | undefined;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.cluster = new ControlCluster({ seed });
  }

  async start(): Promise<void> {
    const { servers, workers } = await this.cluster.formed({ onRecord: (record) => this.records.push(record) }).then((formed) => {
      this.scheduler = formed.scheduler;
      return formed;
    });
    for (const [i, membership] of [...servers, ...workers].entries()) this.#join(HOSTS[i] as string, membership);
  }

  #join(host: string, membership: Membership): void {
    const known = new FixedCatalogue();
    rememberCatalogue(membership, known, SILENT_LOG);
    this.nodes.set(host, membership);
    this.known.set(host, known);
  }

  async step(): Promise<void> {
    const { random, cluster } = this;
    const chance = random.fraction();
    if (chance < 0.1) await this.#restartScheduler();
    else if (chance < 0.2) await this.#restartNode(HOSTS[random.below(HOSTS.length)] as string);
    else if (chance < 0.25) await this.#newPlacement();
    else await this.#ask();
    await cluster.clock.advance(random.below(3000));
  }

  async #restartScheduler(): Promise<void> {
    this.cluster.network.crash("scheduler");
    await this.cluster.clock.advance(this.random.below(5000));
    this.records = [];
    this.scheduler = await this.cluster.scheduler({ onRecord: (record) => this.records.push(record) });
  }

  async #restartNode(host: string): Promise<void> {
    this.cluster.network.crash(host);
    const role: Role = host.startsWith("s") ? "server" : "worker";
    this.#join(host, await this.cluster.restarted(role, host, { rank: Number(host[1]) }));
    if (role === "server")
      for (const entry of this.known.get(host === "s0" ? "s1" : "s0")?.entries() ?? []) this.known.get(host)?.add(entry);
  }

  async #newPlacement(): Promise<void> {
    const policy = this.random.chance(0.5) ? "ring" : "range";
    try {
      await this.cluster.clock.runUntil(this.scheduler?.publishPlacement({ policy }) ?? Promise.resolve());
    } catch (error) {
      assert.ok(isWeighbridgeError(error, "NO_ROUTE"), String(error)); // not all nodes were heard of
    }
  }

  /** A worker makes, reserves or clears a name; the servers hear of it as workers tell them. */
  async #ask(): Promise<void> {
    const { random, cluster } = this;
    const host = random.chance(0.5) ? "w0" : "w1";
    const membership = this.nodes.get(host) as Membership;
    const name = NAMES[random.below(NAMES.length)] as string;
    const run = <T>(promise: Promise<T>): Promise<T> => cluster.clock.runUntil(promise, { untilMs: cluster.clock.nowMs() + 60_000 });
    const spec = specText(name);
    if (random.chance(0.2)) {
      await run(membership.callScheduler(catalogueReserve, { names: [name] }));
      return;
    }
    const { parameters } = await run(membership.callScheduler(catalogueOpen, { specs: [spec] }));
    const { number = 0, edition = 0 } = parameters[0] ?? {};
    const seen = this.numbers.get(name) ?? new Set();
    this.numbers.set(name, seen.add(number));
    this.#tell(host, { name, number, edition, spec });
    if (random.chance(0.7)) return;
    await run(membership.callScheduler(catalogueClear, { name, edition }));
    this.#tell(host, { name, number, edition: edition + 1 });
  }

  #tell(host: string, entry: Parameters<FixedCatalogue["add"]>[0]): void {
    for (const knower of [host, "s0", "s1"]) this.known.get(knower)?.add(entry);
  }
}

test(`replaying all records of a scheduler gives its state, also after they were JSON, for ${SEEDS} seeds (SchedulerState.S1)`, async () => {
  let recordCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const storm = new Storm(seed);
    await storm.start();
    const begun = storm.scheduler?.job;
    for (let step = 0; step < STEPS; step++) {
      await storm.step();
      const replayed = storm.records.reduce(applyRecord, emptyState());
      assert.deepEqual(replayed, storm.scheduler?.state, `step ${step}`);
      const stored = (JSON.parse(JSON.stringify(storm.records)) as StateRecord[]).reduce(applyRecord, emptyState());
      assert.deepEqual(JSON.stringify([...stored.catalogue.entries]), JSON.stringify([...replayed.catalogue.entries]), `step ${step}`);
      assert.deepEqual(stored.incarnations, replayed.incarnations);
      recordCount += storm.records.length;
    }
    const { incarnations, placement, term, job } = storm.scheduler?.state ?? emptyState();
    const { roster } = storm.scheduler as Scheduler;
    for (const { node, incarnation } of roster.nodes)
      assert.equal(incarnations.get(node), incarnation, "the roster is a view of the state");
    assert.deepEqual([roster.placement, job], [placement, begun]);
    assert.ok(term >= 1);
    const given = [...storm.numbers.values()].flatMap((numbers) => [...numbers]);
    assert.equal(new Set(given).size, given.length, `no number was given to two names: ${given.join(", ")}`);
    for (const [name, numbers] of storm.numbers) assert.equal(numbers.size, 1, `${name} has the numbers ${[...numbers].join(", ")}`);
  });
  assert.ok(recordCount > SEEDS * STEPS, "there is something to replay");
});
