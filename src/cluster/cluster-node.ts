// cluster-node — a node of a cluster, whatever its role: it starts together with the others, follows the roster, waits
// at barriers and leaves with them. Each role's room adds the rest: worker-node.ts, server-node.ts, scheduler-node.ts.
//
//   start: join, wait for the others ──► run ──► finalize: wait for the others, leave, close
//
// Invariants:
//   ClusterNode.N1. Once started, every wait ends: with what it waited for, or with an error that names who is missing.
//   ClusterNode.N2. After a failure of the whole job every later call fails with the job's reason.
//   ClusterNode.N3. Either end of a connection calls functions of the other, whichever dialed: nobody dials a worker
//       back that has dialed a server.
//   ClusterNode.N4. What this node has open with another one through `call` is bounded (CallWindow.W1): a node that is
//       slow, or reads nothing, makes no other keep more than that. A call belongs to the incarnation of the node that
//       the roster has when it is made, and fails with that one.

import type { Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, reasonOf, showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { OpenWaits } from "../base/open-waits.ts";
import type { Contract } from "../contracts/contract.ts";
import { nodeDeadError } from "../peer/call.ts";
import { callFunction } from "../peer/call-function.ts";
import { CallWindow, type CallWindowOptions } from "../peer/call-window.ts";
import type { Channel } from "../peer/channel.ts";
import type { PeerMetrics } from "../peer/channel-host.ts";
import { restartedError } from "../peer/hello-rules.ts";
import { Peer } from "../peer/peer.ts";
import type { PeerOptions } from "../peer/peer-options.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { GROUP_MAX, Group, inGroup, nameOf, type Role, rankOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { deadNodes, isAwaited, type RosterEntry, type RosterView } from "../wire/roster.ts";
import { LastBarrier } from "./last-barrier.ts";
import type { NodeOptions } from "./node-options.ts";
import { incompleteError } from "./scheduler-calls.ts";
import { START_TIMEOUT_MS, schedulerText } from "./scheduler-wait.ts";

/**
 * Whether all nodes leave together; "living": unless one of them is dead, or dies meanwhile. Then a worker leaves at
 * once, while servers and the scheduler stay for the workers that are alive.
 */
export type LeaveBarrier = boolean | "living";

/** How a node leaves the cluster. */
export type FinalizeOptions = {
  /** Whether to leave together with all other nodes. Defaults to true. */
  readonly barrier?: LeaveBarrier | undefined;
} & WaitOptions;
const FINALIZE_OPTIONS: readonly string[] = ["barrier", ...WAIT_NAMES];

/** What may be open with one other node (ClusterNode.N4): enough to fill a link for as long as an answer takes. */
export const CALL_WINDOW: CallWindowOptions = { callsMax: 64, bytesMax: 8 * 1024 * 1024 };

/** How a function of another node is called, and waited for. */
export type NodeCallOptions = WaitOptions & {
  /**
   * Of calls and answers on one link higher ones leave first; those of one priority in the order in which they were
   * made. Defaults to 0.
   */
  readonly priority?: number | undefined;
};

export abstract class ClusterNode {
  readonly role: Role;
  readonly clock: Clock;
  readonly log: Log;
  /** What the job began with, once this node has joined it; before, what it was started with. */
  serverCount: number;
  workerCount: number;
  /** How long a wait for a request lasts when its caller sets no deadline. */
  readonly requestTimeoutMs: number | undefined;
  /** Waits of this node's callers for answers of other nodes. */
  readonly waits: OpenWaits;
  /** This node's end of all its conversations. */
  readonly peer: Peer;
  protected readonly startTimeoutMs: number;
  readonly #options: NodeOptions;
  readonly #exitCallbacks: (() => void)[] = [];
  readonly #endCallbacks = new Set<(error: WeighbridgeError) => void>();
  readonly #resources: { close(): void | Promise<void> }[] = [];
  readonly #closing = new AbortController();
  readonly #closed = new Deferred<void>();
  /** Fulfilled when this node has closed, whether it left or failed to start. */
  readonly closed: Promise<void> = this.#closed.promise;
  readonly #windows = new WeakMap<Channel, CallWindow>();
  #failure: WeighbridgeError | undefined;
  #finalizing: Promise<void> | undefined;
  #lastBarrier: LastBarrier | undefined;

  /** Throws BAD_ARGUMENT for counts that are none. */
  constructor(role: Role, options: NodeOptions, peer: Pick<PeerOptions, "readBuffers" | "limits" | "acceptsAnonymous">) {
    const { clock, log = SILENT_LOG, transport, gateway, resendTimeoutMs = 0, faults, packageVersion } = options;
    checkCount("serverCount", options.serverCount);
    checkCount("workerCount", options.workerCount);
    this.role = role;
    this.clock = clock;
    this.waits = new OpenWaits(clock);
    this.log = log;
    this.serverCount = options.serverCount;
    this.workerCount = options.workerCount;
    this.requestTimeoutMs = options.requestTimeoutMs;
    this.startTimeoutMs = options.startTimeoutMs ?? START_TIMEOUT_MS;
    this.#options = options;
    this.peer = new Peer({ transport, gateway, clock, log, faults, resendTimeoutMs, packageVersion, kind: role, ...peer });
    this.peer.job = options.job ?? "";
  }

  abstract get roster(): RosterView;

  /** True when this node replaced one that died; a scheduler, when the job was running before it came. */
  abstract get isRecovery(): boolean;

  /** This node's id: 1, 8 + 2 · rank for servers, 9 + 2 · rank for workers; 0 before it has one. */
  get id(): number {
    return this.peer.id;
  }

  /** This node's number within its role, from 0. */
  get rank(): number {
    return rankOf(this.peer.id);
  }

  /** The error that ended the job, if one did. */
  get failure(): WeighbridgeError | undefined {
    return this.#failure;
  }

  get metrics(): PeerMetrics {
    return this.peer.metrics;
  }

  /** Starts this node and waits for the rest of the cluster; once. Throws what went wrong, with everything closed. */
  async start(): Promise<void> {
    const { signal, timeoutMs } = this.#options;
    try {
      await waitFor(this.#start(), `the start of the cluster of ${schedulerText(this.#options)}`, this.clock, { signal, timeoutMs });
    } catch (late) {
      const thrown = await this.#explained(late, () => this.missing());
      if (signal?.aborted === true) await this.leave(); // so that nobody waits for a node that is registered already
      await this.#closeAll();
      throw this.#failure ?? thrown;
    }
  }

  /** Waits until every member of the group has entered this customer's barrier. Rejects with NODE_DEAD if one dies. */
  async barrier(group: number, customer: number, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    this.checkAlive();
    if (!Number.isInteger(group) || group < 1 || group > GROUP_MAX) throw badArgument(`there is no group ${group}; groups are 1 to 7`);
    if (!inGroup(this.role, group)) throw badArgument(`a ${this.role} is no member of group ${group}`);
    await this.enterBarrier(group, customer, wait, false);
  }

  /** Whether this node leaves, and has not closed yet. */
  protected get isFinalizing(): boolean {
    return this.#finalizing !== undefined;
  }

  /** Called once, when this node is finalized, after the others are done and before the links close. */
  registerExitCallback(callback: () => void): void {
    this.#exitCallbacks.push(callback);
  }

  /** Calls `ended` when the job fails or this node closes. Returns how to forget it: false if it was called. */
  whenOver(ended: (error: WeighbridgeError) => void): () => boolean {
    this.#endCallbacks.add(ended);
    return () => this.#endCallbacks.delete(ended);
  }

  /** Closes `resource` together with this node, before the links close. */
  closeWith(resource: { close(): void | Promise<void> }): void {
    this.#resources.push(resource);
  }

  /**
   * Leaves the cluster. With the barrier (the default) all nodes leave together: servers stay until the last worker is
   * done. A node that died may be restarted and enter the barrier: the others wait for it as long as a start may take.
   */
  async finalize(options: FinalizeOptions = {}): Promise<void> {
    checkWaitOptions(options, FINALIZE_OPTIONS, "the options of a finalize");
    this.#finalizing ??= this.#finalize(options);
    await this.#finalizing;
  }

  /**
   * Reports to the others that this node leaves: calls to it fail from then on. For a process about to end; never
   * throws.
   */
  async leave(): Promise<void> {
    this.peer.isLeaving = true;
  }

  /** Once it has left: whether another process has, or gets, what this node had. */
  get hasSuccessor(): boolean {
    return false;
  }

  /** Leaves the cluster without waiting for the others; a `finalize` that waits for them fails with ABORTED. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.finalize({ barrier: false }).catch(() => {}); // the caller of `finalize` gets its failure
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * The channel to another node of the roster; one of the same role is dialed if there is no connection yet. Throws
   * NO_ROUTE for a node that does not exist or does not listen, NODE_DEAD, CLOSED, and UNSUPPORTED where nodes of a
   * role cannot be connected with each other.
   */
  channelTo(node: number): Channel {
    this.checkAlive();
    const { peer, role } = this;
    if (peer.closed) throw closedError(); // nothing would come of it
    const entry = this.roster.nodes.find((candidate) => candidate.node === node);
    if (node === this.id) throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is this node itself`);
    if (entry === undefined && node !== SCHEDULER_ID) throw new WeighbridgeError("NO_ROUTE", `there is no node ${node}`);
    if (entry !== undefined && entry.state !== "alive") throw nodeDeadError(node, entry.state);
    if (entry?.role !== role) return this.#crossChannel(node, entry?.incarnation ?? 0);
    if (this.#options.gateway !== undefined)
      throw unsupported(`${nameOf(node)} is a ${role} too: those are not connected over ps-lite's protocol`);
    const known = peer.channel(node);
    if (known !== undefined && known.ended === undefined && known.incarnation === entry.incarnation) {
      if (known.link !== undefined || entry.address === "") return known;
    } else if (entry.address === "") {
      const hint =
        "workers do so from the first time on that they reduce among themselves, where they have an address for it (meshAddress)";
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} does not listen for other nodes; ${hint}`, { retryable: true });
    }
    return peer.dial(node, entry.address, entry.incarnation);
  }

  /**
   * Calls a function that another node serves. Rejects with what its handler threw, as `channelTo` throws, with
   * QUEUE_FULL when nothing was sent because so much is open already (ClusterNode.N4), and with DEADLINE or ABORTED
   * (the call then goes on).
   */
  async call<Q extends Fields, R extends Fields>(
    node: number,
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    { priority = 0, ...wait }: NodeCallOptions = {},
  ): Promise<FieldValues<R>> {
    if (!Number.isFinite(priority)) throw badArgument(`a priority is a number, not ${showValue(priority)}`);
    const channel = this.channelTo(node);
    return await callFunction(channel, fn, request, { ...wait, clock: this.clock, priority, window: this.#windowOf(channel) });
  }

  /**
   * Waits until `call` to this node need not be refused (ClusterNode.N4): at once, or when half of what may be open has
   * ended. Throws as `channelTo`.
   */
  async whenRoom(node: number, wait: WaitOptions = {}): Promise<void> {
    const room = this.#windowOf(this.channelTo(node)).whenRoom();
    await waitFor(room, `${nameOf(node)} to answer earlier calls`, this.clock, wait);
  }

  /** Throws why the job is over, if it is (ClusterNode.N2). */
  checkAlive(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Becomes a node of the cluster. Returns when all others have, too. */
  protected abstract join(): Promise<void>;

  /** The nodes that a cluster which starts waits for; "" when that is not known. */
  protected abstract missing(): string | Promise<string>;

  /** The nodes that have not come to the last barrier; "" when that is not known. */
  protected abstract missingAtEnd(): string | Promise<string>;

  protected abstract enterBarrier(group: number, customer: number, wait: WaitOptions, outlivesDeaths: boolean): Promise<void>;

  /** On a server: whether workers are connected with it. */
  protected hasWorkers?(): boolean;

  /** Leaves for good; `isTogether`: all nodes have passed the last barrier. */
  protected abstract depart(wait: WaitOptions & { readonly isTogether: boolean }): Promise<void>;

  /** Closes what is the role's own; the peer is closed after it. */
  protected abstract release(): Promise<void>;

  /** Adopts a newer roster. */
  protected follow(roster: RosterView): void {
    this.#options.onRoster?.(roster);
    for (const { node, role, state, returns, isRetired } of roster.nodes) {
      // One whose slot is free may have taken over, and has to hear it.
      if (state === "alive" || isAwaited({ state, returns }) || role === "standby") continue;
      if (role === "server" && isRetired === true && this.role !== "server") continue; // Router.R9
      this.peer.channel(node)?.failCalls(nodeDeadError(node, state));
    }
    for (const entry of roster.nodes) if (entry.role === this.role) this.#followOwn(entry);
  }

  #windowOf(channel: Channel): CallWindow {
    let window = this.#windows.get(channel);
    if (window === undefined) {
      window = new CallWindow(CALL_WINDOW);
      this.#windows.set(channel, window);
    }
    return window;
  }

  /**
   * The way to a node of another role. One that dials this node, and was restarted, has not been here yet: it is waited
   * for (ClusterNode.N4).
   */
  #crossChannel(node: number, incarnation: number): Channel {
    const { peer } = this;
    const known = peer.channel(node);
    if (known !== undefined && known.incarnation < incarnation && known.incarnation !== 0 && peer.addressOf(known) === undefined)
      peer.drop(known, restartedError(known));
    return peer.channel(node) ?? peer.expect(node, incarnation);
  }

  /** A connection with a node of this one's role goes on with its newest incarnation. */
  #followOwn({ node, address, incarnation, state }: RosterEntry): void {
    const channel = this.peer.channel(node);
    if (channel === undefined || channel.ended !== undefined || channel.incarnation >= incarnation) return;
    if (state === "alive" && address !== "" && this.peer.addressOf(channel) !== undefined) this.peer.dial(node, address, incarnation);
    else this.peer.drop(channel, nodeDeadError(node, "dead"));
  }

  /** ClusterNode.N2 */
  protected fail(error: WeighbridgeError): void {
    if (this.#failure !== undefined) return;
    if (this.#finalizing !== undefined) {
      if (this.#lastBarrier?.isWaiting !== true) return;
      this.#failure = error;
      this.#closing.abort(); // it waits no longer, even if nodes are missing
      return;
    }
    this.#failure = error;
    const fields = { code: error.code, reason: error.message };
    if (error.code === "CLOSED")
      this.log.info("the job is over", fields); // a guest's job has ended well
    else if (error.code === "FENCED") this.log.warn("the job goes on without this node", fields);
    else this.log.error("the job failed", fields);
    for (const channel of this.peer.channels()) channel.end(error);
    this.#over(error);
  }

  async #start(): Promise<void> {
    await this.join();
    if (this.#options.startBarrier !== false && !this.isRecovery) await this.barrier(Group.ALL, 0);
  }

  /** A DEADLINE of the start or the end names the missing nodes, as far as the scheduler knows. */
  async #explained(thrown: unknown, missing: () => string | Promise<string>): Promise<unknown> {
    if (!isWeighbridgeError(thrown, "DEADLINE")) return thrown;
    return incompleteError(thrown, await missing());
  }

  async #finalize({ barrier = true, timeoutMs, signal }: FinalizeOptions): Promise<void> {
    const wait = { timeoutMs, signal: signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]) };
    let failure: unknown;
    let isTogether = barrier !== false;
    try {
      if (barrier === true || (barrier === "living" && this.role !== "worker")) await this.#passLastBarrier(wait);
      else if (barrier === "living") await this.enterBarrier(Group.ALL, 0, wait, false);
    } catch (thrown) {
      const explained = await this.#explained(thrown, () => this.missingAtEnd());
      if (barrier === "living" && isWeighbridgeError(thrown, "NODE_DEAD")) isTogether = false;
      else failure = this.#failure ?? explained; // reported first, whatever leaving comes to
    }
    try {
      if (failure === undefined) this.peer.isLeaving = true;
      await this.depart({ ...wait, isTogether: isTogether && failure === undefined });
    } catch (thrown) {
      failure ??= this.#failure ?? thrown;
    } finally {
      for (const callback of this.#exitCallbacks.splice(0)) this.#callBack(callback);
      await this.#closeAll();
    }
    if (failure !== undefined) throw failure;
  }

  async #passLastBarrier(wait: WaitOptions): Promise<void> {
    this.#lastBarrier = new LastBarrier({
      clock: this.clock,
      log: this.log,
      // Others than workers stand there from the start.
      dead: () => (this.role === "worker" ? deadNodes(this.roster).map(nameOf) : []),
      enter: async (entry) => {
        this.checkAlive();
        await this.enterBarrier(Group.ALL, 0, entry, true);
      },
      checkAlive: () => this.checkAlive(),
      hasWorkers: this.hasWorkers?.bind(this),
    });
    await this.#lastBarrier.pass(wait);
  }

  async #closeAll(): Promise<void> {
    for (const resource of this.#resources.splice(0)) await resource.close();
    await this.release();
    await this.peer.close();
    this.#over(closedError());
    this.#closed.resolve();
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
}

function closedError(): WeighbridgeError {
  return new WeighbridgeError("CLOSED", "this node was closed");
}

function checkCount(what: string, count: number): void {
  if (Number.isSafeInteger(count) && count >= 0) return;
  throw badArgument(`${what} must be a whole number from 0 up, but is ${count}`);
}
