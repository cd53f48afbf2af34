// membership — a server's or worker's part in the job: it joins through the scheduler, keeps the newest roster, sends heartbeats, stands at
// barriers and leaves. It decides nobody's death: only the roster says who is dead, and while the scheduler is away each node for itself (link-watch.ts).
//
//   join ──► registered ──► joined ──► leave
//               ▲              │ the scheduler has a new life: register again with `resume`, then send again what was open
//               └──────────────┘ (everything else goes on meanwhile)
//
// Events: a Peer has one set of listeners, and Membership takes it. What concerns the scheduler's channel it handles itself; what concerns
// any other channel goes to `events`, which the server or worker sets as it would have set the peer's own.
//
// Invariants:
//   M1. Nothing but REGISTER is sent to a scheduler that does not know us: other calls wait until it has answered that.
//   M2. While the scheduler is away nothing fails because of it, for `startTimeoutMs`; then those who wait for it are told, and nobody else.
//   M3. `onFatal` is told at most once: the job was aborted, or this node was replaced.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { type ErrorCode, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { randomToken } from "../base/random-token.ts";
import { catalogueTell } from "../contracts/catalogue.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { ABORT, BARRIER, GATHER, LEAVE, PLACEMENT, REGISTER, RENDEZVOUS, ROSTER, STATUS, UNITS } from "../contracts/control.ts";
import type { Call } from "../peer/call.ts";
import { ask, serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import { checkGreeting } from "../peer/greeting.ts";
import type { Peer, PeerEvents } from "../peer/peer.ts";
import type { Address } from "../transport/transport.ts";
import { type CatalogueEntry, cataloguePages } from "../wire/catalogue.ts";
import type { AbortRequest } from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
import type { GatherReply, GatherRequest, Generation } from "../wire/gather.ts";
import { missingText } from "../wire/missing-nodes.ts";
import { nameOf, type Role, rankOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterReply, ResumeClaim } from "../wire/register.ts";
import type { RendezvousHeld, RendezvousReply, RendezvousRequest } from "../wire/rendezvous.ts";
import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import type { UnitsClaim, UnitsReply, UnitsRequest } from "../wire/units.ts";
import { BarrierClient } from "./barrier-client.ts";
import { Heartbeat } from "./heartbeat.ts";
import { LinkWatch } from "./link-watch.ts";
import { type PlacementListener, RosterCopy, type RosterListener } from "./roster-copy.ts";
import { SchedulerWatch } from "./scheduler-watch.ts";
import { wrongScheduler } from "./wrong-scheduler.ts";

export type MembershipOptions = {
  /** Its id, incarnation, job and events are set here. */
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: Role;
  /** Left out: any free rank. */
  readonly rank: number | undefined;
  /** Where this node listens; "" for one that does not. */
  readonly address: Address;
  readonly label: string;
  readonly serverCount: number;
  readonly workerCount: number;
  readonly schedulerAddress: Address;
  readonly startTimeoutMs: number;
  /** Calls to a node that could not be reached for this long fail. */
  readonly linkTimeoutMs?: number | undefined;
  /** Tells this process from every other one; random when left out. */
  readonly token?: string;
};

/** What a node knows of the catalogue. */
export type CatalogueSource = {
  /** The highest number that it has heard of. */
  readonly highest: number;
  entries(): Iterable<CatalogueEntry>;
};
const NO_CATALOGUE: CatalogueSource = { highest: 0, entries: () => [] };

type FatalListener = (error: WeighbridgeError) => void;

const LEAVE_DEADLINE_MS = 5000;
/** How much later a deadline may be told, to name who is missing: a round trip where the scheduler answers. */
const STATUS_DEADLINE_MS = 500;
export const LINK_TIMEOUT_MS = 30_000;

export class Membership {
  /** What the room above wants to hear of all channels but the scheduler's. */
  events: PeerEvents = {};
  /** What a worker tells a scheduler that was restarted of the units it was lent. */
  unitsClaim: () => UnitsClaim | undefined = () => undefined;
  /** The same of the rendezvous that it has left. */
  rendezvousHeld: () => readonly RendezvousHeld[] = () => [];
  /** What this node knows of the catalogue of parameters, for a scheduler that was restarted. */
  catalogue: CatalogueSource = NO_CATALOGUE;
  readonly #options: MembershipOptions;
  readonly #token: string;
  readonly #peer: Peer;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #roster = new RosterCopy();
  /** Came before the answer to our registration: nobody is told of it, and so nobody is dialed, before we know who we are. */
  #earlyRoster: RosterView | undefined;
  /** Where this node listens; a worker may begin to later. */
  #address: Address;
  /** The newest generation of workers that this node was told it is in. */
  #gathered: Generation | undefined;
  readonly #fatalListeners = new Set<FatalListener>();
  #channel: Channel | undefined;
  #place: RegisterReply | undefined;
  #barriers: BarrierClient | undefined;
  #fatal: WeighbridgeError | undefined;
  /** While joining: why it cannot. */
  #joining: Deferred<never> | undefined;
  readonly #watch: SchedulerWatch;
  readonly #links: LinkWatch;
  #closed = false;
  #heartbeat: Heartbeat | undefined;
  /** While a new scheduler does not know us yet (M2). */
  #resuming: Deferred<void> | undefined;
  #isRegistering = false;
  #cancelResume: CancelTimer = () => {};
  #heldCalls: Call[] = [];
  #leaving: Deferred<void> | undefined;

  constructor(options: MembershipOptions) {
    const { peer } = options;
    assert(options.role !== "scheduler", "the scheduler keeps the roster, it does not join");
    this.#options = options;
    this.#address = options.address;
    this.#token = options.token ?? randomToken();
    this.#peer = peer;
    peer.token = this.#token;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#watch = new SchedulerWatch({ ...options, loss: () => peer.schedulerLoss });
    this.#links = new LinkWatch({
      ...options,
      linkTimeoutMs: options.linkTimeoutMs ?? LINK_TIMEOUT_MS,
      isSchedulerAway: () => this.#channel?.link === undefined,
      isAlive: (node) => this.entry(node)?.state === "alive",
    });
    peer.events = this.#peerEvents();
    peer.serve(
      serveJson(ROSTER, (channel, roster) => {
        checkSender(channel, "ROSTER");
        if (this.#place === undefined) this.#earlyRoster = roster;
        else this.#roster.adopt(roster);
        return {};
      }),
    );
    peer.serve(
      serveJson(ABORT, (channel, { code, message }) => {
        checkSender(channel, "ABORT");
        this.#end(new WeighbridgeError(code as ErrorCode, message));
        return {};
      }),
    );
  }

  /** This node's id. */
  get node(): number {
    return this.#joined.node;
  }

  get rank(): number {
    return rankOf(this.#joined.node);
  }

  get incarnation(): number {
    return this.#joined.incarnation;
  }

  /** True when this node took over a place that another had before: the job was running when it came. */
  get recovery(): boolean {
    return this.#joined.recovery;
  }

  get job(): string {
    return this.#joined.job;
  }

  /** The newest roster heard of; it does not list the scheduler. */
  get roster(): RosterView {
    return this.#roster.view;
  }

  /** The newest placement heard of; undefined before this node has joined, and in a job without servers. */
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

  /** The nodes of a group that have not left, dead ones included, in ps-lite's order: workers by rank, servers by rank, the scheduler. */
  members(group: number): number[] {
    return this.#roster.members(group);
  }

  deadNodes(): number[] {
    return this.#roster.deadNodes();
  }

  /** Calls `listener` with every newer roster. Returns what ends that. */
  onRoster(listener: RosterListener): () => void {
    return this.#roster.listen(listener);
  }

  /** Calls `listener` with every newer placement, after those who listen for rosters. Returns what ends that. */
  onPlacement(listener: PlacementListener): () => void {
    return this.#roster.listenPlacement(listener);
  }

  /** Asks the scheduler for its placement, and takes it if it is newer; waits for one that is away, as long as all do (M2). */
  async askPlacement(): Promise<void> {
    if (this.#fatal !== undefined) throw this.#fatal;
    const { placement } = await this.#ask(PLACEMENT, {});
    if (placement !== undefined) this.#roster.adoptPlacement(placement);
  }

  /** Calls `listener` when this node cannot go on, also if that was before. Returns what ends that. */
  onFatal(listener: FatalListener): () => void {
    this.#fatalListeners.add(listener);
    const error = this.#fatal;
    if (error !== undefined) this.#clock.soon(() => listener(error));
    return () => this.#fatalListeners.delete(listener);
  }

  /** Registers and waits until the whole cluster has. Throws SCHEDULER_UNREACHABLE, or the scheduler's own error. */
  async join(): Promise<void> {
    assert(this.#channel === undefined, "a node joins once");
    this.#joining = new Deferred();
    const channel = this.#peer.dial(SCHEDULER_ID, this.#options.schedulerAddress, 0);
    this.#channel = channel;
    this.#watchStart();
    this.#watch.noticeAbsence(channel);
    try {
      const reply = await Promise.race([this.#register(channel, undefined), this.#joining.promise]);
      this.#place = reply;
      this.#peer.id = reply.node;
      this.#peer.incarnation = reply.incarnation;
      this.#peer.job = reply.job;
      const failed = (error: unknown): void => {
        if (isWeighbridgeError(error, "FENCED")) this.#end(error);
      };
      this.#heartbeat = new Heartbeat({ channel, clock: this.#clock, log: this.#log, failed });
      this.#roster.listen(() => this.#checkReplaced());
      this.#barriers = new BarrierClient({ clock: this.#clock, isLate: reply.recovery, enter: (request) => this.#ask(BARRIER, request) });
      this.#settleIn(reply);
    } catch (thrown) {
      const error = thrown instanceof WeighbridgeError ? thrown : new WeighbridgeError("BAD_REQUEST", reasonOf(thrown), { cause: thrown });
      this.#peer.drop(channel, error);
      throw error;
    } finally {
      this.#joining = undefined;
      this.#watch.started();
    }
  }

  /**
   * Waits until every member of the group stands at this barrier. Throws NODE_DEAD when one of them died; the caller may enter again.
   * A caller that stops waiting leaves its entry standing, and comes back to the same barrier with the next call.
   */
  async barrier(group: number, customer: number, wait: WaitOptions = {}): Promise<void> {
    if (this.#fatal !== undefined) throw this.#fatal;
    assert(this.#barriers !== undefined, "join comes first");
    await this.#barriers.pass(group, customer, wait);
  }

  /** Whether the scheduler cannot be asked now: there is no link to it, or it has not taken this node back. */
  get isSchedulerAway(): boolean {
    return this.#channel?.link === undefined || this.#resuming !== undefined;
  }

  get schedulerAddress(): Address {
    return this.#options.schedulerAddress;
  }

  /** Asks the scheduler; waits for one that is away, as long as all do (M2). */
  async ask<Q, R>(message: JsonContract<Q, R>, body: Q): Promise<R> {
    if (this.#fatal !== undefined) throw this.#fatal;
    return await this.#ask(message, body);
  }

  /** Tells the scheduler of units and asks for others; waits for one that is away, as long as all do (M2). */
  async askUnits(request: UnitsRequest): Promise<UnitsReply> {
    if (this.#fatal !== undefined) throw this.#fatal;
    return await this.#ask(UNITS, request);
  }

  /** Comes to a rendezvous; waits for a scheduler that is away, as long as all do (M2). */
  async rendezvous(request: RendezvousRequest): Promise<RendezvousReply> {
    if (this.#fatal !== undefined) throw this.#fatal;
    return await this.#ask(RENDEZVOUS, request);
  }

  /** Tells the scheduler where this worker listens for the others, and waits for the generation that it is in then. */
  async gather(request: GatherRequest): Promise<GatherReply> {
    if (this.#fatal !== undefined) throw this.#fatal;
    if (request.step !== "look") this.#address = request.address;
    if (request.step === "leave") this.#gathered = undefined;
    const reply = await this.#ask(GATHER, request);
    const { generation, members } = reply;
    if (request.step === "enter") this.#gathered = { generation, members };
    this.#roster.adopt(reply.roster);
    return reply;
  }

  /**
   * Tells the scheduler that this node is done: it no longer counts. With `failure` it cannot begin: the cluster that starts with it ends with that reason. Returns
   * even if the scheduler cannot be told.
   */
  async leave(wait: WaitOptions = { deadlineMs: LEAVE_DEADLINE_MS }, failure?: AbortRequest): Promise<void> {
    const { log } = this.#options;
    this.#heartbeat?.stop();
    if (this.#place === undefined || this.#fatal !== undefined || this.#leaving !== undefined) return;
    this.#leaving = new Deferred();
    try {
      await waitFor(
        Promise.race([this.#ask(LEAVE, failure === undefined ? {} : { failure }), this.#leaving.promise]),
        "the scheduler to let this node go",
        this.#clock,
        wait,
      );
    } catch (thrown) {
      log.warn("the scheduler does not know that this node left", { reason: reasonOf(thrown) });
    }
  }

  /** Stops heartbeats and waits. The peer stays open; it is the caller's. */
  close(): void {
    this.#closed = true;
    this.#heartbeat?.stop();
    this.#links.close();
    this.#cancelResume();
    this.#watch.close();
    const error = new WeighbridgeError("CLOSED", "this node was closed");
    this.#joining?.reject(error);
    for (const call of this.#heldCalls.splice(0)) call.failed(error); // a scheduler that was restarted has not taken us back yet
    this.#resuming?.reject(error);
    this.#leaving?.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  get #joined(): RegisterReply {
    assert(this.#place !== undefined, "join comes first");
    return this.#place;
  }

  #peerEvents(): PeerEvents {
    return {
      linkUp: (channel) => {
        if (channel !== this.#channel) this.events.linkUp?.(channel);
        else if (this.#joining !== undefined) this.#watchStart();
        else {
          this.#watch.back();
          this.#heartbeat?.linkUp();
          if (this.#resuming !== undefined) this.#resumeOver(channel);
        }
      },
      linkDown: (channel) => {
        if (channel !== this.#channel) this.events.linkDown?.(channel);
        else if (this.#joining !== undefined) this.#watchStart();
        else this.#watchAway(channel);
      },
      unreachable: (channel, error) => {
        if (channel === this.#channel) {
          this.#schedulerAway(error);
          return;
        }
        this.#links.unreachable(channel, error);
        this.events.unreachable?.(channel, error);
      },
      refused: (channel, error) => {
        if (channel !== this.#channel) this.events.refused?.(channel, error);
        else this.#end(error);
      },
      restarted: (channel, again) => {
        if (channel === this.#channel) this.#schedulerRestarted(channel, again);
        else if (this.events.restarted !== undefined) this.events.restarted(channel, again);
        else for (const call of again) channel.send(call);
      },
      greeting: (hello) => {
        const { serverCount, workerCount } = this.#options;
        checkGreeting(hello, { roster: this.#roster.view, serverCount, workerCount, isCertain: true });
        this.events.greeting?.(hello);
      },
    };
  }

  // Joining.

  #register(channel: Channel, resume: ResumeClaim | undefined): Promise<RegisterReply> {
    const { role, rank, serverCount, workerCount, label } = this.#options;
    const address = this.#address;
    const token = this.#token;
    const packageVersion = this.#peer.packageVersion || undefined;
    return ask(channel, REGISTER, { role, rank, address, serverCount, workerCount, label, token, packageVersion, resume }, this.#clock);
  }

  #watchStart(): void {
    this.#watch.start({ isLinked: this.#channel?.link !== undefined }, (error) => {
      const joining = this.#joining;
      const tell = (missing: string): void => joining?.reject(missing === "" ? error : incompleteError(error, missing));
      this.missing().then(tell, () => tell(""));
    });
  }

  /** Which nodes the cluster waits for, as `server 1, worker 0`; "" when the scheduler does not tell, or none is missing. Never throws. */
  async missing(): Promise<string> {
    const channel = this.#channel;
    if (channel?.link === undefined || channel.ended !== undefined || this.#place !== undefined) return "";
    try {
      const { phase, waiting, ...counts } = await ask(channel, STATUS, {}, this.#clock, { deadlineMs: STATUS_DEADLINE_MS });
      return phase === "forming" ? missingText(counts, waiting) : "";
    } catch (thrown) {
      this.#log.debug("the scheduler does not tell who is missing", { reason: reasonOf(thrown) });
      return "";
    }
  }

  /** Whoever waits for a scheduler that does not come back is told so; everything else goes on without it (M2). */
  #watchAway(channel: Channel): void {
    if (this.#closed) return;
    const isExpected = this.#place === undefined || this.#leaving !== undefined || this.#fatal !== undefined || this.#peer.isLeaving;
    this.#watch.away(channel, { isExpected }, (error) => {
      channel.failCalls(error);
      for (const call of this.#heldCalls.splice(0)) call.failed(error);
      if (this.#resuming === undefined) return;
      this.#resuming.reject(error);
      this.#resuming = new Deferred();
    });
  }

  #schedulerAway(error: Error): void {
    this.#watch.problem = error.message;
    this.#watch.cause = error;
    const wrong = wrongScheduler(this.#options.schedulerAddress, error);
    if (wrong !== undefined) this.#joining?.reject(wrong); // a node that has its place waits for the right one
    this.#leaving?.resolve(); // It needs no farewell: it waited for the last of us and ended, or will learn of us by our silence.
  }

  /** The scheduler knows us now. */
  #settleIn(reply: RegisterReply): void {
    this.#roster.adopt(reply.roster);
    if (this.#earlyRoster !== undefined) this.#roster.adopt(this.#earlyRoster);
    this.#earlyRoster = undefined;
    this.#checkReplaced();
    this.#links.start(reply);
    if (this.#leaving === undefined && this.#fatal === undefined) this.#heartbeat?.start(reply);
  }

  // Running.

  async #ask<Q, R>(message: JsonContract<Q, R>, body: Q): Promise<R> {
    while (this.#resuming !== undefined) await this.#resuming.promise; // M1
    assert(this.#channel !== undefined, "join comes first");
    return await ask(this.#channel, message, body, this.#clock);
  }

  #checkReplaced(): void {
    const { node, incarnation } = this.#joined;
    const own = this.entry(node);
    if (own === undefined || own.incarnation <= incarnation) return;
    this.#end(new WeighbridgeError("FENCED", `${nameOf(node)} was replaced by "${own.label}" (life ${own.incarnation})`));
  }

  #schedulerRestarted(channel: Channel, again: readonly Call[]): void {
    // An application that was open, of a node without a place or of one that resumes, is simply made again.
    const applications = again.filter((call) => call.functionId === FunctionId.REGISTER);
    this.#heldCalls.push(...again.filter((call) => call.functionId !== FunctionId.REGISTER));
    for (const call of applications) channel.send(call);
    if (applications.length > 0 || this.#place === undefined) return;
    this.#resuming ??= new Deferred();
    this.#heartbeat?.stop();
    this.#resume(channel);
  }

  #resume(channel: Channel): void {
    const { job, node, incarnation } = this.#joined;
    this.#isRegistering = true;
    this.#log.info("the scheduler was restarted, resuming", { job, node: nameOf(node) });
    const known = {
      roster: this.#roster.view,
      passed: this.#barriers?.passed() ?? [],
      units: this.unitsClaim(),
      gathered: this.#gathered,
      rendezvous: this.rendezvousHeld(),
      catalogue: { highest: this.catalogue.highest },
    };
    this.#register(channel, { job, node, incarnation, ...known }).then(
      (reply) => this.#resumed(channel, reply),
      (error: unknown) => {
        this.#isRegistering = false;
        if (isWeighbridgeError(error) && !error.retryable) this.#end(error);
        else this.#log.warn("the scheduler did not take this node back; waiting for another one", { reason: reasonOf(error) });
      },
    );
  }

  /** There is a link to a scheduler that has not taken us back. No heartbeat watches it before that (M1), so its answer has a time of its own. */
  #resumeOver(channel: Channel): void {
    if (!this.#isRegistering) this.#resume(channel);
    const { link } = channel;
    const { heartbeatTimeoutMs } = this.#joined;
    if (heartbeatTimeoutMs === 0 || link === undefined) return;
    this.#cancelResume();
    this.#cancelResume = this.#clock.after(heartbeatTimeoutMs, () => {
      if (!this.#isRegistering || channel.link !== link) return;
      this.#log.warn("the scheduler's link is silent, dialing again", { silentMs: heartbeatTimeoutMs });
      link.destroy();
    });
  }

  #resumed(channel: Channel, reply: RegisterReply): void {
    this.#isRegistering = false;
    this.#resuming?.resolve();
    this.#resuming = undefined;
    this.#settleIn(reply);
    this.#tellCatalogue();
    const calls = this.#heldCalls;
    this.#heldCalls = [];
    for (const call of calls) channel.send(call);
  }

  #tellCatalogue(): void {
    for (const page of cataloguePages(this.catalogue.entries())) {
      this.#ask(catalogueTell, page).catch((thrown: unknown) => {
        this.#log.warn("the scheduler was not told which parameters this node knows", { reason: reasonOf(thrown) });
      });
    }
  }

  #end(error: WeighbridgeError): void {
    this.#joining?.reject(error);
    this.#leaving?.resolve();
    if (this.#fatal !== undefined || this.#leaving !== undefined) return; // M3
    this.#fatal = error;
    this.#heartbeat?.stop();
    for (const call of this.#heldCalls.splice(0)) call.failed(error);
    this.#resuming?.reject(error);
    for (const listener of [...this.#fatalListeners]) listener(error);
  }
}

/** The same DEADLINE, by name. */
export function incompleteError(error: WeighbridgeError, missing: string): WeighbridgeError {
  return new WeighbridgeError(error.code, `${error.message}; missing: ${missing}`, { retryable: error.retryable, cause: error });
}

function checkSender(channel: Channel, what: string): void {
  if (channel.id !== SCHEDULER_ID) throw new WeighbridgeError("BAD_REQUEST", `${what} comes from the scheduler, not from ${channel.name}`);
}
