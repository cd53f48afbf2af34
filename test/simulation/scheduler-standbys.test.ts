// scheduler-standbys.test — Goal: of several schedulers of a job one leads, whatever is killed, stopped or cut off; the
// next one leads within a lease and a second, and knows everything that anybody was told (Availability.I3).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Membership } from "../../src/cluster/membership.ts";
import { catalogueOpen } from "../../src/contracts/catalogue.ts";
import { EtcdStore } from "../../src/node/state/etcd-store.ts";
import type { Scheduler } from "../../src/scheduler/scheduler.ts";
import { applyRecord, emptyState, type SchedulerState, type StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { ControlCluster } from "../../src/testing/control-cluster.ts";
import { specText } from "../../src/testing/test-catalogues.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { SimEtcd, type SimEtcdClient } from "./sim-etcd.ts";

const LEASE_MS = 3000;
const HOSTS = ["a", "b", "c"] as const;
const ADDRESSES = { schedulerAddress: "sim://a:9000", otherSchedulers: ["sim://b:9000", "sim://c:9000"] };
const COUNTS = { serverCount: 1, workerCount: 2 };
const PREFIX = "/weighbridge/job/";

type Candidate = {
  readonly host: string;
  readonly client: SimEtcdClient;
  readonly store: EtcdStore;
  scheduler: Scheduler | undefined;
  leadsSinceMs: number | undefined;
  isLost: boolean;
};

class Standbys {
  readonly cluster: ControlCluster;
  readonly etcd: SimEtcd;
  readonly random: Random;
  readonly nodes: Membership[] = [];
  readonly candidates = new Map<string, Candidate>();
  readonly numbers = new Map<string, number>();
  readonly lost: string[] = [];
  readonly refusals: string[] = [];
  #starts = 0;

  constructor(seed: number) {
    this.cluster = new ControlCluster({ ...COUNTS, seed, settle: SETTLING });
    this.random = new Random(seed);
    this.etcd = new SimEtcd(this.cluster.clock, this.random);
  }

  candidate(host: string, { standsByAgain = false }: { readonly standsByAgain?: boolean } = {}): Candidate {
    const { clock } = this.cluster;
    const client = this.etcd.client();
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const id = `${host}-${++this.#starts}`;
    const store = new EtcdStore({
      api: client,
      clock,
      log,
      job: "job",
      address: `sim://${host}:9000`,
      leaseMs: LEASE_MS,
      findMs: 10_000,
      id,
      standsByAgain,
    });
    const candidate: Candidate = { host, client, store, scheduler: undefined, leadsSinceMs: undefined, isLost: false };
    this.candidates.set(host, candidate);
    this.cluster.scheduler({ store }, host).then(
      (scheduler) => {
        candidate.scheduler = scheduler;
        candidate.leadsSinceMs = clock.nowMs();
        scheduler.onFailed(({ code }) => {
          candidate.isLost = true;
          this.lost.push(`${id} ${code}`);
        });
      },
      (thrown: unknown) => this.refusals.push(`${host} ${(thrown as WeighbridgeError).code}`), // it never led
    );
    return candidate;
  }

  get leaders(): Candidate[] {
    return [...this.candidates.values()].filter(({ scheduler, isLost, store }) => scheduler !== undefined && !isLost && store.isHeld);
  }

  async start(): Promise<void> {
    for (const host of HOSTS) {
      this.candidate(host);
      await this.cluster.clock.advance(100);
    }
    const named = [["server", "s0"] as const, ["worker", "w0"] as const, ["worker", "w1"] as const];
    for (const [role, host] of named) {
      const { membership, joined } = this.cluster.node(role, host, { ...ADDRESSES, rank: Number(host[1]) });
      this.nodes.push(membership);
      await this.cluster.clock.advance(10);
      joined.catch(() => {});
    }
    await this.cluster.clock.advance(2000);
    assert.equal(this.leaders.length, 1);
  }

  kill({ host, store, client }: Candidate): void {
    client.isCut = true; // nothing of it comes to anything any more
    this.candidates.delete(host);
    this.cluster.network.crash(host);
    store.close().catch(() => {});
  }

  async open(name: string): Promise<void> {
    const node = this.nodes[1 + this.random.below(2)];
    const opened = node?.callScheduler(catalogueOpen, { specs: [specText(name)] }).then(({ parameters }) => {
      const number = parameters[0]?.number ?? 0;
      assert.equal(this.numbers.get(name) ?? number, number, `${name} keeps its number`);
      this.numbers.set(name, number);
    });
    opened?.catch(() => {}); // it is asked again
    await this.cluster.clock.advance(50);
  }

  written(): SchedulerState {
    const generation = this.etcd.entries.get(`${PREFIX}state`)?.value ?? "";
    const records = this.etcd.list(`${PREFIX}records/${generation}/`).flatMap(({ value }) => JSON.parse(value) as StateRecord[]);
    return records.reduce(applyRecord, emptyState());
  }

  checkTold(): void {
    const { incarnations, placement, catalogue } = this.written();
    for (const { roster } of this.nodes) {
      for (const { node, incarnation } of roster.nodes)
        assert.ok(incarnation <= (incarnations.get(node) ?? 0), `incarnation ${incarnation} of node ${node} was told and not written`);
      assert.ok((roster.placement?.epoch ?? 0) <= (placement?.epoch ?? 0));
    }
    for (const [name, number] of this.numbers)
      assert.equal(catalogue.entries.get(name)?.number, number, `number ${number} of ${name} was told and not written`);
    assert.ok(this.leaders.length <= 1, `${this.leaders.map(({ host }) => host).join(" and ")} lead at once`);
  }
}

test("of three schedulers one leads; when it is killed another one does within a lease and a second, with the job as it was", async () => {
  const job = new Standbys(1);
  await job.start();
  await job.open("p");
  const [first] = job.leaders;
  assert.equal(first?.host, "a");
  assert.deepEqual(first.store.standbys.toSorted(), ["sim://b:9000", "sim://c:9000"]);
  assert.deepEqual(first.scheduler?.status().standbys?.length, 2);
  const before = job.written();
  const killedAtMs = job.cluster.clock.nowMs();
  job.kill(first);
  await job.cluster.clock.advance(LEASE_MS + 1000);
  const [second] = job.leaders;
  assert.ok(second?.leadsSinceMs !== undefined && second.leadsSinceMs - killedAtMs <= LEASE_MS + 1000);
  await job.cluster.clock.advance(2000);
  const after = job.written();
  assert.ok(after.term > before.term);
  assert.deepEqual([after.job, after.incarnations, after.placement], [before.job, before.incarnations, before.placement]);
  await job.open("q");
  assert.deepEqual(
    [...job.numbers],
    [
      ["p", 1],
      ["q", 2],
    ],
  );
  for (const { fatal } of job.nodes) assert.equal(fatal, undefined);
});

test("a leader that closes hands over at once", async () => {
  const job = new Standbys(2);
  await job.start();
  const [first] = job.leaders;
  assert.ok(first?.scheduler !== undefined);
  await job.cluster.clock.runUntil(first.scheduler.close());
  job.candidates.delete(first.host);
  await job.cluster.clock.advance(500);
  assert.equal(job.leaders.length, 1);
});

test("a job that ends leaves nothing in etcd, and its standbys end too", async () => {
  const job = new Standbys(6);
  await job.start();
  const { clock } = job.cluster;
  const [leader] = job.leaders;
  await clock.runUntil(Promise.all(job.nodes.map((node) => node.leave())));
  await clock.runUntil(leader?.scheduler?.finished ?? Promise.resolve());
  await clock.runUntil(leader?.scheduler?.close() ?? Promise.resolve());
  await clock.advance(2000);
  assert.deepEqual(job.refusals.toSorted(), ["b CLOSED", "c CLOSED"]);
  assert.deepEqual(job.etcd.list(PREFIX), []);
});

test("a leader that etcd does not answer tells nothing once its lease is over, ends, and the nodes go on with the next", async () => {
  const job = new Standbys(3);
  await job.start();
  const [first] = job.leaders;
  assert.ok(first !== undefined);
  first.client.isCut = true;
  await job.open("p");
  assert.equal(job.numbers.size, 0, "what cannot be written is not told");
  await job.cluster.clock.advance(LEASE_MS + 3000);
  assert.ok(first.isLost);
  assert.match(job.lost[0] ?? "", /^a-1 FENCED$/);
  await job.open("p");
  await job.cluster.clock.advance(2000);
  assert.equal(job.numbers.get("p"), 1);
  for (const { fatal } of job.nodes) assert.equal(fatal, undefined);
});

test("a leader that etcd did not answer for longer than its lease stands by again and leads again, with the job as it was", async () => {
  const job = new Standbys(3);
  const { clock } = job.cluster;
  await job.start();
  const [first] = job.leaders;
  assert.ok(first?.scheduler !== undefined);
  for (const other of job.candidates.values()) if (other !== first) job.kill(other);
  await job.open("p");
  first.client.isCut = true;
  await clock.advance(LEASE_MS + 1000);
  assert.ok(first.isLost);
  await clock.runUntil(first.scheduler.close()); // as its process does (run-scheduler.ts)
  const again = job.candidate(first.host, { standsByAgain: true });
  await clock.advance(2000);
  assert.deepEqual(job.leaders, [again]);
  await clock.advance(2000);
  await job.open("q");
  assert.deepEqual([...job.numbers.values()], [1, 2]);
  job.checkTold();
  for (const { fatal } of job.nodes) assert.equal(fatal, undefined);
});

test("a scheduler that stands by again ends when its job has ended meanwhile, though it never saw it from there (EtcdStore.E5)", async () => {
  const job = new Standbys(8);
  job.candidate("a", { standsByAgain: true });
  await job.cluster.clock.advance(2000);
  assert.deepEqual(job.refusals, ["a CLOSED"]);
});

test("a standby that cannot reach etcd when it starts says so in time; one that is closed while it stands by ends", async () => {
  const job = new Standbys(4);
  const { clock } = job.cluster;
  const api = job.etcd.client();
  api.isCut = true;
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const options = { api, clock, log, job: "job", address: "sim://x:1", leaseMs: LEASE_MS, findMs: 10_000 };
  await assert.rejects(clock.runUntil(new EtcdStore(options).open()), throwsCode("STATE_IO", /etcd does not answer/));
  const leader = new EtcdStore({ ...options, api: job.etcd.client(), address: "sim://leader:1" });
  await clock.runUntil(leader.open());
  const seen: string[] = [];
  const standby = new EtcdStore({ ...options, api: job.etcd.client(), onStandby: (address) => seen.push(address) });
  const opened = standby.open();
  opened.catch(() => {});
  await clock.advance(5000);
  assert.deepEqual(seen, ["sim://leader:1"]);
  await clock.runUntil(standby.close());
  await assert.rejects(clock.runUntil(opened), throwsCode("ABORTED"));
});

test("a state is written in pieces that etcd takes, and read back whole; what was set aside is kept once", async () => {
  const { cluster, etcd } = new Standbys(5);
  const { clock } = cluster;
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const records = Array.from({ length: 40 }, (_, number): StateRecord => {
    return { version: 1, kind: "parameter", name: `p${number}`, number: number + 1, edition: 1, spec: "s".repeat(100_000) };
  });
  const open = async (): Promise<{ store: EtcdStore; read: readonly StateRecord[] }> => {
    const store = new EtcdStore({ api: etcd.client(), clock, log, job: "job", address: "sim://x:1", leaseMs: 60_000, findMs: 10_000 });
    return { store, read: await clock.runUntil(store.open()) };
  };
  const first = await open();
  assert.deepEqual(first.read, []);
  await clock.runUntil(first.store.replace(records.slice(0, 20), { keepsOld: false }));
  await clock.runUntil(first.store.append(records.slice(20)));
  for (const { value } of etcd.list(PREFIX)) assert.ok(value.length < 512 * 1024, `${value.length} characters`);
  await clock.runUntil(first.store.close());
  const second = await open();
  assert.deepEqual(second.read, records);
  for (const keepsOld of [true, true, false]) {
    await clock.runUntil(second.store.replace(records.slice(0, 2), { keepsOld }));
    await clock.runUntil(second.store.append(records.slice(2, 3)));
  }
  const generations = new Set(etcd.list(`${PREFIX}records/`).map(({ key }) => key.split("/")[4]));
  assert.equal(generations.size, 2, [...generations].join(", "));
  await clock.runUntil(second.store.clear());
  await clock.runUntil(second.store.close());
  assert.deepEqual((await open()).read, []);
});

test("a leader whose lease was taken away before its time writes nothing, and learns that it was replaced (EtcdStore.E1)", async () => {
  const { cluster, etcd } = new Standbys(7);
  const { clock } = cluster;
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const record = (number: number): StateRecord => ({ version: 1, kind: "highest", number });
  const open = async (): Promise<EtcdStore> => {
    const store = new EtcdStore({ api: etcd.client(), clock, log, job: "job", address: "sim://x:1", leaseMs: 60_000, findMs: 10_000 });
    await clock.runUntil(store.open());
    return store;
  };
  for (const write of ["append", "replace"] as const) {
    const old = await open();
    await clock.runUntil(old.replace([record(1)], { keepsOld: false }));
    etcd.end(etcd.entries.get(`${PREFIX}leader`)?.lease ?? "");
    const next = await open();
    await clock.runUntil(next.replace([record(2)], { keepsOld: false }));
    const before = etcd.list(`${PREFIX}records/`);
    let lost = "";
    old.onLost = ({ code }) => {
      lost = code;
    };
    assert.ok(old.isHeld, "it does not know");
    const written = write === "append" ? old.append([record(3)]) : old.replace([record(3)], { keepsOld: false });
    await assert.rejects(clock.runUntil(written), throwsCode("FENCED", /another scheduler leads/));
    assert.deepEqual([lost, old.isHeld, etcd.list(`${PREFIX}records/`)], ["FENCED", false, before]);
    await clock.runUntil(next.close());
  }
});

test("for 30 seeds of killed, stopped and cut off schedulers, no two lead at once and nothing is told that the next does not know", async () => {
  let takeovers = 0;
  await forSeeds({ from: 1, count: 30 }, async (seed) => {
    const job = new Standbys(seed);
    const { random, cluster } = job;
    await job.start();
    for (let step = 0; step < 12; step++) {
      const [leader] = job.leaders;
      const chance = random.below(10);
      if (leader !== undefined && chance < 2) {
        job.kill(leader);
        takeovers++;
      } else if (leader !== undefined && chance < 5) {
        // cut off from etcd, from the nodes, or from both: stopped
        if (chance !== 3) leader.client.isCut = true;
        if (chance !== 2) cluster.network.isolate(leader.host);
      } else if (chance < 6) for (const { client } of job.candidates.values()) client.lossPercent = random.below(40);
      for (let turn = 0; turn < 3; turn++) await job.open(`${step}-${turn}`);
      for (let turn = 0; turn < 20; turn++) {
        await cluster.clock.advance(random.below(200));
        job.checkTold();
      }
      if (random.chance(0.3)) {
        cluster.network.heal();
        for (const candidate of job.candidates.values()) candidate.client.isCut = false;
      }
      for (const host of HOSTS) {
        const candidate = job.candidates.get(host);
        if (candidate?.isLost === true) job.kill(candidate);
        if (!job.candidates.has(host) && random.chance(0.7)) job.candidate(host);
      }
    }
    cluster.network.heal();
    for (const { client } of job.candidates.values()) Object.assign(client, { isCut: false, lossPercent: 0 });
    for (const host of HOSTS) if (job.candidates.get(host)?.isLost !== false) job.candidate(host);
    await cluster.clock.advance(30_000);
    job.checkTold();
    assert.equal(job.leaders.length, 1);
    const numbers = [...job.numbers.values()];
    assert.equal(new Set(numbers).size, numbers.length, "no number is given to two names");
    for (const { fatal } of job.nodes) assert.equal(fatal, undefined);
  });
  assert.ok(takeovers > 20, `${takeovers} kills`);
});
