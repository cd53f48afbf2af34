// control-plane.test — Goal: whole control planes under seeded faults: lost, doubled and reordered frames, broken
// links, crashes and restarts, of the scheduler as well. Whatever happens, barriers are passed together, and at the end
// everybody agrees on who is there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { Membership } from "../../src/cluster/membership.ts";
import { Peer } from "../../src/peer/peer.ts";
import { PlainReadBuffers } from "../../src/peer/request-assembly.ts";
import { Scheduler } from "../../src/scheduler/scheduler.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { SimNetwork } from "../../src/testing/sim-network.ts";
import { Group, type Role, rankOf, roleOf } from "../../src/wire/node-id.ts";

const HOSTS = ["s0", "s1", "w0", "w1", "w2"] as const;
const COUNTS = { serverCount: 2, workerCount: 3 };
const TIMEOUT_MS = 5000;

class Storm {
  readonly clock = new SimClock();
  readonly random: Random;
  readonly network: SimNetwork;
  readonly nodes = new Map<string, Membership>();
  readonly fatal: string[] = [];
  readonly #readBuffers = new PlainReadBuffers();
  readonly #seed: number;
  #starts = 0;
  scheduler: Scheduler | undefined;

  constructor(seed: number) {
    this.#seed = seed;
    this.random = new Random(seed);
    this.network = new SimNetwork({ clock: this.clock, seed, breakChance: 0.01 });
  }

  #peer(host: string): Peer {
    const faults = { dropPercent: 5, duplicatePercent: 5, reorderPercent: 5, delayMs: 20, seed: this.#seed };
    const options = {
      clock: this.clock,
      log: SILENT_LOG,
      readBuffers: this.#readBuffers,
      resendTimeoutMs: 300,
      faults,
      acceptsAnonymous: host === "scheduler",
    };
    return new Peer({ ...options, transport: this.network.host(host) });
  }

  async startScheduler(): Promise<void> {
    const incarnation = ++this.#starts;
    this.scheduler = new Scheduler({
      ...COUNTS,
      peer: this.#peer("scheduler"),
      clock: this.clock,
      log: SILENT_LOG,
      heartbeatIntervalMs: 1000,
      heartbeatTimeoutMs: TIMEOUT_MS,
      startTimeoutMs: 60_000,
      incarnation,
      jobId: `job/${incarnation}`,
    });
    await this.scheduler.start("sim://scheduler:1");
  }

  /** With its rank of before, or any. */
  start(host: string): Promise<void> {
    const before = this.nodes.get(host)?.node;
    const role: Role = host.startsWith("s") ? "server" : "worker";
    const membership = new Membership({
      ...COUNTS,
      peer: this.#peer(host),
      clock: this.clock,
      log: SILENT_LOG,
      role,
      rank: this.random.chance(0.5) && before !== undefined ? rankOf(before) : undefined,
      address: `sim://${host}:1`,
      label: host,
      schedulerAddress: "sim://scheduler:1",
      startTimeoutMs: 60_000,
      token: `${host}#${++this.#starts}`,
    });
    this.nodes.set(host, membership);
    membership.onFatal((error) => this.fatal.push(`${host}: ${error.message}`));
    return membership.join();
  }

  /** Crashes the host of a node or of the scheduler, and starts it again after a while. */
  async restart(host: string): Promise<void> {
    this.network.crash(host, { silent: this.random.chance(0.3) });
    await this.clock.advance(this.random.below(2 * TIMEOUT_MS));
    if (host === "scheduler") await this.startScheduler();
    else await this.clock.runUntil(this.start(host), { untilMs: this.clock.nowMs() + 60_000 });
  }
}

