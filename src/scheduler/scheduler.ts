// scheduler — carries out what the roster and the services decide: answers nodes, publishes changes, sets the one
// timer. It holds no parameters and decides nothing. While it is away, training goes on; a new one reads what it wrote
// (state-journal.ts), and learns the rest from the nodes (Roster.R3).
//
// Invariants:
//   Scheduler.D1. Before the cluster runs, the peer's hello has the job's name and no run: so nodes of a run that
//       outlived a scheduler can talk to it.
//   Scheduler.D2. Time is judged after the input that has arrived: a scheduler that was held up declares no node dead
//       whose heartbeat waits to be read. It looks at the time once in each heartbeat, so that it notices that it was
//       stopped (SilenceVerdicts.S3).
//   Scheduler.D3. Answers leave before `ready`, `finished` and `failed` settle: closing the scheduler then cuts nobody
//       off. After a failure it waits for the whole cluster, also for nodes that come later, `lingerMs` at most.
//   Scheduler.D4. A restarted scheduler has a higher incarnation than those that its nodes know, whatever its clock
//       says. One that has been there since the job began never takes a higher one: if nodes know a newer scheduler, it
//       was replaced.
//   Scheduler.D5. What was decided is durable before anybody is told: answers, rosters, the end of the job, and the
//       term in its hellos (StateJournal.J2). So no two schedulers of a job tell nodes different things of one epoch or
//       incarnation (Availability.I3).
//   Scheduler.D6. A job that serves ends in order only when every server has answered since it was told to.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { BarrierClient } from "../cluster/barrier-client.ts";
import { loopTimeoutFor } from "../cluster/pulse.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { ABORT, HEARTBEAT, LEAVE, PLACEMENT, REGISTER, STATUS } from "../contracts/control.ts";
import { toolHere } from "../contracts/tools.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import type { Address } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobNameOf } from "../wire/hello.ts";
import { isGuest, nameOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { deadNodes, missingAtEnd, missingText, type RosterView } from "../wire/roster.ts";
import { Admissions } from "./admissions.ts";
import { AnsweringServers } from "./answering-servers.ts";
import { logDecision, logDied, logOutdated, logRun, logUnclosed } from "./decision-log.ts";
import { drained, FailureNotice } from "./failure-notice.ts";
import { FunctionRelay } from "./function-relay.ts";
import { JournaledJob } from "./managed-job.ts";
import type { PendingRegistration } from "./pending-registrations.ts";
import { type ChangeCheck, PlacementChanges } from "./placement-changes.ts";
import type { PlacementChange } from "./placement-epochs.ts";
import { type MoveOptions, PlacementMoves } from "./placement-moves.ts";
import { Roster } from "./roster.ts";
import type { Decision } from "./roster-decision.ts";
import { RosterPush } from "./roster-push.ts";
import type { Scaling } from "./scaling.ts";
import { ScalingService } from "./scaling-service.ts";
import type { ScheduledRoster, SchedulerOptions } from "./scheduler-options.ts";
import { SchedulerServices, serveDurably } from "./scheduler-services.ts";
import type { SchedulerState } from "./scheduler-state.ts";
import { schedulerStatus } from "./scheduler-status.ts";
import { ServerProbe } from "./server-probe.ts";
import { StateJournal } from "./state-journal.ts";
import { Tools } from "./tools.ts";
import type { WorkerScaling } from "./worker-scaling.ts";

const LINGER_MS = 2000;

export class Scheduler {
  readonly #ready = new Deferred<void>();
  readonly #finished = new Deferred<void>();
  readonly #failed = new Deferred<WeighbridgeError>();
  /** The cluster is complete. Rejects if it never will be. */
  readonly ready: Promise<void> = this.#ready.promise;
  /** Everybody left. Rejects when the job ended with an error. */
  readonly finished: Promise<void> = this.#finished.promise;
  /** Fulfilled with the error that ended the job, if one did. */
  readonly failed: Promise<WeighbridgeError> = this.#failed.promise;
  readonly #options: SchedulerOptions;
  readonly #peer: Peer;
  readonly #clock: Clock;
  #startedAtMs = 0;
  readonly #journal: StateJournal;
  readonly #roster: Roster<PendingRegistration>;
  readonly #services: SchedulerServices;
  readonly #answering: AnsweringServers;
  readonly #admissions: Admissions;
  readonly #push: RosterPush;
  readonly #changes: PlacementChanges;
  readonly #moves: PlacementMoves;
  readonly #scaling: ScalingService;
  readonly #relay: FunctionRelay;
  readonly #tools: Tools;
  readonly #probe: ServerProbe<PendingRegistration>;
  readonly #ownBarriers: BarrierClient;
  /** The job for people, who ask beside our own protocol. */
  readonly managed: JournaledJob;
  readonly #rosterListeners = new Set<(roster: ScheduledRoster) => void>();
  readonly #failedListeners = new Set<(error: WeighbridgeError) => void>();
  /** Once the job failed: why, and who knows. */
  #failure: { readonly error: WeighbridgeError; readonly notice: FailureNotice } | undefined;
  #timerAtMs = Infinity;
  #cancelTimer: CancelTimer = () => {};
  readonly #closing = new AbortController();
  readonly #served = new Deferred<void>();
  #closed = false;
  /** The job has ended, well or not: the next one of its name begins anew. */
  #isOver = false;

  constructor(given: SchedulerOptions) {
    const { mayScale = true, loopTimeoutMs = loopTimeoutFor(given.heartbeatTimeoutMs) } = given;
    const options = { ...given, mayScale, loopTimeoutMs, hasStarted: () => !given.hasStartBarrier || this.#services.hasStarted };
    const { peer, clock, jobId } = options;
    const journal = new StateJournal(options.store);
    journal.onRecord = options.onRecord ?? journal.onRecord;
    journal.onLost((error) => this.#lose(error));
    this.#journal = journal;
    this.#options = options;
    this.#peer = peer;
    this.#clock = clock;
    const { onServers = () => {}, onWorkers = () => {} } = options;
    this.#roster = new Roster({ rules: { ...options, probesServers: options.transport !== undefined }, journal, jobId });
    this.#probe = new ServerProbe({ ...options, roster: this.#roster, carryOut: (decisions) => this.#carryOut(decisions) });
    this.#services = new SchedulerServices({
      ...options,
      journal,
      roster: this.#roster,
      heard: (channel) => this.#heard(channel),
      carryOut: (decisions, how) => this.#carryOut(decisions, how),
      dismiss: () => this.#dismissDead(),
      giveUp: (error) => this.abort(error),
    });
    this.#admissions = new Admissions({ ...options, journal, roster: this.#roster, services: this.#services });
    this.#answering = new AnsweringServers({ ...options, roster: () => this.roster });
    this.#relay = new FunctionRelay({ ...options, view: () => this.#roster.view() });
    this.#tools = new Tools({ ...options, end: (channel) => this.#endTool(channel) });
    const { guests } = this.#roster;
    this.#push = new RosterPush({ peer, clock, journal, guests, view: (reader) => this.#roster.view(reader) });
    this.#changes = new PlacementChanges({
      ...{ peer, clock, view: () => this.#roster.view() },
      next: (change) => this.#roster.nextPlacement(change),
      tell: (change, how) => this.#carryOut(this.#roster.publishPlacement(change, how)),
      pending: () => this.#journal.state.pending,
      handOver: () => this.#carryOut(this.#roster.handOver()),
      isSettled: () => this.#roster.hasHeardEverybody,
    });
    this.#moves = new PlacementMoves({ changes: this.#changes, clock, view: () => this.#roster.view() });
    this.#scaling = new ScalingService({
      ...{ ...options, journal, onServers, onWorkers },
      view: () => this.#roster.view(),
      isSettled: () => this.#roster.hasHeardEverybody,
      askedRanks: () => this.#roster.waiting().flatMap(({ role, rank }) => (role === "server" && rank !== undefined ? [rank] : [])),
      moveTo: (servers, how) => this.#moves.moveTo(servers, how),
      changed: () => this.#carryOut(this.#roster.review(this.#clock.nowMs())),
      dismiss: (node, incarnation) => this.#carryOut(this.#roster.leave(node, incarnation, this.#clock.nowMs())),
    });
    this.managed = new JournaledJob({ clock, journal, scaling: this.#scaling, status: () => this.status() });
    // Late, because an earlier scheduler may have passed barriers of this job.
    this.#ownBarriers = new BarrierClient({ clock, isLate: true, enter: (request) => this.#services.enterBarrier(SCHEDULER_ID, request) });
  }

  /**
   * Waits until no other scheduler decides for the job, then listens and waits for the nodes. Returns the address with
   * the real port. Throws as the store does (StateStore.open), and WRONG_JOB for the state of another job.
   */
  async start(address: Address): Promise<Address> {
    const peer = this.#peer;
    await this.#takeOver();
    await this.#journal.whenDurable(); // Scheduler.D5
    peer.id = SCHEDULER_ID;
    peer.job = jobNameOf(this.#journal.state.job); // Scheduler.D1
    peer.incarnation = this.#journal.state.term;
    peer.events = {
      linkUp: (channel) => this.#linkUp(channel),
      linkDown: (channel) => this.#linkDown(channel),
      hello: (hello) => this.#admissions.checkHello(hello),
    };
    this.#serve();
    const listening = await peer.listen(address);
    this.#arm();
    return listening;
  }

  /** Whether anybody has, or had, a rank by this state. */
  get #hasNodes(): boolean {
    return this.#journal.state.incarnations.size > 0;
  }

  /** Begins the job, or goes on with what the store holds of it, in a new term. */
  async #takeOver(): Promise<void> {
    const { jobId, incarnation, serverCount, workerCount, log } = this.#options;
    const journal = this.#journal;
    const isStored = await journal.open(this.#closing.signal);
    const { job, term } = journal.state;
    const isFound = this.#hasNodes; // of one that died before, nobody was told anything
    if (isStored && jobNameOf(job) !== jobNameOf(jobId)) {
      const message = `the scheduler's state in ${journal.location} is that of job "${jobNameOf(job)}", not of "${jobNameOf(jobId)}"`;
      throw new WeighbridgeError("WRONG_JOB", `${message}; name that job, or another state directory`);
    }
    journal.write({ kind: "start", job: isFound ? job : jobId, term: Math.max(term + 1, incarnation), serverCount, workerCount });
    this.#startedAtMs = this.#clock.nowMs();
    this.#roster.open(this.#startedAtMs, { isFound });
    if (isFound)
      log.warn("an earlier scheduler's state was found, waiting for its nodes", { state: journal.location, waitMs: this.#roster.returnMs });
  }

  /** True when this scheduler took over a job that was running. */
  get isResumed(): boolean {
    return this.#roster.isResumed;
  }

  /** What this scheduler must not forget. To be read at once: the next record changes it. */
  get state(): SchedulerState {
    return this.#journal.state;
  }

  get roster(): RosterView {
    return this.#roster.view();
  }

  get job(): string {
    return this.#roster.job;
  }

  /** Nodes that are dead now, by id. */
  deadNodes(): number[] {
    return deadNodes(this.roster);
  }

  status(): StatusReply {
    const sources = { counts: this.#options, peer: this.#peer, journal: this.#journal, roster: this.#roster };
    const { leaving } = this.#services;
    return schedulerStatus({ ...sources, leaving, tools: this.#tools, startedAtMs: this.#startedAtMs }, this.#clock.nowMs());
  }

  /** Which nodes have not come to the last barrier. */
  missingAtEnd(): string {
    return missingAtEnd(this.roster.nodes, this.#services.leaving);
  }

  /** Which nodes a cluster that forms waits for; "" when none is missing. */
  missing(): string {
    return this.#roster.phase === "forming" ? missingText(this.#options, this.#roster.waiting()) : "";
  }

  /** The scheduler's own entry into a barrier of a group it belongs to. */
  async barrier(group: number, customer: number, wait: WaitOptions = {}, outlivesDeaths = false): Promise<void> {
    await waitFor(this.ready, "the cluster to be complete", this.#clock, wait);
    await this.#ownBarriers.pass(group, customer, wait, outlivesDeaths);
  }

  /** Calls `listener` with every newer roster. Returns the function that stops it. */
  onRoster(listener: (roster: ScheduledRoster) => void): () => void {
    this.#rosterListeners.add(listener);
    return () => this.#rosterListeners.delete(listener);
  }

  /** Calls `listener` with the error that ends the job, if one does. Returns the function that stops it. */
  onFailed(listener: (error: WeighbridgeError) => void): () => void {
    this.#failedListeners.add(listener);
    return () => this.#failedListeners.delete(listener);
  }

  /**
   * Publishes a placement that differs in `change` and has the next epoch, once all nodes are prepared and `check` does
   * not throw; ends when the parts have changed hands. Throws as PlacementChanges.publish, and NO_ROUTE before every
   * node of the job has resumed, since one may know a newer placement.
   */
  async publishPlacement(change: PlacementChange = {}, check?: ChangeCheck): Promise<void> {
    await this.#changes.publish(change, check);
  }

  /** Moves all parts to the servers of these ranks, live. Throws as PlacementMoves.moveTo. */
  async moveTo(servers: readonly number[], options: MoveOptions = {}): Promise<void> {
    await this.#moves.moveTo(servers, options);
  }

  /** Changes of the number of servers. */
  get scaling(): Scaling {
    return this.#scaling.scaling;
  }

  /** Changes of the number of workers. */
  get workers(): WorkerScaling {
    return this.#scaling.workers;
  }

  /** Everybody has passed the last barrier, or the launcher ends the job: nobody comes or takes over any more. */
  ending(): void {
    this.#carryOut(this.#roster.ending(this.#clock.nowMs()));
  }

  /** Fulfilled when a job that serves is told to end. */
  get served(): Promise<void> {
    return this.#options.serves === true ? this.#served.promise : Promise.resolve();
  }

  /** Ends a job that serves in order, unless AnsweringServers finds a problem. Resolves with whether it does. */
  async tryEndServing(): Promise<boolean> {
    const reason = this.#roster.phase === "running" ? await this.#answering.problem() : "the cluster is not complete";
    if (reason === "") this.endServing();
    else this.#options.log.warn("the job does not end in order", { reason });
    return reason === "";
  }

  /** A job that serves ends as if its last worker had left now. Nobody waits for nodes that are dead. */
  endServing(): void {
    this.ending();
    this.#dismissDead();
    this.#served.resolve();
  }

  /** Ends the job: every node gets the reason. */
  abort(error: WeighbridgeError): void {
    this.#carryOut(this.#roster.fail(error));
  }

  /** Decides and tells nothing more, so that another scheduler may. For a process about to end. */
  async handOver(): Promise<void> {
    await this.#journal.close({ isOver: false });
  }

  /** Lets what was answered leave (Scheduler.D3), then closes the peer. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#probe.close();
    this.#tools.close();
    this.#cancelTimer();
    this.#closing.abort();
    await this.#failure?.notice.over();
    await drained(this.#clock);
    await this.#journal.close({ isOver: this.#isOver || !this.#hasNodes });
    const error = new WeighbridgeError("CLOSED", "the scheduler was closed");
    this.managed.close(error);
    this.#endServices(error);
    this.#ready.reject(error);
    this.#finished.reject(error);
    await this.#peer.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #serve(): void {
    const serve = <Q, R>(fn: JsonContract<Q, R>, answer: (channel: Channel, request: Q) => R | Promise<R>): void =>
      this.#peer.serve(serveDurably(this.#journal, fn, answer));
    serve(REGISTER, async (channel, request) => {
      // A server that comes back while parts move would take those for its own that have not come.
      while (request.role === "server" && request.resume === undefined && this.#arePartsMoving) await this.#changes.moving;
      if (channel.link === undefined) throw new WeighbridgeError("LINK_LOST", "the node that registers is gone", { retryable: true });
      const caller = this.#admissions.open(channel, request);
      this.#carryOut(this.#roster.register(request, caller, this.#clock.nowMs()));
      const reply = await caller.reply.promise;
      if (isGuest(reply.node) && request.resume === undefined) await this.#push.heard(); // Guests.G4
      return reply;
    });
    serve(HEARTBEAT, (channel, request) => {
      const { holdsSums, standbyLost, standbyFilled, loopBusyMs = 0 } = request;
      const { id, incarnation, pulseOf } = channel;
      if (pulseOf !== undefined) {
        this.#carryOut(this.#roster.pulse(pulseOf.node, pulseOf.incarnation, loopBusyMs, this.#clock.nowMs()));
        return {};
      }
      if (standbyFilled !== undefined) this.#carryOut(this.#roster.standbyFilled(id, incarnation, standbyFilled, this.#clock.nowMs()));
      if (standbyLost !== undefined) this.#carryOut(this.#roster.standbyLost(id, incarnation, standbyLost, this.#clock.nowMs()));
      this.#heard(channel, holdsSums);
      return this.#roster.answerOf(id, request, this.#clock.nowMs());
    });
    serve(LEAVE, (channel, request) => {
      const { id, incarnation } = channel;
      const decisions = this.#roster.leave(id, incarnation, this.#clock.nowMs(), request);
      this.#carryOut(decisions);
      if (decisions.some(({ kind }) => kind === "needed")) return { isNeeded: true };
      channel.isLeaving = true;
      return {};
    });
    serve(STATUS, () => this.status());
    serve(toolHere, (channel, notice) => this.#tools.here(channel, notice));
    this.#relay.serve();
    this.#scaling.serve();
    serve(PLACEMENT, (channel) => {
      this.#heard(channel);
      return { placement: this.roster.placement };
    });
    this.#services.serve();
  }

  /** Of a job that runs: one that forms goes on with no placement of before. */
  get #arePartsMoving(): boolean {
    return this.#roster.phase === "running" && this.#changes.moving !== undefined;
  }

  #heard({ id, incarnation }: Channel, holdsSums = false): Record<never, never> {
    this.#carryOut(this.#roster.heard(id, incarnation, this.#clock.nowMs(), holdsSums));
    return {};
  }

  /** The dead will not come back: they count as having left. */
  #dismissDead(): void {
    for (const { node, incarnation, state } of this.roster.nodes) {
      if (state === "dead") this.#carryOut(this.#roster.leave(node, incarnation, this.#clock.nowMs()));
    }
  }

  #linkUp(channel: Channel): void {
    if (channel.link === undefined || this.#peer.channel(channel.id) !== channel) return;
    this.#carryOut(this.#roster.linkUp(channel.id, channel.incarnation, this.#clock.nowMs()));
  }

  #linkDown(channel: Channel): void {
    this.#relay.forget(channel);
    this.#tools.forget(channel);
    const caller = this.#admissions.take(channel);
    if (caller !== undefined) this.#roster.withdraw(caller, this.#clock.nowMs());
    if (this.#closed || this.#peer.channel(channel.id) !== channel) return; // else it was replaced
    this.#carryOut(this.#roster.linkDown(channel.id, channel.incarnation, this.#clock.nowMs()));
    this.#probe.lost(channel.id, channel.incarnation);
  }

  #carryOut(
    decisions: readonly Decision<PendingRegistration>[],
    { isReviewed }: { readonly isReviewed: boolean } = { isReviewed: false },
  ): void {
    for (const decision of decisions) this.#carryOutOne(decision);
    if (isReviewed) return;
    if (decisions.length > 0) {
      this.#services.review();
      this.#changes.review();
      this.#scaling.review();
    }
    this.#arm();
  }

  #carryOutOne(decision: Decision<PendingRegistration>): void {
    const { log } = this.#options;
    switch (decision.kind) {
      case "run":
        this.#peer.job = this.#roster.job; // Scheduler.D1
        logRun(log, decision, { job: this.#roster.job, nodes: this.#roster.view().nodes.length });
        this.#notifyRosterListeners();
        this.#journal.told(this.#ready.resolve);
        break;
      case "setAside":
        log.warn(`the state of an earlier run is set aside: ${decision.reason}`, { state: this.#journal.location, run: decision.job });
        break;
      case "outdated":
        logOutdated(log, decision, this.#journal.location);
        break;
      case "admit":
        this.#admissions.admit(decision);
        if (roleOf(decision.node) === "server") this.#push.serverCame();
        if (this.#roster.isResumed) this.#notifyRosterListeners(); // it may be no news for nodes that it is heard
        break;
      case "refuse":
        this.#refuse(decision.caller, decision.error);
        break;
      case "spare":
        log.info("a server waits as a spare", { servers: decision.serverCount });
        this.#scaling.tellSpare(decision.caller.channel, decision.serverCount);
        break;
      case "died":
        logDied(log, decision);
        for (const service of [this.#answering, this.#services]) service.died(decision.node, { goesOn: decision.goesOn === true });
        break;
      case "unclosed":
        this.#services.unclosed(decision);
        if (this.#options.onUnclosed?.(nameOf(decision.node), decision.isAwaited) !== true) logUnclosed(log, decision);
        break;
      case "doubts": // SilenceVerdicts.S6
        logDecision(this.#options, decision, this.#clock.nowMs());
        for (const { node, incarnation } of this.roster.nodes) this.#probe.lost(node, incarnation);
        break;
      case "busy":
      case "turns":
      case "doubtEnded":
      case "needed":
      case "promoted":
        logDecision(this.#options, decision, this.#clock.nowMs());
        break;
      case "publish":
        this.#push.publish(decision.to);
        this.#notifyRosterListeners();
        break;
      case "dismiss":
        this.#dismiss(decision);
        break;
      case "fail":
        this.#fail(decision.error);
        break;
      case "finish":
        log.info("everybody has left", { dead: this.deadNodes().map(nameOf) });
        this.#isOver = true;
        this.#scaling.close(new WeighbridgeError("CLOSED", "the job has ended, before the change of its servers or workers had"));
        this.#endGuests(new WeighbridgeError("CLOSED", "the job is over: everybody has left"));
        this.#journal.told(() => drained(this.#clock).then(this.#finished.resolve, this.#finished.reject));
        break;
    }
  }

  /** Tools.T2: at once, even if the other side does not answer the end of the link. */
  #endTool(channel: Channel): void {
    this.#relay.forget(channel);
    this.#tools.forget(channel);
    this.#peer.drop(channel, new WeighbridgeError("FENCED", `a tool was silent for ${this.#options.heartbeatTimeoutMs} ms`));
  }

  /** Ends the conversation with a guest that is forgotten. */
  #dismiss({ node, error }: Decision<PendingRegistration> & { kind: "dismiss" }): void {
    const channel = this.#peer.channel(node);
    if (channel !== undefined) this.#peer.drop(channel, error);
  }

  /** The job is over, for guests too; nobody waits for them (Roster.R6). */
  #endGuests({ code, message }: WeighbridgeError): void {
    for (const { node } of this.#roster.guests.entries()) {
      const channel = this.#peer.channel(node);
      // It left meanwhile.
      if (channel !== undefined) callJson(channel, ABORT, { code, message }, this.#clock).catch(() => {});
    }
  }

  #refuse(caller: PendingRegistration, error: WeighbridgeError): void {
    this.#admissions.refuse(caller, error);
    if (error === this.#failure?.error) this.#failure.notice.told(caller.role, caller.token);
    else this.#options.log.warn("a node was refused", { code: error.code, reason: error.message });
  }

  #fail(error: WeighbridgeError): void {
    const { log, lingerMs = LINGER_MS, serverCount, workerCount, replicas } = this.#options;
    log.error("the job cannot go on", { code: error.code, reason: error.message });
    const notice = new FailureNotice({ clock: this.#clock, serverCount, workerCount, replicas, lingerMs });
    this.#failure = { error, notice };
    const isTold = !(error.retryable && this.#roster.isResumed); // Roster.R7: its nodes wait for another scheduler
    // otherwise a scheduler that is started rightly, or where the nodes reach it, goes on with the job
    this.#isOver = isTold && !this.#roster.isAwaitingReturn;
    if (!this.#isOver && this.#journal.location !== "")
      log.warn("the state of the job stays, for another scheduler", { state: this.#journal.location });
    this.#journal.told(() => {
      if (!isTold) return;
      notice.send(this.#peer, this.#roster.view(), error);
      this.#endGuests(error);
    });
    this.#endServices(error);
    notice.over().then(() => {
      this.#tellFailed(error);
    }, this.#failed.reject);
  }

  /** This scheduler was replaced, or cannot write: it ends without a word (Scheduler.D5), and the job goes on. */
  #lose(error: WeighbridgeError): void {
    this.#options.log.error("this scheduler ends, the job goes on", { code: error.code, reason: error.message });
    this.#cancelTimer();
    this.managed.close(error);
    this.#endServices(error);
    this.#tellFailed(error);
    this.#peer.close().catch(this.#failed.reject);
  }

  #tellFailed(error: WeighbridgeError): void {
    this.#ready.reject(error);
    this.#finished.reject(error);
    this.#failed.resolve(error);
    for (const listener of [...this.#failedListeners]) listener(error);
  }

  #endServices(error: WeighbridgeError): void {
    this.#changes.close(error);
    this.#scaling.close(error);
    this.#services.close(error);
  }

  #notifyRosterListeners(): void {
    const { unheard, isOver } = this.#roster;
    const view = { ...this.#roster.view(), ...(isOver ? { isEnding: true } : {}), ...(unheard.length === 0 ? {} : { unheard }) };
    this.#journal.told(() => {
      for (const listener of [...this.#rosterListeners]) listener(view);
    });
  }

  /**
   * Scheduler.D2. While the store takes nothing, answers to heartbeats are held back, and so are the next heartbeats:
   * nobody is judged before it writes again, and then the tick is late (SilenceVerdicts.S3).
   */
  #tick(dueMs: number): void {
    const nowMs = this.#clock.nowMs();
    this.#timerAtMs = Infinity;
    if (!this.#closed) this.#carryOut(this.#roster.tick(nowMs, nowMs - dueMs));
  }

  /** One timer for whatever the roster has to decide next. It may come early, never late. */
  #arm(): void {
    const nowMs = this.#clock.nowMs();
    const { heartbeatIntervalMs, heartbeatTimeoutMs } = this.#options;
    const beatMs = heartbeatIntervalMs > 0 && heartbeatTimeoutMs > 0 && this.#roster.phase === "running" ? heartbeatIntervalMs : Infinity;
    const dueMs = Math.min(this.#roster.dueMs(nowMs), nowMs + beatMs); // Scheduler.D2
    if (this.#closed || dueMs >= this.#timerAtMs) return;
    this.#cancelTimer();
    this.#timerAtMs = dueMs;
    this.#cancelTimer = this.#clock.after(Math.max(0, dueMs - nowMs), () => {
      this.#clock.afterInput(() => this.#journal.told(() => this.#tick(dueMs)));
    });
  }
}
