// membership — a server's or worker's part in the job: it joins through the scheduler, keeps the newest roster, sends
// heartbeats, enters barriers and leaves. It declares nobody dead: the roster does, or, while the scheduler is away,
// each node for itself (link-monitor.ts).
//
//   join ──► registered ──► joined ──► leave
//               ▲              │ the scheduler has a new incarnation: register again with `resume`, resend what was
//               └──────────────┘ open (everything else goes on meanwhile)
//
// Invariants:
//   Membership.M1. A scheduler that is away fails nothing for `startTimeoutMs`; then it fails those who wait for it
//       alone.
//   Membership.M2. `onFatal` is called at most once: the job was aborted, or this node was replaced.
//   Membership.M3. A node that heard that the job is over answers that, and then dials nobody any more (Dialer.P3).

import { assert } from "../base/assert.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { asError, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { OpenWaits } from "../base/open-waits.ts";
import { randomToken } from "../base/random.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { BARRIER, LEAVE, PLACEMENT, REGISTER } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import { checkMember } from "../peer/hello-rules.ts";
import type { Peer } from "../peer/peer.ts";
import type { AcceptedNode, PeerEvents } from "../peer/peer-options.ts";
import type { Address } from "../transport/transport.ts";
import type { LeaveReply, LeaveRequest } from "../wire/control.ts";
import { idOf, isGuest, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterReply, ResumeClaim, StartCounts } from "../wire/register.ts";
import { isAwaited, type PlacementView, type RosterEntry, type RosterView } from "../wire/roster.ts";
import { BarrierClient } from "./barrier-client.ts";
import { Heartbeat, type HeartbeatRules } from "./heartbeat.ts";
import { LinkMonitor } from "./link-monitor.ts";
import { NodeMemory } from "./node-memory.ts";
import type { MemberOptions } from "./node-options.ts";
import { pulseFrames, pulseIntervalMs } from "./pulse.ts";
import { type PlacementListener, RosterCopy, type RosterListener } from "./roster-copy.ts";
import { incompleteError, missingNodes, SchedulerCalls, serveSchedulerNews } from "./scheduler-calls.ts";
import { SchedulerWait, schedulerText } from "./scheduler-wait.ts";
import { wrongScheduler } from "./start-failure.ts";

export type MembershipOptions = Pick<
  MemberOptions,
  | "clock"
  | "rank"
  | "serverCount"
  | "workerCount"
  | "schedulerAddress"
  | "otherSchedulers"
  | "linkTimeoutMs"
  | "copy"
  | "returns"
  | "hasNoClock"
  | "pulse"
> & {
  /** Its id, incarnation, job and events are set here. */
  readonly peer: Peer;
  readonly log: Log;
  readonly role: Role;
  /** Where this node listens; "" for one that does not. */
  readonly address: Address;
  readonly label: string;
  readonly startTimeoutMs: number;
  /** Calls to a server that another process goes on for last as long as these (LinkMonitor.A7). */
  readonly waits?: OpenWaits;
  /** Unique to this process; random when left out. */
  readonly token?: string;
};

export type ProcessEnding = { readonly exitCode: number; readonly isAwaited: boolean };

type FatalListener = (error: WeighbridgeError) => void;

/** Hears with each heartbeat whether the scheduler took this node for dead. */
export type DeathListener = {
  /** It did; that is said once for each time. */
  wasDead(): void;
  /** It answered a heartbeat that left then, and said nothing of it. */
  wasAlive(leftAtMs: number): void;
};

const LEAVE_DEADLINE_MS = 5000;
/** How long a pulse has to answer: a fraction of the heartbeat timeout. */
const ASKS_PER_TIMEOUT = 4;
export const LINK_TIMEOUT_MS = 30_000;
/**
 * Calls to a server with a standby wait for at least so many heartbeat timeouts: after one of them it is replaced, if
 * it has stopped.
 */
const TAKEOVER_TIMEOUTS = 2;