test("for 25 seeds, everybody agrees after a storm of faults, crashes and restarts", async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const storm = new Storm(seed);
    await storm.startScheduler();
    await storm.clock.runUntil(Promise.all(["s0", "s1", "w0", "w1", "w2"].map((host) => storm.start(host))));
    for (let blow = 0; blow < 4; blow++) {
      const host = storm.random.chance(0.4) ? "scheduler" : (HOSTS[storm.random.below(HOSTS.length)] as string);
      await storm.restart(host);
      await storm.clock.advance(storm.random.below(3000));
    }
    storm.network.breakChance = 0;
    await storm.clock.advance(4 * TIMEOUT_MS);
    assert.deepEqual(storm.fatal, [], `seed ${seed}`);
    const members = [...storm.nodes.values()];
    const rosters = new Set(members.map(({ roster: { nodes, placement } }) => JSON.stringify({ nodes, placement })));
    assert.equal(rosters.size, 1, `seed ${seed}: ${[...rosters].join("\n")}`);
    const ofRole = (role: Role): Set<string> =>
      new Set(members.filter(({ node }) => roleOf(node) === role).map(({ roster }) => JSON.stringify(roster)));
    for (const role of ["server", "worker"] as const) assert.equal(ofRole(role).size, 1, `seed ${seed}: ${[...ofRole(role)].join("\n")}`);
    assert.deepEqual(storm.scheduler?.deadNodes(), [], `seed ${seed}`);
    const slots = new Set([...storm.nodes.values()].map(({ node }) => node));
    assert.equal(slots.size, HOSTS.length, `seed ${seed}: two nodes in one slot`);
  }
});

test("for 25 seeds, barriers are passed together through faults and restarts of the scheduler", async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const storm = new Storm(seed);
    await storm.startScheduler();
    await storm.clock.runUntil(Promise.all(HOSTS.map((host) => storm.start(host))));
    const rounds = new Map<string, number>();
    const run = async (host: string, membership: Membership): Promise<void> => {
      for (let round = 1; round <= 12; round++) {
        await membership.barrier(Group.WORKERS | Group.SERVERS, 0);
        rounds.set(host, round);
        const spread = [...rounds.values()].map((passed) => Math.abs(passed - round));
        assert.ok(Math.max(...spread) <= 1, `seed ${seed}: somebody is more than a round off`);
      }
    };
    const runs = Promise.all([...storm.nodes].map(([host, membership]) => run(host, membership)));
    for (let restart = 0; restart < 3; restart++) {
      await storm.clock.advance(storm.random.below(200));
      storm.network.crash("scheduler");
      await storm.clock.advance(storm.random.below(2000));
      await storm.startScheduler();
    }
    await storm.clock.runUntil(runs, { untilMs: storm.clock.nowMs() + 60_000 });
    assert.deepEqual([...rounds.values()], [12, 12, 12, 12, 12], `seed ${seed}`);
    assert.deepEqual(storm.fatal, []);
  }
});

test("for 25 seeds, a barrier with deaths inside is passed or failed by everybody, and passed at last", async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const storm = new Storm(seed);
    await storm.startScheduler();
    await storm.clock.runUntil(Promise.all(HOSTS.map((host) => storm.start(host))));
    const standing = (host: string): Promise<string> =>
      (storm.nodes.get(host) as Membership).barrier(Group.WORKERS, 0).then(
        () => "passed",
        (error: unknown) => (isWeighbridgeError(error, "NODE_DEAD") ? "dead" : `${host}: ${String(error)}`),
      );
    const first = ["w0", "w1"].map(standing);
    await storm.clock.advance(storm.random.below(500));
    const crashed = storm.random.chance(0.5) ? "w1" : "w2";
    storm.network.crash(crashed, { silent: storm.random.chance(0.5) });
    const survivors = crashed === "w2" ? first : first.slice(0, 1);
    const outcomes = await storm.clock.runUntil(Promise.all(survivors), { untilMs: storm.clock.nowMs() + 2 * TIMEOUT_MS });
    assert.deepEqual(new Set(outcomes), new Set(["dead"]), `seed ${seed}`);
    await storm.clock.runUntil(storm.start(crashed), { untilMs: storm.clock.nowMs() + 60_000 });
    for (let attempt = 0; ; attempt++) {
      const outcomes = await storm.clock.runUntil(Promise.all(["w0", "w1", "w2"].map(standing)));
      if (outcomes.every((outcome) => outcome === "passed")) break;
      assert.ok(attempt < 3, `seed ${seed}: ${outcomes.join(", ")}`);
    }
  }
});
