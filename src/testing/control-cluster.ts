// control-cluster — the control plane of a small cluster on a simulated network: a Scheduler and Memberships alone.
// sim-cluster.ts has whole nodes.

import { assert } from "../base/assert.ts";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { Membership, type MembershipOptions } from "../cluster/membership.ts";
import { PREPARE } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { Scheduler } from "../scheduler/scheduler.ts";
import type { SchedulerOptions } from "../scheduler/scheduler-options.ts";
import type { PrepareRequest } from "../wire/control.ts";
import type { MemberKind } from "../wire/hello.ts";
import type { Role } from "../wire/node-id.ts";
import { SimClock, type SimClockOptions } from "./sim-clock.ts";
import { SimNetwork } from "./sim-network.ts";

export const SCHEDULER_ADDRESS = "sim://scheduler:9000";
/** A node is dead after this long. */
export const HEARTBEAT_TIMEOUT_MS = 5000;

type NodeOptions = { readonly packageVersion?: string; readonly job?: string } & Partial<
  Pick<MembershipOptions, "log" | "rank" | "serverCount" | "workerCount" | "startTimeoutMs" | "schedulerAddress" | "otherSchedulers">
>;

type Joining = { readonly membership: Membership; readonly joined: Promise<void> };
type Formed = { readonly scheduler: Scheduler; readonly servers: Membership[]; readonly workers: Membership[] };

export type ControlClusterOptions = {
  readonly serverCount?: number;
  readonly workerCount?: number;
  readonly seed?: number;
  /** See SimClock: how to wait for promises between events. */
  readonly settle?: SimClockOptions["settle"];
};

export class ControlCluster {
  readonly clock: SimClock;
  readonly network: SimNetwork;
  readonly serverCount: number;
  readonly workerCount: number;
  /** What the node on this host does about PREPARE. */
  prepare: (host: string, request: PrepareRequest) => Promise<void> = async () => {};
  readonly #readBuffers = new PlainReadBuffers();
  #starts = 0;

  constructor({ serverCount = 2, workerCount = 2, seed = 1, settle }: ControlClusterOptions = {}) {
    this.clock = new SimClock(settle === undefined ? {} : { settle });
    this.network = new SimNetwork({ clock: this.clock, seed });
    this.serverCount = serverCount;
    this.workerCount = workerCount;
  }

  peer(host: string, packageVersion = "", kind: MemberKind = "tool", log: Log = SILENT_LOG): Peer {
    return new Peer({
      packageVersion,
      kind,
      transport: this.network.host(host),
      clock: this.clock,
      log,
      readBuffers: this.#readBuffers,
      acceptsAnonymous: true,
    });
  }

  /** Started on this host, at port 9000. */
  async scheduler(options: Partial<SchedulerOptions> = {}, host = "scheduler"): Promise<Scheduler> {
    const { serverCount, workerCount, clock } = this;
    const start = ++this.#starts;
    const scheduler = new Scheduler({
      peer: this.peer(host),
      clock,
      log: SILENT_LOG,
      serverCount,
      workerCount,
      heartbeatIntervalMs: 1000,
      heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
      startTimeoutMs: 60_000,
      incarnation: start,
      jobId: `job/${start}`,
      ...options,
    });
    await scheduler.start(`sim://${host}:9000`);
    return scheduler;
  }

  /** A node on a host of its own, and its join on the way. */
  node(role: Role, host: string, { packageVersion, job = "", ...options }: NodeOptions = {}): Joining {
    const peer = this.peer(host, packageVersion, role);
    peer.job = job;
    peer.serve(
      serveJson(PREPARE, async (_, request) => {
        await this.prepare(host, request);
        return {};
      }),
    );
    const membership = new Membership({
      peer,
      clock: this.clock,
      log: SILENT_LOG,
      role,
      rank: undefined,
      address: `sim://${host}:9000`,
      label: host,
      serverCount: this.serverCount,
      workerCount: this.workerCount,
      schedulerAddress: SCHEDULER_ADDRESS,
      startTimeoutMs: 60_000,
      token: `${host}#${++this.#starts}`,
      ...options,
    });
    const joined = membership.join();
    joined.catch(() => {});
    return { membership, joined };
  }

  /** Everybody, joined: servers s0, s1 and workers w0, w1 by rank. */
  async formed(options: Partial<SchedulerOptions> = {}): Promise<Formed> {
    const scheduler = await this.scheduler(options);
    const servers = Array.from({ length: this.serverCount }, (_, rank) => this.node("server", `s${rank}`, { rank }));
    const workers = Array.from({ length: this.workerCount }, (_, rank) => this.node("worker", `w${rank}`, { rank }));
    await this.clock.runUntil(Promise.all([...servers, ...workers].map(({ joined }) => joined)));
    const memberships = (nodes: readonly Joining[]): Membership[] => nodes.map(({ membership }) => membership);
    return { scheduler, servers: memberships(servers), workers: memberships(workers) };
  }

  /** A new process on a host that crashed. */
  async restarted(role: Role, host: string, options: NodeOptions = {}): Promise<Membership> {
    const { membership, joined } = this.node(role, host, options);
    await this.clock.runUntil(joined, { untilMs: this.clock.nowMs() + 60_000 });
    return membership;
  }

  /** Runs the clock until the promise fails, with this code and message. */
  async fails(promise: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
    const outcome = promise.then(
      () => assert(false, "it did not fail"),
      (error: unknown) => {
        assert(isWeighbridgeError(error, code), `${code} expected, but: ${String(error)}`);
        assert(message.test(error.message), `${message} expected, but: ${error.message}`);
      },
    );
    await this.clock.runUntil(outcome, { untilMs: this.clock.nowMs() + 120_000 });
  }
}

/** "alive 1": the state and the incarnation of a node, as a member knows them. */
export function stateOf(membership: Membership, node: number): string {
  const entry = membership.entry(node);
  return `${entry?.state} ${entry?.incarnation}`;
}
