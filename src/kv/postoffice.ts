// postoffice — a node of the cluster, of whichever role, and what everybody on it may ask: who am I, who is there, are we all here
// (ps-lite: Postoffice and Start/Finalize). An object: several nodes can live in one process.
//
//   start: listen, register, wait for the others ──► run ──► finalize: wait for the others, leave, close
//
// Invariants:
//   P1. Once started, every wait ends: with what it waited for, or with an error that names who is missing.
//   P2. After a failure of the whole job every later call fails with the job's reason.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { incompleteError, Membership } from "../cluster/membership.ts";
import { tellMissingOut } from "../cluster/missing-out.ts";
import { Arena } from "../kernel/arena.ts";
import { evenRanges, type Range } from "../keys/key-range.ts";
import { AppDirectory } from "../peer/app-directory.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { goneError } from "../peer/gone-error.ts";
import type { PeerMetrics } from "../peer/metrics.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/plain-read-buffers.ts";
import { SimpleBodies } from "../peer/simple-bodies.ts";
import { Scheduler } from "../scheduler/scheduler.ts";
import { ArenaReadBuffers, Server, serverLimits } from "../server/server.ts";
import type { Address } from "../transport/transport.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import { FunctionId } from "../wire/function-id.ts";
import { GROUP_MAX, Group, idOf, inGroup, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { deadNodes, groupMembers, type RosterView } from "../wire/roster.ts";
import { Worker } from "../worker/worker.ts";
import { WorkerMesh } from "../worker/worker-mesh.ts";
import type { Customer } from "./customer.ts";
import { LastBarrier } from "./last-barrier.ts";
import { type PostofficeOptions, START_TIMEOUT_MS } from "./postoffice-options.ts";
import { seatServer, serveCheckpoints } from "./server-seat.ts";

/** A container that is ended gets ten seconds. */
const LEAVE_DEADLINE_MS = 2000;

export class Postoffice {
  readonly role: Role;
  readonly clock: Clock;
  readonly log: Log;
  readonly numServers: number;
  readonly numWorkers: number;
  /** The engine of a server; undefined on other nodes. */
  readonly server: Server | undefined;
  #worker: Worker | undefined;
  #mesh: WorkerMesh | undefined;
  readonly #options: PostofficeOptions;
  readonly #peer: Peer;
  readonly #simpleApps: AppDirectory;
  readonly #simpleBodies: SimpleBodies;
  readonly #exitCallbacks: (() => void)[] = [];
  readonly #endCallbacks = new Set<(error: WeighbridgeError) => void>();
  #membership: Membership | undefined;
  #scheduler: Scheduler | undefined;
  #failure: WeighbridgeError | undefined;
  #finalizing: Promise<void> | undefined;
  readonly #closing = new AbortController();
  #lastBarrier: LastBarrier | undefined;
  /** What lets people look at the job. */
  #management: { close(): Promise<void> } | undefined;

  private constructor(options: PostofficeOptions) {
    const { role, clock, log = SILENT_LOG, transport, resendTimeoutMs = 0, faults, limits = {} } = options;
    this.role = role;
    this.clock = clock;
    this.log = log;
    this.numServers = options.serverCount;
    this.numWorkers = options.workerCount;
    this.#options = options;
    this.#simpleApps = new AppDirectory({ clock, byCustomer: role === "worker" });
    const arena = role === "server" ? new Arena({ bytesMax: options.arenaBytesMax, reserve: true }) : undefined;
    if (arena !== undefined) options.onMemory?.(arena.memory);
    const readBuffers = arena === undefined ? new PlainReadBuffers() : new ArenaReadBuffers(arena);
    const channelLimits = arena === undefined ? limits : serverLimits(arena, options.workerCount, limits);
    this.#peer = new Peer({
      transport,
      clock,
      log,
      readBuffers,
      limits: channelLimits,
      faults,
      resendTimeoutMs,
      acceptsAnonymous: role === "scheduler",
      packageVersion: options.packageVersion,
    });
    this.#simpleBodies = new SimpleBodies(this.#simpleApps, clock);
    this.#peer.serveFrames(FunctionId.SIMPLE, this.#simpleBodies);
    if (arena === undefined) return;
    const { workerCount, functions = [], compression, checkpointFiles } = options;
    this.server = new Server({ arena, clock, workerCount, functions, compression, checkpointFiles, log });
    this.server.serve(this.#peer);
    serveCheckpoints(this.#peer, this.server);
  }

  /** Starts a node and waits for the rest of the cluster. Throws what went wrong, with everything closed again. */
  static async start(options: PostofficeOptions): Promise<Postoffice> {
    checkCount("serverCount", options.serverCount);
    checkCount("workerCount", options.workerCount);
    const office = new Postoffice(options);
    const { clock, signal, deadlineMs, schedulerAddress } = options;
    try {
      await waitFor(office.#start(), `the start of the cluster of ${schedulerAddress}`, clock, { signal, deadlineMs });
    } catch (late) {
      const thrown = await office.#explained(late);
      if (signal?.aborted === true) await office.leave(); // from a place that it has already, so that nobody waits for it there
      await office.#closeAll();
      throw office.#failure ?? thrown;
    }
    return office;
  }

  /** A DEADLINE of the start names the nodes that are missing, as far as the scheduler tells. */
  async #explained(thrown: unknown): Promise<unknown> {
    if (!isWeighbridgeError(thrown, "DEADLINE")) return thrown;
    const missing = this.#scheduler?.missing() ?? (await this.#membership?.missing()) ?? "";
    return missing === "" || thrown.message.includes("missing: ") ? thrown : incompleteError(thrown, missing);
  }

  /** The engine of a scheduler; undefined on other nodes. */
  get scheduler(): Scheduler | undefined {
    return this.#scheduler;
  }

  /** The engine of a worker; undefined on other nodes. */
  get worker(): Worker | undefined {
    return this.#worker;
  }

  /** A worker's links with the other workers; undefined on other nodes. */
  get mesh(): WorkerMesh | undefined {
    return this.#mesh;
  }

  get isScheduler(): boolean {
    return this.role === "scheduler";
  }

  get isServer(): boolean {
    return this.role === "server";
  }

  get isWorker(): boolean {
    return this.role === "worker";
  }

  /** How long a wait for a request lasts when its caller sets no deadline. */
  get requestTimeoutMs(): number | undefined {
    return this.#options.requestTimeoutMs;
  }

  /** What the links of parameters are compressed with, where they ask for it. */
  get compression(): GeneralCompression | undefined {
    return this.#options.compression;
  }

  /** This node's number among all nodes: 1, or 8 + 2 · rank for servers, 9 + 2 · rank for workers. */
  get nodeId(): number {
    return this.#peer.id;
  }

  /** This node's number within its role, from 0. */
  get myRank(): number {
    return rankOf(this.nodeId);
  }

  /** True when this node took the place of one that died; a scheduler, when the job was running before it came. */
  get isRecovery(): boolean {
    return this.#scheduler?.isResumed ?? this.#membership?.recovery ?? false;
  }

  /** The error that ended the job, if one did. */
  get failure(): WeighbridgeError | undefined {
    return this.#failure;
  }

  get metrics(): PeerMetrics {
    return this.#peer.metrics;
  }

  get roster(): RosterView {
    return this.#scheduler?.roster ?? this.#membership?.roster ?? { version: 0, nodes: [] };
  }

  /** Range r of the keys is server r's. */
  serverKeyRanges(): readonly Range[] {
    return evenRanges(this.numServers);
  }

  /** The nodes of a group (1 to 7) that have not left: workers, servers, then the scheduler; a node id gives itself. */
  nodeIds(groupOrNode: number): readonly number[] {
    if (groupOrNode > GROUP_MAX) return [groupOrNode];
    return groupMembers(this.roster, groupOrNode);
  }

  /** The nodes that the scheduler has declared dead and nobody has replaced. */
  deadNodes(): readonly number[] {
    return deadNodes(this.roster);
  }

  workerRankToId(rank: number): number {
    return idOf("worker", rank);
  }

  serverRankToId(rank: number): number {
    return idOf("server", rank);
  }

  idToRank(node: number): number {
    return rankOf(node);
  }

  /** Waits until every member of the group stands at the barrier of this customer. Rejects with NODE_DEAD when one dies meanwhile. */
  async barrier(customerId: number, group: number, wait?: WaitOptions): Promise<void> {
    this.#checkAlive();
    if (!Number.isInteger(group) || group < 1 || group > GROUP_MAX)
      throw new WeighbridgeError("BAD_ARGUMENT", `there is no group ${group}; groups are 1 to 7`);
    if (!inGroup(this.role, group)) throw new WeighbridgeError("BAD_ARGUMENT", `a ${this.role} is no member of group ${group}`);
    const node = this.#scheduler ?? this.#membership;
    await node?.barrier(group, customerId, wait);
  }

  /** Called once, when this node is finalized, after the others are done and before the links close. */
  registerExitCallback(callback: () => void): void {
    this.#exitCallbacks.push(callback);
  }

  /**
   * Leaves the cluster. With the barrier (the default) all nodes leave together: servers stay until the last worker is done. A node that
   * died may be restarted meanwhile and come to the barrier yet: it is waited for as long as a node may take to start.
   */
  async finalize(options: { readonly barrier?: boolean } & WaitOptions = {}): Promise<void> {
    this.#finalizing ??= this.#finalize(options);
    await this.#finalizing;
  }

  /** Tells the scheduler that this node leaves: calls to it fail from then on. For who ends its process right after that; it never throws. */
  async leave(): Promise<void> {
    this.#peer.isLeaving = true;
    await this.#membership?.leave({ deadlineMs: LEAVE_DEADLINE_MS });
  }

  /** Leaves the cluster without waiting for the others, also when a `finalize` waits for them: that one fails with ABORTED. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.finalize({ barrier: false }).catch(() => {}); // whoever called `finalize` gets its failure; this node is closed either way
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** For the applications of this room: where requests for them go. */
  addSimpleApp({ appId, customerId }: Customer, handler: FunctionHandler): void {
    this.#simpleApps.add(appId, handler, customerId);
  }

  /** For the applications of this room: calls `ended` when the job fails or this node closes. Returns how to forget it: false if it was called. */
  whenOver(ended: (error: WeighbridgeError) => void): () => boolean {
    this.#endCallbacks.add(ended);
    return () => this.#endCallbacks.delete(ended);
  }

  /** For the applications of this room: the way to a node. Throws NO_ROUTE or NODE_DEAD. */
  channelTo(node: number): Channel {
    this.#checkAlive();
    const entry = this.roster.nodes.find((candidate) => candidate.node === node);
    const isScheduler = node === SCHEDULER_ID;
    if (!isScheduler && entry === undefined) throw new WeighbridgeError("NO_ROUTE", `there is no node ${node}`);
    if (roleOf(node) === this.role)
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is of this node's own role; those are not connected`);
    if (entry !== undefined && entry.state !== "alive") throw goneError(node, entry.state);
    return this.#peer.channel(node) ?? this.#peer.expect(node, entry?.incarnation ?? 0);
  }

  async #start(): Promise<void> {
    const { role, startBarrier = true } = this.#options;
    if (role === "scheduler") await this.#startScheduler();
    else await this.#join();
    if (startBarrier && !this.isRecovery) await this.barrier(0, Group.ALL);
  }

  async #startScheduler(): Promise<void> {
    const {
      heartbeatIntervalMs = 1000,
      heartbeatTimeoutMs = 5000,
      startTimeoutMs = START_TIMEOUT_MS,
      jobId = "job",
      incarnation = 1,
    } = this.#options;
    const scheduler = new Scheduler({
      peer: this.#peer,
      clock: this.clock,
      log: this.log,
      serverCount: this.numServers,
      workerCount: this.numWorkers,
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      startTimeoutMs,
      placement: this.#options.placement,
      jobId,
      incarnation,
    });
    this.#scheduler = scheduler;
    scheduler.onRoster((roster) => this.#follow(roster));
    scheduler.onFailed((error) => this.#fail(error));
    await scheduler.start(this.#options.schedulerAddress);
    this.#options.onListening?.();
    try {
      this.#management = await this.#options.manage?.(() => scheduler.status());
    } catch (thrown) {
      if (!isWeighbridgeError(thrown)) throw thrown;
      scheduler.abort(thrown); // so that those hear of it that come to this scheduler
    }
    await scheduler.ready;
  }

  async #join(): Promise<void> {
    const { role, rank, label = "", schedulerAddress, startTimeoutMs = START_TIMEOUT_MS, advertise = (bound) => bound } = this.#options;
    const address = await this.#prepare();
    const membership = new Membership({
      peer: this.#peer,
      clock: this.clock,
      log: this.log,
      role,
      rank,
      address,
      label,
      serverCount: this.numServers,
      workerCount: this.numWorkers,
      schedulerAddress,
      startTimeoutMs,
      linkTimeoutMs: this.#options.linkTimeoutMs,
    });
    this.#membership = membership;
    membership.onRoster((roster) => this.#follow(roster));
    membership.onFatal((error) => this.#fail(error));
    if (role === "worker") {
      const { meshAddress: listenAddress = "" } = this.#options;
      this.#worker = new Worker({ peer: this.#peer, membership, clock: this.clock, serverCount: this.numServers });
      this.#mesh = new WorkerMesh({ peer: this.#peer, membership, clock: this.clock, log: this.log, listenAddress, advertise });
    }
    if (this.server !== undefined && this.#options.restoreFrom !== undefined) this.server.parameters.isRestoring = true;
    await membership.join();
    if (this.server === undefined) return;
    const { restoreFrom } = this.#options;
    const seat = { rank: this.myRank, serverCount: this.numServers, run: membership.job, restoreFrom, log: this.log };
    try {
      await seatServer(this.server, seat);
    } catch (thrown) {
      const { code, message } = isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown));
      await membership.leave({ deadlineMs: LEAVE_DEADLINE_MS }, { code, message }); // the others wait for it at the barrier of the start
      throw thrown;
    }
  }

  /**
   * Does what must work before this node registers. Returns where others reach it; "" if it does not listen. When it cannot, the scheduler is told, since the
   * others would wait for it.
   */
  async #prepare(): Promise<Address> {
    const { role, rank, label = "", schedulerAddress, listenAddress, restoreFrom, advertise = (bound) => bound } = this.#options;
    try {
      await (await restoreFrom?.())?.close(); // Only to see that it can be opened: which one is the newest may change until this node has its place.
      return listenAddress === undefined ? "" : advertise(await this.#peer.listen(listenAddress));
    } catch (thrown) {
      const node = { role, rank, label, serverCount: this.numServers, workerCount: this.numWorkers };
      const { clock, log } = this;
      if (isWeighbridgeError(thrown)) await tellMissingOut({ peer: this.#peer, clock, log, schedulerAddress, node }, thrown);
      throw thrown;
    }
  }

  async #finalize({ barrier = true, deadlineMs, signal }: { readonly barrier?: boolean } & WaitOptions): Promise<void> {
    const wait = { deadlineMs, signal: signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]) };
    let failure: unknown;
    try {
      if (barrier) {
        await this.#passLastBarrier(wait);
        this.#scheduler?.ending();
      }
      this.#peer.isLeaving = true;
      await this.#membership?.leave();
      if (barrier && this.#scheduler !== undefined) await waitFor(this.#scheduler.finished, "all nodes to leave", this.clock, wait);
    } catch (thrown) {
      failure = this.#failure ?? thrown;
      if (!(barrier && this.#membership !== undefined)) throw failure;
      await this.#membership.leave().catch(() => {}); // the barrier's failure is the one to tell
    } finally {
      for (const callback of this.#exitCallbacks.splice(0)) this.#callBack(callback);
      await this.#closeAll();
    }
    if (failure !== undefined) throw failure;
  }

  async #passLastBarrier(wait: WaitOptions): Promise<void> {
    const { startTimeoutMs = START_TIMEOUT_MS } = this.#options;
    this.#lastBarrier = new LastBarrier({
      clock: this.clock,
      startTimeoutMs,
      scheduler: this.#scheduler,
      enter: (entry) => this.barrier(0, Group.ALL, entry),
      checkAlive: () => this.#checkAlive(),
      hasWorkers: this.isServer ? () => this.#hasWorkers() : undefined,
      onOnlyDead: this.#options.onOnlyDead,
    });
    await this.#lastBarrier.pass(wait);
  }

  #hasWorkers(): boolean {
    for (const { id, link } of this.#peer.channels()) if (link !== undefined && roleOf(id) === "worker") return true;
    return false;
  }

  async #closeAll(): Promise<void> {
    this.#mesh?.close();
    this.#membership?.close();
    await this.#management?.close();
    await this.#scheduler?.close();
    this.#simpleApps.close();
    this.#simpleBodies.close();
    this.server?.close();
    await this.#peer.close();
    this.#over(new WeighbridgeError("CLOSED", "this node was closed"));
  }

  #over(error: WeighbridgeError): void {
    for (const ended of this.#endCallbacks) if (this.#endCallbacks.delete(ended)) ended(error);
  }

  #callBack(exitCallback: () => void): void {
    try {
      exitCallback();
    } catch (thrown) {
      this.log.error("an exit callback failed", { reason: reasonOf(thrown) });
    }
  }

  /** P2 */
  #fail(error: WeighbridgeError): void {
    if (this.#failure !== undefined) return;
    if (this.#finalizing !== undefined) {
      if (this.#lastBarrier?.isWaiting === true) this.#failure = error;
      return;
    }
    this.#failure = error;
    this.log.error("the job failed", { code: error.code, reason: error.message });
    for (const channel of this.#peer.channels()) channel.end(error);
    this.#over(error);
  }

  #checkAlive(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #follow(roster: RosterView): void {
    this.#options.onRoster?.(roster);
    this.server?.follow(roster);
    for (const { node, state } of roster.nodes) if (state !== "alive") this.#peer.channel(node)?.failCalls(goneError(node, state));
  }
}

function checkCount(what: string, count: number): void {
  if (Number.isSafeInteger(count) && count >= 0) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `${what} must be a whole number from 0 up, but is ${count}`);
}
