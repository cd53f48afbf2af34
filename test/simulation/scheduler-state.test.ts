// scheduler-state.test — Goal: a scheduler that dies at any moment has written down what it told: the next one goes on
// with the job, its incarnations, placement and catalogue as they were (Availability.I3).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Log } from "../../src/base/log.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { Membership } from "../../src/cluster/membership.ts";
import { catalogueFind, catalogueOpen } from "../../src/contracts/catalogue.ts";
import type { FileLayer, OpenFile } from "../../src/node/checkpoint/file-layer.ts";
import { FileStore } from "../../src/node/state/file-store.ts";
import { readLines } from "../../src/node/state/record-lines.ts";
import type { Scheduler } from "../../src/scheduler/scheduler.ts";
import { applyRecord, emptyState, type SchedulerState } from "../../src/scheduler/scheduler-state.ts";
import type { StateStore } from "../../src/scheduler/state-store.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS } from "../../src/testing/control-cluster.ts";
import { specText } from "../../src/testing/test-catalogues.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { type Mount, SimDisk } from "./sim-disk.ts";

const DIRECTORY = "/state/job@9000";
const RECORDS = `${DIRECTORY}/records`;
const HOSTS = ["s0", "s1", "w0", "w1"] as const;

/** A cluster whose scheduler writes to a disk, and dies at a moment that the test chooses. */
class DurableJob {
  readonly cluster: ControlCluster;
  readonly disk: SimDisk;
  readonly nodes = new Map<string, Membership>();
  /** The number of each name, as somebody was told. */
  readonly numbers = new Map<string, number>();
  readonly lines: string[] = [];
  /** Operations of the disk so far. */
  operations = 0;
  /** The scheduler dies before this operation, or behind it if it is not whole. */
  dieAt = Infinity;
  scheduler: Scheduler | undefined;
  #mount: Mount | undefined;
  #pid = 0;
  readonly #dead = new Set<number>();

  constructor(seed: number) {
    this.cluster = new ControlCluster({ seed, settle: SETTLING });
    this.disk = new SimDisk(new Random(seed), "/state");
  }

  store(): StateStore {
    const { clock } = this.cluster;
    const mount = this.disk.mount(clock, 2);
    const pid = ++this.#pid;
    this.#mount = mount;
    return new FileStore({
      directory: DIRECTORY,
      clock,
      log: this.log,
      layer: counted(mount.layer, (count) => this.#count(count)),
      self: { id: `scheduler-${pid}`, host: "sim", pid, startedAt: "" },
      isGone: (holder) => this.#dead.has(holder.pid),
    });
  }

  get log(): Log {
    const line = (message: string): void => void this.lines.push(message);
    return { ...SILENT_LOG, warn: line, error: line };
  }

  #count(step: number): void {
    this.operations += step;
    if (this.operations === this.dieAt) this.die();
  }

  die(): void {
    if (this.#mount === undefined) return;
    this.#mount.die();
    this.#mount = undefined;
    this.#dead.add(this.#pid);
    this.cluster.network.crash("scheduler");
  }

  get isDead(): boolean {
    return this.#mount === undefined;
  }

  async start(): Promise<void> {
    const { cluster } = this;
    for (const host of HOSTS) this.#join(host);
    cluster
      .scheduler({ store: this.store(), log: this.log })
      .then((scheduler) => (this.scheduler = scheduler))
      .catch(() => {}); // it died
    await cluster.clock.advance(2000);
  }

  #join(host: string): void {
    const role = host.startsWith("s") ? "server" : "worker";
    this.nodes.set(host, this.cluster.node(role, host, { rank: Number(host[1]) }).membership);
  }

  /** Everything that a scheduler has to write down happens once. */
  async run(): Promise<void> {
    await this.start();
    for (const name of ["a", "b"]) await this.open("w0", name);
    if (!this.isDead) {
      this.cluster.network.crash("s1");
      this.#join("s1");
      await this.cluster.clock.advance(2000);
    }
    if (!this.isDead) await this.#quietly(this.scheduler?.publishPlacement({ policy: "range" }));
    await this.open("w1", "c");
  }