export class Membership {
  /** Throws for a node of the roster that must not dial this one. */
  checkDialer: (hello: { readonly node: number }) => void = () => {};
  /** Who of the guests may dial this node: a server. */
  guests: { check(hello: AcceptedNode): void } | undefined;
  /** Where this node listens; a worker may begin to later. */
  address: Address;
  /** What this node reports to a restarted scheduler. */
  readonly memory: NodeMemory = new NodeMemory();
  readonly #options: MembershipOptions;
  readonly #roster = new RosterCopy();
  /**
   * Came before the answer to our registration: listeners get it, dial others or take over, only once we have our id.
   */
  #earlyRoster: RosterView | undefined;
  readonly #fatalListeners = new Set<FatalListener>();
  readonly #deathListeners = new Set<DeathListener>();
  /** It was taken for dead, and nothing but its next barrier says so. */
  #isDeathUntold = false;
  #channel: Channel | undefined;
  #registration: RegisterReply | undefined;
  #barriers: BarrierClient | undefined;
  #fatal: WeighbridgeError | undefined;
  /** While joining: why it cannot. */
  #joining: Deferred<never> | undefined;
  readonly #calls: SchedulerCalls;
  readonly #watch: SchedulerWait;
  readonly #links: LinkMonitor;
  #closed = false;
  /** A standby that takes over ends its link with the scheduler itself: nobody is away. */
  #isTakingOver = false;
  #heartbeat: Heartbeat | undefined;
  #leaving: Deferred<LeaveReply> | undefined;
  /** Whether a scheduler that cannot be reached need not hear of it. */
  #mayLeaveUnheard = true;

