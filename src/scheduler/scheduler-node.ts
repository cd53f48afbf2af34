// scheduler-node — the scheduler as a node of the cluster: it listens, waits at barriers itself, and leaves last.

import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, reasonOf } from "../base/errors.ts";
import { randomToken } from "../base/random.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import type { NodeOptions } from "../cluster/node-options.ts";
import { pulseIntervalMs } from "../cluster/pulse.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import type { Address } from "../transport/transport.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { ManagedJob } from "./managed-job.ts";
import type { WishedServers } from "./scaling.ts";
import { Scheduler } from "./scheduler.ts";
import type { StateStore } from "./state-store.ts";

export type SchedulerNodeOptions = NodeOptions & {
  readonly heartbeatIntervalMs?: number;
  readonly heartbeatTimeoutMs?: number;
  /** As RosterRules.loopTimeoutMs. */
  readonly loopTimeoutMs?: number | undefined;
  /** Where the pulse of this process listens for those who miss the scheduler; left out: it answers nobody. */
  readonly pulseAddress?: Address | undefined;
  /** The address that others ask, made from the one that was bound. */
  readonly advertisePulse?: (bound: Address) => Address;
  /** Called when the scheduler listens, before any node can have come. */
  readonly onListening?: () => void;
  /** Opens what shows people the job, once the scheduler listens; closed with the node. If it throws, the job ends. */
  readonly manage?: ((job: ManagedJob) => Promise<{ close(): Promise<void> }>) | undefined;
  /** A name for the job, and a number higher than that of any earlier scheduler of it. */
  readonly jobId?: string;
  readonly incarnation?: number;
  /** As RosterRules.dateMs. */
  readonly dateMs?: (() => number) | undefined;
  /** Where the scheduler's state outlives its process. */
  readonly store?: StateStore | undefined;
  /** How many workers there may be at most. */
  readonly workerCountMax?: number | undefined;
  /** As SchedulerOptions.replicas. */
  readonly replicas?: number | undefined;
  /** As SchedulerOptions.onServers. */
  readonly onServers?: ((servers: WishedServers) => void) | undefined;
  /** As SchedulerOptions.onWorkers. */
  readonly onWorkers?: ((ranks: readonly number[]) => void) | undefined;
  /** As SchedulerOptions.onUnclosed. */
  readonly onUnclosed?: ((name: string, isAwaited: boolean) => boolean) | undefined;
  /** As SchedulerOptions.serves. */
  readonly serves?: boolean | undefined;
  /** How servers share the parts, if the job begins here. Defaults to "ring". */
  readonly placement?: PlacementView["policy"] | undefined;
  /** Called with the dead nodes that all others wait for alone; a caller that knows they are gone for good says so. */
  readonly onOnlyDead?: (names: readonly string[], dismiss: () => void) => void;
};

export class SchedulerNode extends ClusterNode {
  readonly scheduler: Scheduler;
  readonly #pulse: { address?: Address; token?: string } = {};
  readonly #options: SchedulerNodeOptions;

  constructor(options: SchedulerNodeOptions) {
    super("scheduler", options, { readBuffers: new PlainReadBuffers(), limits: options.limits ?? {}, acceptsAnonymous: true });
    const { heartbeatIntervalMs = 1000, heartbeatTimeoutMs = 5000, jobId = "job", incarnation = 1, placement } = options;
    const { peer, clock, log, serverCount, workerCount, startTimeoutMs } = this;
    const counts = { serverCount, workerCount, workerCountMax: options.workerCountMax, replicas: options.replicas };
    const times = { heartbeatIntervalMs, heartbeatTimeoutMs, startTimeoutMs, loopTimeoutMs: options.loopTimeoutMs, pulse: this.#pulse };
    this.#options = options;
    this.scheduler = new Scheduler({
      peer,
      transport: options.transport,
      clock,
      log,
      ...counts,
      ...times,
      ...(options.gateway === undefined ? {} : { mayScale: false }),
      onServers: options.onServers,
      onWorkers: options.onWorkers,
      placement,
      jobId,
      incarnation,
      dateMs: options.dateMs,
      store: options.store,
      onOnlyDead: options.onOnlyDead,
      onUnclosed: options.onUnclosed,
      serves: options.serves,
      hasStartBarrier: options.startBarrier !== false,
    });
  }

  get roster(): RosterView {
    return this.scheduler.roster;
  }

  get isRecovery(): boolean {
    return this.scheduler.isResumed;
  }

  override get hasSuccessor(): boolean {
    return this.#options.store !== undefined;
  }

  /** Lets a standby take over at once, where there is one. */
  override async leave(): Promise<void> {
    await super.leave();
    await this.scheduler.handOver();
  }

  protected async join(): Promise<void> {
    const { scheduler } = this;
    scheduler.onRoster((roster) => this.follow(roster));
    scheduler.onFailed((error) => this.fail(error));
    await this.#answerBusy();
    await scheduler.start(this.#options.schedulerAddress);
    this.#options.onListening?.();
    try {
      const management = await this.#options.manage?.(scheduler.managed);
      if (management !== undefined) this.closeWith(management);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown)) throw thrown;
      scheduler.abort(thrown); // so that nodes that come to this scheduler learn of it
    }
    await scheduler.ready;
  }

  /** While the loop of this process is busy, its pulse says so to those who miss the scheduler (Heartbeat.B2). */
  async #answerBusy(): Promise<void> {
    const { pulse, pulseAddress, advertisePulse = (bound) => bound } = this.#options;
    const { heartbeatIntervalMs = 1000, heartbeatTimeoutMs = 5000 } = this.#options;
    if (pulse === undefined || pulseAddress === undefined || heartbeatIntervalMs === 0 || heartbeatTimeoutMs === 0) return;
    const token = randomToken();
    try {
      const answering = await pulse.answer(pulseAddress, { token, everyMs: pulseIntervalMs({ heartbeatIntervalMs, heartbeatTimeoutMs }) });
      this.closeWith({ close: async () => answering.close() });
      Object.assign(this.#pulse, { address: advertisePulse(answering.address), token });
    } catch (thrown) {
      this.log.debug("no pulse answers for this scheduler while its loop is busy", { reason: reasonOf(thrown) });
    }
  }

  protected missing(): string {
    return this.scheduler.missing();
  }

  protected missingAtEnd(): string {
    return this.scheduler.missingAtEnd();
  }

  protected async enterBarrier(group: number, customer: number, wait: WaitOptions, outlivesDeaths: boolean): Promise<void> {
    if (outlivesDeaths) await waitFor(this.scheduler.served, "the cluster to be told to end", this.clock, wait);
    await this.scheduler.barrier(group, customer, wait, outlivesDeaths);
  }

  protected async depart({ isTogether, ...wait }: WaitOptions & { readonly isTogether: boolean }): Promise<void> {
    if (!isTogether) return;
    this.scheduler.ending();
    await waitFor(this.scheduler.finished, "all nodes to leave", this.clock, wait);
  }

  protected async release(): Promise<void> {
    await this.scheduler.close();
  }
}