  async #quietly(promise: Promise<unknown> | undefined): Promise<void> {
    promise?.catch(() => {}); // the scheduler died meanwhile
    await this.cluster.clock.advance(1000);
  }

  /** A worker makes a parameter; what it is told is noted. */
  async open(host: string, name: string): Promise<void> {
    const node = this.nodes.get(host);
    const asked = node?.callScheduler(catalogueOpen, { specs: [specText(name)] }).then(({ parameters }) => {
      const number = parameters[0]?.number ?? 0;
      assert.equal(this.numbers.get(name) ?? number, number, `${name} keeps its number`);
      this.numbers.set(name, number);
    });
    await this.#quietly(asked);
  }

  /** What is on the disk. */
  async written(): Promise<SchedulerState> {
    const { layer } = this.disk.mount(this.cluster.clock, 0);
    try {
      const file = await layer.open(RECORDS);
      const bytes = new Uint8Array(await file.size());
      await file.read(bytes, 0);
      return readLines(new TextDecoder().decode(bytes), RECORDS).records.reduce(applyRecord, emptyState());
    } catch (thrown) {
      assert.equal((thrown as { readonly code?: string }).code, "ENOENT");
      return emptyState();
    }
  }

  /** What nodes were told is on the disk. */
  async checkTold(): Promise<void> {
    const { incarnations, placement, catalogue } = await this.written();
    for (const { roster } of this.nodes.values()) {
      for (const { node, incarnation } of roster.nodes)
        assert.ok(incarnation <= (incarnations.get(node) ?? 0), `incarnation ${incarnation} of node ${node} was told and not written`);
      assert.ok((roster.placement?.epoch ?? 0) <= (placement?.epoch ?? 0), `epoch ${roster.placement?.epoch} was told and not written`);
      if (roster.placement?.epoch === placement?.epoch) assert.equal(roster.placement?.policy, placement?.policy);
    }
    for (const [name, number] of this.numbers)
      assert.equal(catalogue.entries.get(name)?.number, number, `number ${number} of ${name} was told and not written`);
  }

  /** A new scheduler goes on with what the old one told. */
  async goOn(): Promise<void> {
    const { clock } = this.cluster;
    const known = [...this.nodes.values()].filter(({ roster }) => roster.version > 0);
    const jobs = new Set(known.map(({ job }) => job));
    const epoch = Math.max(0, ...known.map(({ placement }) => placement?.epoch ?? 0));
    this.dieAt = Infinity;
    const scheduler = await clock.runUntil(this.cluster.scheduler({ store: this.store(), log: this.log }));
    this.scheduler = scheduler;
    await clock.advance(HEARTBEAT_TIMEOUT_MS + 4000);
    assert.equal(scheduler.status().phase, "running", this.lines.join("\n"));
    assert.deepEqual(scheduler.deadNodes(), []);
    if (jobs.size > 0) assert.deepEqual([...jobs], [scheduler.job]);
    assert.ok((scheduler.roster.placement?.epoch ?? 0) >= Math.max(1, epoch));
    for (const [host, { fatal }] of this.nodes) assert.equal(fatal, undefined, host);
    for (const name of ["a", "b", "c", "d"]) await this.open("w0", name);
    assert.equal(new Set(this.numbers.values()).size, 4, "no number is given to two names");
    assert.ok(!this.lines.some((line) => line.includes("older than what a node knows")), this.lines.join("\n"));
    await this.checkTold();
  }
}

/** Calls `step` with 0.5 before and 0.5 after every operation of the layer. */
function counted(layer: FileLayer, step: (count: number) => void): FileLayer {
  const count = async <T>(operation: () => Promise<T>): Promise<T> => {
    step(0.5);
    const result = await operation();
    step(0.5);
    return result;
  };
  const opened = (file: OpenFile): OpenFile => ({
    write: (bytes, position) => count(() => file.write(bytes, position)),
    read: (into, position) => file.read(into, position),
    size: () => file.size(),
    sync: () => count(() => file.sync()),
    close: () => file.close(),
  });
  return {
    ...layer,
    create: async (path) => opened(await count(() => layer.create(path))),
    open: async (path) => opened(await layer.open(path)),
    rename: (from, to) => count(() => layer.rename(from, to)),
    syncDirectory: (path) => count(() => layer.syncDirectory(path)),
  };
}