  constructor(options: MembershipOptions) {
    const { peer } = options;
    assert(options.role !== "scheduler", "the scheduler keeps the roster, it does not join");
    this.#options = options;
    this.address = options.address;
    peer.token = options.token ?? randomToken();
    this.#calls = new SchedulerCalls({
      ...options,
      registerAgain: (channel) => this.#resume(channel),
      resumed: (reply) => {
        this.#settleIn(reply);
        this.memory.resumed();
      },
      refused: (error) => this.#end(error),
    });
    this.#watch = new SchedulerWait({ ...options, schedulerAddress: schedulerText(options), loss: () => peer.schedulerLoss });
    const { linkTimeoutMs = LINK_TIMEOUT_MS, startTimeoutMs } = options;
    this.#links = new LinkMonitor({
      ...options,
      linkTimeoutMs,
      suspected: () => this.#heartbeat?.beatNow(),
      isSchedulerAway: () => this.#channel?.link === undefined,
      isAwaited: (node) => isAwaited(this.entry(node) ?? { state: "left" }),
      successorMs: (node) => {
        if (this.entry(node)?.returns === true) return Math.max(linkTimeoutMs, startTimeoutMs);
        const hasStandby = roleOf(node) === "server" && this.entry(idOf("standby", rankOf(node))) !== undefined;
        return hasStandby ? Math.max(linkTimeoutMs, TAKEOVER_TIMEOUTS * this.heartbeatTimeoutMs) : undefined;
      },
    });
    peer.events = this.#peerEvents();
    serveSchedulerNews(peer, { roster: (roster) => this.#hear(roster), aborted: (error) => this.#aborted(error) });
  }

  /** This node's id. */
  get node(): number {
    return this.#joined.node;
  }

  get incarnation(): number {
    return this.#joined.incarnation;
  }

  /** True when this node took over a rank that another node had before: the job was running when it came. */
  get recovery(): boolean {
    return this.#joined.recovery;
  }

  get job(): string {
    return this.#joined.job;
  }

  /** What the job began with; before this node has joined, what it was started with. */
  get counts(): StartCounts {
    return this.#registration?.counts ?? this.#options;
  }

  /** Whether the job goes on without workers, as the scheduler says. */
  get serves(): boolean {
    return this.#registration?.serves === true;
  }

  /** The newest roster; it does not list the scheduler. */
  get roster(): RosterView {
    return this.#roster.view;
  }

  /** The newest placement; undefined before this node has joined, and in a job without servers. */
  get placement(): PlacementView | undefined {
    return this.#roster.view.placement;
  }

  /** Why this node cannot go on, if so. */
  get fatal(): WeighbridgeError | undefined {
    return this.#fatal;
  }

  entry(node: number): RosterEntry | undefined {
    return this.#roster.entry(node);
  }

  /** Adopts a roster that came with an answer of the scheduler, if it is newer. */
  adopt(roster: RosterView): void {
    this.#roster.adopt(roster);
  }

  /** Calls `listener` with every newer roster. Returns the function that stops it. */
  onRoster(listener: RosterListener): () => void {
    return this.#roster.listen(listener);
  }

  /** Calls `listener` with every newer placement, after the roster listeners. Returns the function that stops it. */
  onPlacement(listener: PlacementListener): () => void {
    return this.#roster.listenPlacement(listener);
  }

  /** Gets the scheduler's placement and adopts it if newer; waits for a scheduler that is away (Membership.M1). */
  async fetchPlacement(): Promise<void> {
    const { placement } = await this.callScheduler(PLACEMENT, {});
    if (placement !== undefined) this.adoptPlacement(placement);
  }

  /** Adopts a newer placement from another node: a restarted scheduler learns it from us. */
  adoptPlacement(placement: PlacementView): void {
    this.#roster.adoptPlacement(placement);
  }

  /** Tells `listener` whether this node was taken for dead, and is alive again. Returns the function that stops it. */
  onTakenForDead(listener: DeathListener): () => void {
    this.#deathListeners.add(listener);
    return () => this.#deathListeners.delete(listener);
  }

  /** Calls `listener` when this node cannot go on, also if that was before. Returns the function that stops it. */
  onFatal(listener: FatalListener): () => void {
    this.#fatalListeners.add(listener);
    const error = this.#fatal;
    if (error !== undefined) this.#options.clock.soon(() => listener(error));
    return () => this.#fatalListeners.delete(listener);
  }

  /**
   * Registers and waits until the whole cluster has; `claim`: with state of a process before it. Throws
   * SCHEDULER_UNREACHABLE, or the scheduler's own error.
   */
  async join(claim?: ResumeClaim): Promise<void> {
    assert(this.#channel === undefined, "a node joins once");
    const { peer, clock, log, schedulerAddress, otherSchedulers } = this.#options;
    this.#joining = new Deferred();
    const channel = peer.dial(SCHEDULER_ID, schedulerAddress, 0, { others: otherSchedulers ?? [] });
    this.#channel = channel;
    this.#watchStart();
    this.#watch.noticeAbsence(channel);
    try {
      const reply = await Promise.race([this.#register(channel, claim), this.#joining.promise]);
      this.#registration = reply;
      peer.id = reply.node;
      peer.incarnation = reply.incarnation;
      peer.job = reply.job;
      const failed = (error: unknown): void => {
        if (isWeighbridgeError(error, "FENCED")) this.#end(error);
      };
      this.#heartbeat = new Heartbeat({
        ...{ channel, clock, log, failed },
        body: () => ({ ...this.memory.heartbeat(), silent: this.#links.suspects(), sharing: this.#options.peer.sharing() }),
        told: ({ busy, wasDead }, leftAtMs) => {
          if (busy !== undefined) this.#links.busy(busy);
          if (wasDead === true) this.#wasDead();
          else for (const listener of [...this.#deathListeners]) listener.wasAlive(leftAtMs);
        },
        speak: (rules) => this.#speak(channel, rules),
        ask: (rules) => this.#askPulse(rules),
      });
      this.#roster.listen(() => this.#checkReplaced());
      this.#barriers = new BarrierClient({ clock, isLate: reply.recovery, enter: (request) => this.callScheduler(BARRIER, request) });
      this.#settleIn(reply);
    } catch (thrown) {
      const error = asError(thrown, "BAD_REQUEST");
      peer.drop(channel, error);
      throw error;
    } finally {
      this.#joining = undefined;
      this.#watch.started();
    }
  }

  /**
   * Waits until every member of the group has entered this barrier. Throws NODE_DEAD when one of them died; the caller
   * may enter again. A caller that stops waiting leaves its entry standing, and comes back to it with the next call.
   */
  async barrier(group: number, customer: number, wait: WaitOptions = {}, outlivesDeaths = false): Promise<void> {
    if (this.#fatal !== undefined) throw this.#fatal;
    assert(this.#barriers !== undefined, "join comes first");
    if (this.#isDeathUntold && !outlivesDeaths) {
      this.#isDeathUntold = false;
      const message = "this node was taken for dead, and is alive again: others may have passed barriers without it; enter again";
      throw new WeighbridgeError("NODE_DEAD", message, { retryable: true });
    }
    await this.#barriers.pass(group, customer, wait, outlivesDeaths);
  }

  /** Whether the scheduler cannot be called now: there is no link to it, or it has not resumed this node. */
  get isSchedulerAway(): boolean {
    return this.#channel?.link === undefined || this.#calls.isResuming;
  }

  /** Where the scheduler is looked for, for messages. */
  get schedulerAddress(): string {
    return schedulerText(this.#options);
  }

  /** Resolves when the scheduler can be called. Rejects when it stays away (Membership.M1). */
  async schedulerBack(): Promise<void> {
    if (this.#fatal !== undefined) throw this.#fatal;
    await this.#calls.back(this.#channel);
  }

  /** Calls the scheduler; waits for one that is away (Membership.M1). */
  async callScheduler<Q, R>(fn: JsonContract<Q, R>, body: Q): Promise<R> {
    if (this.#fatal !== undefined) throw this.#fatal;
    return await this.#calls.call(this.#channel, fn, body);
  }

  /**
   * Reports to the scheduler that this node is done: it no longer counts. With `failure` it cannot begin: the cluster
   * that starts with it ends with that reason. With `returns` it is waited for. Resolves even if the scheduler cannot
   * be reached, with whether the scheduler keeps it (`unlessNeeded`): then it has not left.
   */
  async leave(wait: WaitOptions = { timeoutMs: LEAVE_DEADLINE_MS }, request: LeaveRequest = {}): Promise<boolean> {
    this.#heartbeat?.stop();
    if (this.#registration === undefined || this.#fatal !== undefined || this.#leaving !== undefined) return false;
    this.#leaving = new Deferred();
    this.#mayLeaveUnheard = request.returns !== true && request.unlessNeeded !== true;
    try {
      const left = Promise.race([this.callScheduler(LEAVE, request), this.#leaving.promise]);
      const { isNeeded = false } = await waitFor(left, "the scheduler to let this node go", this.#options.clock, wait);
      if (!isNeeded) return false;
      this.#leaving = undefined;
      this.#heartbeat?.start(this.#joined);
      return true;
    } catch (thrown) {
      this.#options.log.warn("the scheduler does not know that this node left", { reason: reasonOf(thrown) });
      return false;
    }
  }

  /**
   * The process of this node ends in this turn, with this exit code: says so to the scheduler, in a write that the
   * system takes before this returns, if there is a link to it. `isAwaited`: another process is started with its rank.
   */
  processEnds({ exitCode, isAwaited }: ProcessEnding): void {
    const channel = this.#channel;
    if (this.#registration === undefined || this.#fatal !== undefined || this.#calls.isResuming) return;
    if (channel?.link === undefined) return;
    const request = { unclosed: exitCode, ...(isAwaited ? { returns: true } : {}) };
    callJson(channel, LEAVE, request, this.#options.clock).catch(() => {}); // the answer comes too late
    channel.flush();
  }

  /** How long a node may be silent before it is taken for dead; 0: only a closed link shows a death. */
  get heartbeatTimeoutMs(): number {
    return this.#joined.heartbeatTimeoutMs;
  }

  /** Whether something of this node is open, beside what watches over its links. */
  get isBusy(): boolean {
    if (this.#registration === undefined || this.#leaving !== undefined || this.#calls.isWaitedFor) return true;
    for (const channel of this.#options.peer.channels()) {
      const watching = channel === this.#channel ? this.#heartbeat?.openCount : this.#links.openCount(channel);
      if (channel.openCallCount > (watching ?? 0)) return true;
    }
    return false;
  }

  /** What heartbeats carry has changed: one leaves at once, unless one is open. */
  beatNow(): void {
    this.#heartbeat?.beatNow();
  }

  /**
   * The roster says that this standby holds the rank of its server: it speaks to everybody as that node from now on.
   */
  takeOver({ node, incarnation }: RosterEntry): void {
    const { peer } = this.#options;
    this.#registration = { ...this.#joined, node, incarnation };
    peer.id = node;
    peer.incarnation = incarnation;
    this.#isTakingOver = true;
    // The pulse, too, speaks as that node: its loop may be busy before the scheduler answers.
    this.#startHeartbeats(this.#joined);
    this.#channel?.link?.destroy(); // the next one begins with a hello of that node, and a scheduler that resumes it
  }

  /** This node waits for its rank for as long as it takes, now that it knows that there is none. */
  waitOn(): void {
    this.#watch.started();
  }

  /** Stops heartbeats and waits. The peer stays open; it is the caller's. */
  close(): void {
    this.#closed = true;
    this.#heartbeat?.stop();
    this.#links.close();
    this.#watch.close();
    const error = new WeighbridgeError("CLOSED", "this node was closed");
    this.#joining?.reject(error);
    this.#calls.close(error);
    this.#leaving?.resolve({});
  }

  get #joined(): RegisterReply {
    assert(this.#registration !== undefined, "join comes first");
    return this.#registration;
  }

  #peerEvents(): PeerEvents {
    return {
      linkUp: (channel) => {
        if (channel === this.#channel) this.#schedulerLinked(channel);
      },
      linkDown: (channel) => {
        if (channel !== this.#channel) return;
        if (this.#joining !== undefined) this.#watchStart();
        else this.#watchAway(channel);
      },
      unreachable: (channel, error) => {
        if (channel === this.#channel) this.#schedulerAway(error);
        else this.#links.unreachable(channel, error);
      },
      refused: (channel, error) => {
        if (channel === this.#channel) this.#end(error);
      },
      restarted: (channel, again) => {
        if (channel !== this.#channel) for (const call of again) channel.send(call);
        else if (this.#calls.restarted(channel, again, { isRegistered: this.#registration !== undefined })) this.#heartbeat?.pause();
      },
      hello: (hello) => {
        if (this.guests !== undefined && isGuest(hello.node)) this.guests.check(hello);
        else checkMember(hello, { roster: this.#roster.view, ...this.counts, isCertain: true, mayGrow: true });
        this.checkDialer(hello);
      },
    };
  }

  #register(channel: Channel, resume: ResumeClaim | undefined): Promise<RegisterReply> {
    const { rank, serverCount, workerCount, label, copy, returns, hasNoClock } = { ...this.#options, ...this.counts };
    const role = resume === undefined ? this.#options.role : roleOf(resume.node); // a standby may have taken over
    const { token, packageVersion: version } = this.#options.peer;
    const node = { role, rank, address: this.address, serverCount, workerCount, label, token, packageVersion: version || undefined };
    return callJson(channel, REGISTER, { ...node, resume, copy, returns, hasNoClock }, this.#options.clock);
  }

  #watchStart(): void {
    this.#watch.start({ isLinked: this.#channel?.link !== undefined }, (error) => {
      const joining = this.#joining;
      const report = (missing: string): void => joining?.reject(incompleteError(error, missing));
      missingNodes(this.#channel, this.#options).then(report, () => report("")); // the error names a missing scheduler
    });
  }

  /** Which nodes the cluster waits for, while this one joins; "" when that is not known. Never throws. */
  async missing(): Promise<string> {
    if (this.#registration !== undefined) return "";
    const isReached = this.#channel?.link !== undefined;
    return isReached ? await missingNodes(this.#channel, this.#options) : this.#watch.absence;
  }

  /** Which nodes have not come to the last barrier; "" when that is not known. Never throws. */
  async missingAtEnd(): Promise<string> {
    return await missingNodes(this.#channel, this.#options, "end");
  }

  /** Fails what waits for a scheduler that does not come back; everything else goes on without it (Membership.M1). */
  #watchAway(channel: Channel): void {
    if (this.#closed) return;
    const { isLeaving } = this.#options.peer;
    const isOver = this.#registration === undefined || this.#leaving !== undefined || this.#fatal !== undefined || isLeaving;
    const isExpected = isOver || this.#isTakingOver;
    this.#watch.away(channel, { isExpected }, (error) => {
      channel.failCalls(error);
      this.#calls.fail(error, { isOver: false });
    });
  }

  #schedulerLinked(channel: Channel): void {
    if (this.#joining !== undefined) {
      this.#watchStart();
      return;
    }
    if (this.#registration === undefined) return; // it has given up joining, and closes
    this.#watch.back();
    this.#heartbeat?.linkUp();
    this.#calls.linkUp(channel, this.#registration.heartbeatTimeoutMs);
  }

  #schedulerAway(error: Error): void {
    this.#watch.problem = error.message;
    this.#watch.cause = error;
    const wrong = wrongScheduler(this.#options.schedulerAddress, error);
    if (wrong !== undefined) this.#joining?.reject(wrong); // a node that has its rank waits for the right one
    if (this.#mayLeaveUnheard) this.#leaving?.resolve({}); // it ended after the last of us, or notices our silence
  }

  #hear(roster: RosterView): void {
    if (this.#registration === undefined || this.#calls.isResuming) this.#earlyRoster = roster;
    else this.#roster.adopt(roster);
  }

  /** The scheduler knows us now. */
  #settleIn(reply: RegisterReply): void {
    this.#isTakingOver = false;
    // The pulse of another scheduler answers elsewhere.
    this.#registration = { ...this.#joined, pulse: reply.pulse, serves: reply.serves };
    this.#roster.adopt(reply.roster);
    if (this.#earlyRoster !== undefined) this.#roster.adopt(this.#earlyRoster);
    this.#earlyRoster = undefined;
    this.#checkReplaced();
    this.#links.start(reply);
    this.#startHeartbeats(reply);
  }

  #startHeartbeats(rules: HeartbeatRules): void {
    if (this.#leaving === undefined && this.#fatal === undefined) this.#heartbeat?.start(rules);
  }

  /** The pulse of this process speaks for this node while its loop is busy, where the scheduler takes that. */
  #speak(channel: Channel, rules: HeartbeatRules): () => void {
    const { peer, schedulerAddress, otherSchedulers = [], pulse } = this.#options;
    const { job, node, incarnation, pulse: isTaken } = this.#joined;
    if (pulse === undefined || isTaken === undefined) return () => {};
    const addresses = [...new Set([peer.addressOf(channel) ?? schedulerAddress, schedulerAddress, ...otherSchedulers])];
    const frames = pulseFrames({ job, node, incarnation, token: peer.token });
    return pulse.speak({ node, addresses, everyMs: pulseIntervalMs(rules), frames });
  }

  /**
   * Asks the pulse of the scheduler's process whether it runs, and which of its nodes are busy. It may compute for as
   * long as it likes: in a host map a worker shares its loop. Where others may lead, a busy scheduler is replaced, and
   * looked for.
   */
  async #askPulse({ heartbeatTimeoutMs }: HeartbeatRules): Promise<void> {
    const { otherSchedulers = [], pulse } = this.#options;
    const { address, token } = this.#joined.pulse ?? {};
    if (pulse === undefined || address === undefined || otherSchedulers.length > 0) throw new WeighbridgeError("NO_ROUTE", "it has none");
    const answer = await pulse.ask(address, { timeoutMs: heartbeatTimeoutMs / ASKS_PER_TIMEOUT });
    if (answer.token !== token) throw new WeighbridgeError("NO_ROUTE", `${address} is the pulse of another process`);
    this.#links.busy(answer.busy);
  }

  /** The scheduler took this node for dead, and so did others. */
  #wasDead(): void {
    this.#options.log.warn("this node was taken for dead, and is alive again: others went on without it");
    this.#isDeathUntold = this.#deathListeners.size === 0;
    for (const listener of [...this.#deathListeners]) listener.wasDead();
  }

  #checkReplaced(): void {
    const { node, incarnation } = this.#joined;
    const own = this.entry(node);
    if (own === undefined || own.incarnation <= incarnation) return;
    this.#end(new WeighbridgeError("FENCED", `${nameOf(node)} was replaced by "${own.label}" (incarnation ${own.incarnation})`));
  }

  #resume(channel: Channel): Promise<RegisterReply> {
    const { job, node, incarnation } = this.#joined;
    if (!this.#isTakingOver) this.#options.log.info("the scheduler was restarted, resuming", { job, node: nameOf(node) });
    const known = { roster: this.#roster.view, passed: this.#barriers?.passed() ?? [], ...this.memory.claim() };
    return this.#register(channel, { job, node, incarnation, ...known });
  }

  /** The scheduler waits for the answer, and nobody dials it again to send that: it leaves first (Membership.M3). */
  #aborted(error: WeighbridgeError): void {
    this.#options.clock.soon(() => {
      this.#channel?.flush();
      this.#end(error);
    });
  }

  #end(error: WeighbridgeError): void {
    this.#joining?.reject(error);
    this.#leaving?.resolve({});
    if (this.#fatal !== undefined || this.#leaving !== undefined) return; // Membership.M2
    this.#fatal = error;
    this.#heartbeat?.stop();
    this.#calls.fail(error, { isOver: true });
    for (const listener of [...this.#fatalListeners]) listener(error);
  }
}
