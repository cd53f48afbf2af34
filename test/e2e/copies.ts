// copies — a cluster whose servers have two processes each, of which one after the other is killed or stopped, as a
// seed says, and started again: the next is struck when every rank has two copies again that have everything. Of those
// that were stopped every other one goes on in the end, and must learn that it was replaced.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { fetchStatus } from "../../src/cli/cluster-client.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import type { StatusEntry, StatusReply } from "../../src/wire/control.ts";
import { type Cluster, HEARTBEAT_TIMEOUT_MS } from "./cluster.ts";
import { DEADLINE_MS, type Running } from "./processes.ts";

const POLL_MS = 50;
/** Every so many strikes the scheduler is struck. */
const SCHEDULER_EVERY = 7;
/** For so long it is stopped: it has missed heartbeats of everybody when it goes on. */
const SCHEDULER_STOP_MS = 1.5 * HEARTBEAT_TIMEOUT_MS;

export type Signal = "SIGKILL" | "SIGSTOP";
export type Victim = "head" | "standby" | "scheduler";
type Copy = { readonly rank: number; readonly process: Running };

export class Copies {
  scheduler: Running;
  readonly #cluster: Cluster;
  readonly #random: Random;
  #copies: Copy[];
  #stops = 0;

  constructor(cluster: Cluster, { servers, seed }: { readonly servers: number; readonly seed: number }) {
    this.#cluster = cluster;
    this.#random = new Random(seed);
    this.scheduler = cluster.scheduler();
    this.#copies = Array.from({ length: 2 * servers }, (_, index) => this.#start(index % servers));
  }

  get processes(): readonly Running[] {
    return this.#copies.map(({ process }) => process);
  }

  #start(rank: number): Copy {
    return { rank, process: this.#cluster.server(rank) };
  }

  /** Strikes once, and returns when every rank has two copies again: who was struck. */
  async strike(count: number, signal: Signal): Promise<Victim> {
    if (count % SCHEDULER_EVERY === SCHEDULER_EVERY - 1) {
      await this.#strikeScheduler(signal);
      return "scheduler";
    }
    const victim = this.#copies[this.#random.below(this.#copies.length)];
    assert.ok(victim !== undefined);
    return await this.#strikeCopy(victim, signal);
  }

  /** As `strike`, the head of this rank. */
  async strikeHead(rank: number, signal: Signal): Promise<void> {
    const roles = await this.#roles();
    const head = this.#copies.find((copy) => copy.rank === rank && roles.get(copy.process.pid) === "server");
    assert.ok(head !== undefined, `no head of rank ${rank}`);
    await this.#strikeCopy(head, signal);
  }

  async #strikeScheduler(signal: Signal): Promise<void> {
    if (signal === "SIGKILL") {
      await this.scheduler.kill();
      this.scheduler = this.#cluster.scheduler();
    } else {
      this.scheduler.signal("SIGSTOP");
      await sleep(SCHEDULER_STOP_MS);
      this.scheduler.signal("SIGCONT");
    }
    await this.whole();
  }

  async #strikeCopy(victim: Copy, signal: Signal): Promise<Victim> {
    const isHead = (await this.#roles()).get(victim.process.pid) === "server";
    victim.process.signal(signal);
    this.#copies = [...this.#copies.filter((copy) => copy !== victim), this.#start(victim.rank)];
    await this.whole();
    if (signal === "SIGSTOP" && this.#stops++ % 2 === 0) {
      victim.process.signal("SIGCONT");
      await victim.process.fails(/FENCED/);
    } else await victim.process.kill();
    return isHead ? "head" : "standby";
  }

  /** What each process is, by its number, as far as the scheduler says. */
  async #roles(): Promise<ReadonlyMap<number, StatusEntry["role"]>> {
    const status = await this.#status();
    return new Map(status?.nodes.map(({ label, role }) => [pidOf(label), role]));
  }

  async #status(): Promise<StatusReply | undefined> {
    const clock = realClock();
    const ask = { address: `tcp://127.0.0.1:${this.#cluster.port}`, timeoutMs: 1000, clock };
    return await fetchStatus({ ...ask, transport: new SocketTransport({ clock, log: SILENT_LOG }) }).catch(() => undefined);
  }

  /**
   * Waits until each rank is held by two of the processes that run, which have everything. One that was given up, since
   * a busy machine kept it silent for too long, is started again.
   */
  async whole(): Promise<void> {
    const isCopy = ({ role, state, isFilling, label, linked }: StatusEntry, pids: ReadonlySet<number>): boolean =>
      role !== "worker" && state === "alive" && linked && isFilling !== true && pids.has(pidOf(label));
    for (const giveUpAt = performance.now() + DEADLINE_MS; performance.now() < giveUpAt; await sleep(POLL_MS)) {
      this.#copies = this.#copies.map((copy) => (copy.process.isRunning ? copy : this.#start(copy.rank)));
      const pids = new Set(this.processes.map(({ pid }) => pid));
      const status = await this.#status();
      if (status !== undefined && status.nodes.filter((node) => isCopy(node, pids)).length === this.#copies.length) return;
    }
    assert.fail(`not every rank has two copies\n${[this.scheduler, ...this.processes].map(({ transcript }) => transcript).join("\n")}`);
  }
}

/** Of a label "host:pid". */
function pidOf(label: string): number {
  return Number(label.split(":").at(-1));
}