test("a scheduler that dies before or behind any operation of its disk has written what it told, and the next one goes on with it", async () => {
  const whole = new DurableJob(1);
  await whole.run();
  await whole.checkTold();
  assert.deepEqual(
    [...whole.numbers],
    [
      ["a", 1],
      ["b", 2],
      ["c", 3],
    ],
  );
  const { operations } = whole;
  assert.ok(operations > 20, `${operations} operations`);
  for (let dieAt = 0.5; dieAt <= operations; dieAt += 0.5) {
    const job = new DurableJob(1);
    job.dieAt = dieAt;
    await job.run();
    if (!job.isDead) continue; // beats of its lock come at other times
    if (dieAt % 3 === 0) job.disk.failPower();
    await assert.doesNotReject(job.checkTold(), `dies at operation ${dieAt}`);
    await assert.doesNotReject(job.goOn(), `dies at operation ${dieAt}`);
  }
});

test("for 20 seeds, a scheduler that is killed again and again at any moment, with the power of its machine, forgets nothing that it told", async () => {
  await forSeeds({ from: 1, count: 20 }, async (seed) => {
    const random = new Random(seed);
    const job = new DurableJob(seed);
    await job.run();
    for (let round = 0; round < 3; round++) {
      const names = Array.from({ length: 3 }, (_, i) => `${round}-${i}`);
      const opened = names.map((name) => job.open(random.chance(0.5) ? "w0" : "w1", name));
      await job.cluster.clock.advance(random.below(8));
      job.die();
      if (random.chance(0.5)) job.disk.failPower();
      await job.checkTold();
      job.scheduler = await job.cluster.clock.runUntil(job.cluster.scheduler({ store: job.store(), log: job.log }));
      await job.cluster.clock.advance(4000);
      await Promise.all(opened);
      for (const name of names) await job.open("w0", name);
    }
    const numbers = [...job.numbers.values()];
    assert.equal(new Set(numbers).size, numbers.length, `no number is given to two names: ${numbers.join(", ")}`);
    assert.ok(!job.lines.some((line) => line.includes("older than what a node knows")), job.lines.join("\n"));
  });
});

test("a state whose nodes do not come back in time is set aside with a message, and new nodes begin a new run", async () => {
  const job = new DurableJob(3);
  await job.run();
  const run = job.scheduler?.job;
  job.die();
  for (const host of HOSTS) job.cluster.network.crash(host);
  job.nodes.clear();
  job.numbers.clear();
  await job.start();
  assert.equal(job.scheduler?.status().phase, "forming", "nobody gets a rank before the old nodes had their time");
  await job.cluster.clock.advance(HEARTBEAT_TIMEOUT_MS);
  assert.equal(job.scheduler?.status().phase, "running");
  assert.notEqual(job.scheduler?.job, run);
  assert.ok(
    job.lines.some((line) => line.includes("set aside: none of its nodes came back within 5000 ms")),
    job.lines.join("\n"),
  );
  await job.open("w0", "z");
  assert.equal(job.numbers.get("z"), 1, "nothing of the old state is used");
  const { layer } = job.disk.mount(job.cluster.clock, 0);
  const names = await layer.list(DIRECTORY);
  assert.ok(names.includes("records.aside"), names.join(", "));
});

test("nodes of another run than that of the state are worth more than the state, which is set aside", async () => {
  const job = new DurableJob(4);
  await job.run();
  const old = job.scheduler?.job;
  job.die();
  for (const host of HOSTS) job.cluster.network.crash(host);
  const { workers } = await job.cluster.formed(); // a run without a state
  job.cluster.network.crash("scheduler");
  const scheduler = await job.cluster.clock.runUntil(job.cluster.scheduler({ store: job.store(), log: job.log }));
  await job.cluster.clock.advance(HEARTBEAT_TIMEOUT_MS);
  assert.equal(scheduler.job, workers[0]?.job);
  assert.notEqual(scheduler.job, old);
  assert.ok(job.lines.some((line) => /set aside: .* is of run/.test(line)));
  for (const { fatal } of workers) assert.equal(fatal, undefined);
});

test("a second scheduler on the directory of one that runs is refused by name, and the first goes on", async () => {
  const job = new DurableJob(5);
  await job.run();
  const second = job.store();
  await assert.rejects(
    job.cluster.clock.runUntil(second.open()),
    throwsCode("STATE_HELD", /process 1 on sim uses the state in .*--state-dir/),
  );
  await job.open("w0", "d");
  assert.equal(job.numbers.get("d"), 4);
});

test("a full disk: the scheduler tells nothing that it cannot write, and goes on when there is room again", async () => {
  const job = new DurableJob(6);
  await job.run();
  job.disk.roomBytes = 40;
  await job.open("w0", "d");
  await job.open("w1", "e");
  await job.checkTold();
  assert.deepEqual([job.numbers.has("d"), job.numbers.has("e")], [false, false]);
  assert.ok(job.lines.some((line) => line.includes("decides nothing until it can")));
  job.disk.roomBytes = Infinity;
  await job.cluster.clock.advance(2000);
  assert.deepEqual([job.numbers.get("d"), job.numbers.get("e")], [4, 5]);
  await job.checkTold();
});

test("a disk that is full for much longer than the heartbeat timeout costs no node its life (Scheduler.D2)", async () => {
  const job = new DurableJob(6);
  await job.run();
  const lineCount = job.lines.length;
  job.disk.roomBytes = 40;
  await job.open("w0", "d");
  await job.cluster.clock.advance(10 * HEARTBEAT_TIMEOUT_MS);
  job.disk.roomBytes = Infinity;
  await job.cluster.clock.advance(5 * HEARTBEAT_TIMEOUT_MS);
  assert.equal(job.numbers.get("d"), 4);
  assert.deepEqual(
    job.scheduler?.roster.nodes.filter(({ state }) => state !== "alive"),
    [],
  );
  for (const { fatal } of job.nodes.values()) assert.equal(fatal, undefined);
  assert.deepEqual(
    job.lines.slice(lineCount).filter((line) => line.includes("a node is dead")),
    [],
  );
});

test("a scheduler whose lock was taken over tells nothing more, ends, and leaves the job to the other one", async () => {
  const job = new DurableJob(7);
  await job.run();
  const old = job.scheduler as Scheduler;
  const { layer } = job.disk.mount(job.cluster.clock, 0);
  await layer.remove(`${DIRECTORY}/lock`);
  const file = await layer.create(`${DIRECTORY}/lock`);
  await file.write(new TextEncoder().encode(JSON.stringify({ id: "another", host: "elsewhere", pid: 9, startedAt: "" })), 0);
  await job.open("w0", "d");
  assert.equal(job.numbers.has("d"), false);
  const error = await job.cluster.clock.runUntil(old.failed);
  assert.ok(isWeighbridgeError(error, "STATE_HELD"), String(error));
  for (const { fatal } of job.nodes.values()) assert.equal(fatal, undefined, "no node was told that the job is over");
});

test("when everybody has left nothing remains on the disk", async () => {
  const job = new DurableJob(8);
  await job.run();
  const { clock } = job.cluster;
  await clock.runUntil(Promise.all([...job.nodes.values()].map((node) => node.leave())));
  await clock.runUntil(job.scheduler?.finished ?? Promise.resolve());
  await clock.runUntil(job.scheduler?.close() ?? Promise.resolve());
  const { layer } = job.disk.mount(clock, 0);
  assert.deepEqual(await layer.list("/state"), []);
});

test("a scheduler that died or was closed before anybody had a rank makes the next one wait for nobody, and leaves nothing", async () => {
  const job = new DurableJob(10);
  const { clock } = job.cluster;
  await clock.runUntil(job.cluster.scheduler({ store: job.store(), log: job.log }));
  job.die();
  await job.start();
  assert.equal(job.scheduler?.status().phase, "running");
  assert.deepEqual(job.lines, []);
  const alone = new DurableJob(11);
  const scheduler = await alone.cluster.clock.runUntil(alone.cluster.scheduler({ store: alone.store(), log: alone.log }));
  await alone.cluster.clock.runUntil(scheduler.close());
  assert.deepEqual(await alone.disk.mount(alone.cluster.clock, 0).layer.list("/state"), []);
});

test("a worker finds a parameter again that only dead nodes knew", async () => {
  const job = new DurableJob(9);
  await job.run();
  job.die();
  await job.goOn();
  const found = job.nodes.get("w1")?.callScheduler(catalogueFind, { name: "a" });
  assert.equal((await job.cluster.clock.runUntil(found ?? Promise.reject(new Error("no worker")))).entry?.number, 1);
});
