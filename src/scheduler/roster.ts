// roster — the scheduler's registry of nodes: who registered, who holds which slot in which incarnation, who is dead.
// Pure: events and the time in, decisions out, which scheduler.ts carries out in order. `dueMs` is when `tick` is due.
//
//   forming ── all registered, or a node resumes ──► running ── nobody is left ──► finished
//      └── a contradiction, a node that cannot start, or the deadline ──► failed: all get the error, now and later
//   a slot:  alive ── silent too long ──► dead ── it answers, or a newcomer ──► alive;   alive ── LEAVE ──► left
//
// Invariants:
//   Roster.R1. A slot has one holder. A new one gets the next incarnation; the old one is FENCED from then on.
//   Roster.R2. Every application is answered: with a slot, or with an error within `startTimeoutMs`; that of a spare
//       server (AddedServers.A2) when the job is over.
//   Roster.R3. After a restart the first node that resumes brings the job, the slots and their incarnations; nobody
//       else's slot is reassigned before its holder had `heartbeatTimeoutMs` to resume as well.
//   Roster.R4. Once all nodes have passed the last barrier, or the launcher ends the job, no node that leaves is
//       replaced, and one that waits for a slot when all have left is refused: the job must end. Where a job serves, no
//       dead server is replaced either: its successor would wait for a barrier that is over.
//   Roster.R5. A state that was found is used when a node of its run resumes. It is set aside, with a message, and a
//       new job begins, when none has within `returnMs` and a whole cluster of new nodes is there, or when a node of
//       another run resumes. Until then no node gets a slot: those that are only cut off find their job as it was.
//   Roster.R6. Guests (guest-door.ts) are no nodes: the job neither waits for them nor ends with them.
//   Roster.R7. Where servers have standbys, a scheduler that has less written down than a node knows decides nothing:
//       it could put back a head that was replaced. It fails, and the nodes wait for one that has the state.
//   Roster.R8. A job that comes back from the disks of its servers gives no rank to a worker before every server has
//       come: they know which incarnations of workers there were.
//   Roster.R9. A worker that comes to a running job gets the next rank when all others are held, as long as more are
//       allowed, whatever counts it was started with. It joins at the lowest clock, as one that comes back does.
//   Roster.R10. A node is dead when its silence or its closed link (Chains) or its pulse says so, and may be judged
//       (SilenceVerdicts). Until then no newcomer gets its slot because its link is closed, but one that asks for it.
//   Roster.R11. A worker whose process says that it ends well has left, as one that closed its session: it will not
//       come back. If it ends with another exit code, or another process is started with its rank, it is dead at once.
//   Roster.R12. A node whose pulse is heard computes, and is not silent. A server is gone when its pulse says that its
//       loop has been busy for `loopTimeoutMs`, a worker never. A pulse brings no dead node back: its loop does.

import { WeighbridgeError } from "../base/errors.ts";
import { Placements } from "../keys/placement-of.ts";
import type { HeartbeatReply, HeartbeatRequest, LeaveRequest, Phase, StatusEntry, WaitingEntry } from "../wire/control.ts";
import { jobConflict } from "../wire/hello.ts";
import { idOf, isGuest, nameOf, type Role } from "../wire/node-id.ts";
import type { RegisterRequest, ResumeClaim } from "../wire/register.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import { type Applicant, cannotStart, cannotTakePart, contradiction, incomplete, jobOver, malformed } from "./applicant.ts";
import { Applicants, type JobFacts } from "./applicants.ts";
import { Chains } from "./chains.ts";
import { conflict, lackingStandbys } from "./formation.ts";
import { GuestDoor } from "./guest-door.ts";
import { Guests } from "./guests.ts";
import { firstPlacement, nextPlacement, type PlacementChange } from "./placement-epochs.ts";
import { holderOf, type RankSlot } from "./rank-slot.ts";
import { RankSlots } from "./rank-slots.ts";
import { fenced, givenUp, isAnother, isBehind, otherJob, otherRun, tooOld } from "./resume-claims.ts";
import { type Decision, doubtEnded, type RosterRules } from "./roster-decision.ts";
import { type Doubt, type Hearing, type HearingNow, SilenceVerdicts } from "./silence-verdicts.ts";
import type { StateJournal } from "./state-journal.ts";

/** For the nodes of a state that was found, where no heartbeats are sent. */
const RETURN_MS = 5000;

export class Roster<T> {
  readonly #rules: RosterRules;
  readonly #journal: StateJournal;
  /** The id of the job if it begins here. */
  readonly #jobId: string;
  #timeoutMs = Infinity;
  /** While it is not known whether nodes of the state that was found come back: how long that may take (Roster.R5). */
  #returnUntilMs: number | undefined;
  #isFound = false;
  #phase: Phase = "forming";
  #failure: WeighbridgeError | undefined;
  readonly #applicants: Applicants<T>;
  readonly #guests: Guests;
  readonly #guestDoor: GuestDoor<T>;
  readonly #placements = new Placements();
  readonly #slots: RankSlots;
  readonly #chains: Chains;
  readonly #verdicts: SilenceVerdicts;
  #isResumed = false;
  #resumedAtMs = -Infinity;
  #isStored = false; // from a disk (Roster.R8)
  #finished = false;
  #isEnding = false;

  /** A view of the journal's state (the job's name, the incarnations), with what the nodes report. */
  constructor({ rules, journal, jobId }: { readonly rules: RosterRules; readonly journal: StateJournal; readonly jobId: string }) {
    const { heartbeatIntervalMs, heartbeatTimeoutMs } = rules;
    this.#rules = { ...rules, heartbeatTimeoutMs: heartbeatIntervalMs === 0 ? 0 : heartbeatTimeoutMs };
    this.#journal = journal;
    this.#jobId = jobId;
    this.#verdicts = new SilenceVerdicts(this.#rules);
    this.#guests = new Guests(this.#rules.heartbeatTimeoutMs);
    this.#slots = new RankSlots(journal, this.#guests);
    this.#guestDoor = new GuestDoor({ guests: this.#guests, journal, slots: this.#slots, rules });
    this.#chains = new Chains({ journal, slots: this.#slots, rules: this.#rules });
    this.#applicants = new Applicants({ rules: this.#rules, journal, slots: this.#slots, chains: this.#chains });
  }

  /** The scheduler may decide from now on; `isFound`: the state is that of a job that was running (Roster.R5). */
  open(nowMs: number, { isFound }: { readonly isFound: boolean }): void {
    this.#isFound = isFound;
    this.#timeoutMs = nowMs + this.#rules.startTimeoutMs;
    if (isFound) this.#returnUntilMs = nowMs + this.returnMs;
  }

  /** Whether a state was found of which no node has come back yet. */
  get isAwaitingReturn(): boolean {
    return this.#returnUntilMs !== undefined;
  }

  /** How long the nodes of a state that was found have to come back. */
  get returnMs(): number {
    const { heartbeatTimeoutMs, startTimeoutMs } = this.#rules;
    return Math.min(heartbeatTimeoutMs || RETURN_MS, Math.ceil(startTimeoutMs / 2));
  }

  /** True when the job was running before this scheduler came. */
  get isResumed(): boolean {
    return this.#isResumed;
  }

  /** False while a worker that should be alive has sent nothing since this scheduler started. */
  get hasHeardWorkers(): boolean {
    return !this.#slots.all().some(({ role, state, confirmed }) => role === "worker" && state === "alive" && !confirmed);
  }

  /** False while the cluster forms, and while a node that should be alive has sent nothing to this scheduler. */
  get hasHeardEverybody(): boolean {
    return this.#phase === "running" && this.unheard.length === 0;
  }

  /** Nodes that should be alive, and have sent nothing to this scheduler. */
  get unheard(): number[] {
    return this.#slots.all().flatMap(({ node, state, confirmed }) => (state === "alive" && !confirmed ? [node] : []));
  }

  get phase(): Phase {
    return this.#phase;
  }

  get job(): string {
    return this.#journal.state.job;
  }

  /**
   * Everybody with a slot, in ps-lite's order: workers by rank, then servers. Without the scheduler; the guests only
   * for servers and standbys.
   */
  view(reader?: Role): RosterView {
    return this.#slots.view(reader);
  }

  /** The guests that are there. */
  get guests(): Pick<Guests, "size" | "has" | "entries" | "check" | "status"> {
    return this.#guests;
  }

  status(nowMs: number): StatusEntry[] {
    return this.#slots.status(nowMs, this.#rules.dateMs?.() ?? nowMs, this.#rules.heartbeatTimeoutMs);
  }

  waiting(): WaitingEntry[] {
    return this.#applicants.entries();
  }

  /** When `tick` has to be called, if nothing else happens before. */
  dueMs(nowMs: number): number {
    if (this.#phase === "failed") return Infinity;
    if (this.#phase === "forming") {
      const [returnUntilMs, formsAtMs] = [this.#returnUntilMs ?? -Infinity, this.#applicants.formsAtMs(nowMs)];
      return Math.min(this.#timeoutMs, nowMs < returnUntilMs ? returnUntilMs : formsAtMs);
    }
    const notBeforeMs = (heardAtMs: number): number => this.#verdicts.notBeforeMs(heardAtMs, this.#hearingAt(nowMs));
    const deathTimes = this.#slots.all().map((slot) => Math.max(this.#chains.deathAtMs(slot), notBeforeMs(slot.heardAtMs)));
    return Math.min(this.#guests.dueMs(notBeforeMs), this.#applicants.dueMs(this.#factsAt(nowMs), nowMs), ...deathTimes);
  }

  /** Whom the scheduler has not heard, and since when, while it suspects itself (SilenceVerdicts.S1). */
  doubt(nowMs: number): Doubt | undefined {
    return this.#verdicts.doubt(this.#hearingAt(nowMs));
  }

  register(request: RegisterRequest, caller: T, nowMs: number): Decision<T>[] {
    if (this.#failure !== undefined) return [{ kind: "refuse", caller, error: this.#failure }];
    if (request.role === "guest") {
      this.#guestDoor.wait({ request, caller, arrivedAtMs: nowMs });
      return this.#conclude([], nowMs);
    }
    if (request.failure !== undefined) return this.#missOut(caller, cannotStart(request, request.failure));
    const wrong = malformed(request);
    if (wrong !== undefined) return [{ kind: "refuse", caller, error: wrong }];
    return [...doubtEnded<T>(this.#verdicts.registered(this.#hearingAt(nowMs))), ...this.#registerNode(request, caller, nowMs)];
  }

  #registerNode(request: RegisterRequest, caller: T, nowMs: number): Decision<T>[] {
    if (request.resume !== undefined) return this.#resume(request, request.resume, caller, nowMs);
    const decisions = this.#applicants.forget(request.token);
    const applicant: Applicant<T> = { request, caller, arrivedAtMs: nowMs };
    return [...decisions, ...(this.#phase === "forming" ? this.#gather(applicant, nowMs) : this.#apply(applicant, nowMs))];
  }

  /** The caller went away before it was answered. */
  withdraw(caller: T, nowMs: number): void {
    this.#applicants.withdraw(caller, nowMs, { isForming: this.#phase === "forming" });
    this.#guestDoor.withdraw(caller);
  }

  /** A node sent something. Throws when it has no slot, or no longer. */
  heard(node: number, incarnation: number, nowMs: number, holdsSums = false): Decision<T>[] {
    if (isGuest(node)) {
      this.#guests.heard(node, nowMs);
      return [];
    }
    const slot = this.#holder(node, incarnation);
    if (this.#chains.isOut(slot)) throw givenUp(slot);
    if (holdsSums) this.#slots.noteSums(slot, incarnation);
    const ended = this.#lives(slot, nowMs);
    slot.downSinceMs = undefined; // what came, came over a link
    if (slot.state === "dead") this.#slots.revive(slot);
    const busyMs = slot.loop.turned(nowMs);
    if (busyMs !== undefined) ended.push({ kind: "turns", node, busyMs });
    return this.#conclude(ended, nowMs);
  }

  /** For so long the loop of a node has been busy, as its pulse says (Roster.R12). Throws NO_ROUTE, and FENCED. */
  pulse(node: number, incarnation: number, loopBusyMs: number, nowMs: number): Decision<T>[] {
    const slot = this.#slots.get(node); // also one that a scheduler before this one has let in
    if (isGuest(node)) this.#guests.heard(node, nowMs);
    else if (slot?.incarnation !== incarnation) this.#holder(node, incarnation);
    if (slot?.incarnation !== incarnation || slot.state !== "alive") return [];
    const decisions = this.#lives(slot, nowMs);
    const { isLong, busyMs } = slot.loop.busy(loopBusyMs, nowMs, this.#rules.heartbeatTimeoutMs);
    if (isLong) decisions.push({ kind: "busy", node, busyMs });
    return this.#conclude(decisions, nowMs);
  }

  /** What the answer to this heartbeat says; takes note of what `status` shows of it. */
  answerOf(node: number, beat: HeartbeatRequest, nowMs: number): HeartbeatReply {
    return this.#slots.answerOf(node, beat, nowMs - this.#rules.heartbeatTimeoutMs);
  }

  /** A head reports that its standby, in this incarnation, does not take its log. Throws as `heard`. */
  standbyLost(node: number, incarnation: number, standbyIncarnation: number, nowMs: number): Decision<T>[] {
    const { rank } = this.#holder(node, incarnation);
    const standby = this.#slots.get(idOf("standby", rank));
    if (standby?.state !== "alive" || standby.incarnation !== standbyIncarnation) return [];
    return this.#conclude(this.#gone(standby, nowMs), nowMs);
  }

  /** A head reports that its standby, in this incarnation, has everything (docs/decisions/0068). Throws as `heard`. */
  standbyFilled(node: number, incarnation: number, standbyIncarnation: number, nowMs: number): Decision<T>[] {
    const head = this.#holder(node, incarnation);
    if (head.state === "alive" && this.#chains.filled(head, standbyIncarnation)) this.#slots.changed();
    return this.#conclude([], nowMs);
  }

  linkUp(node: number, incarnation: number, nowMs: number): Decision<T>[] {
    if (this.#guests.has(node)) return this.heard(node, incarnation, nowMs);
    const slot = this.#slots.get(node);
    if (slot === undefined || !slot.confirmed || slot.incarnation !== incarnation || this.#chains.isOut(slot)) return [];
    return this.heard(node, incarnation, nowMs);
  }

  linkDown(node: number, incarnation: number, nowMs: number): Decision<T>[] {
    if (isGuest(node)) {
      this.#guests.linkDown(node, nowMs);
      return this.#guests.has(node) ? [] : [this.#guestDoor.dismissal(node)];
    }
    const slot = this.#slots.get(node);
    if (slot === undefined || slot.incarnation !== incarnation) return [];
    slot.downSinceMs ??= nowMs;
    return this.#conclude([], nowMs);
  }

  /**
   * Where this server listened, if its link is closed and that matters: it may be judged now (SilenceVerdicts.S4), or
   * its end may end a doubt (SilenceVerdicts.S6).
   */
  lostServer(node: number, incarnation: number, nowMs: number): string | undefined {
    const slot = this.#slots.get(node);
    if (slot?.incarnation !== incarnation || slot.downSinceMs === undefined || slot.state !== "alive") return undefined;
    const isPaused = this.#verdicts.isPaused(this.#hearingAt(nowMs));
    const matters = isPaused ? this.doubt(nowMs)?.of === "all" : this.#chains.deathAtMs(slot) < Infinity;
    return slot.role === "server" && matters ? slot.address : undefined;
  }

  /** Nothing listens there any more. */
  serverGone(node: number, incarnation: number, nowMs: number): Decision<T>[] {
    const slot = this.#slots.get(node);
    if (slot?.incarnation === incarnation) slot.refusedAtMs = nowMs;
    return this.#conclude([], nowMs);
  }

  /** A node listens at this address from now on. Throws when it has no slot, or no longer. */
  listens(node: number, incarnation: number, address: string, nowMs: number): Decision<T>[] {
    this.#slots.setAddress(this.#holder(node, incarnation), address);
    return this.heard(node, incarnation, nowMs);
  }

  /** This generation of workers is over, and so are those before it. */
  endGeneration(generation: number): Decision<T>[] {
    this.#slots.endGeneration(generation);
    return this.#phase === "running" ? this.#publish() : [];
  }

  /** What `publishPlacement` would publish. Throws as it does. */
  nextPlacement(change: PlacementChange): PlacementView {
    return nextPlacement(this.#slots, change, this.#placements);
  }

  /**
   * Publishes this placement with the next epoch; `isPending`: its parts are handed over later. Throws BAD_ARGUMENT,
   * and NO_ROUTE before every node has resumed.
   */
  publishPlacement(change: PlacementChange, { isPending = false }: { readonly isPending?: boolean } = {}): Decision<T>[] {
    this.#slots.setPlacement(this.nextPlacement(change), isPending ? { previous: this.#slots.placement } : undefined);
    return this.#publish();
  }

  /** All parts of the placement are with their owners, for good. */
  handOver(): Decision<T>[] {
    this.#slots.setHandedOver(this.#slots.placement?.epoch ?? 0);
    return this.#publish();
  }

  /** The state says something else of the servers (scaling.ts). */
  review(nowMs: number): Decision<T>[] {
    this.#slots.changed();
    return this.#conclude([], nowMs);
  }

  /** Everybody has passed the last barrier, or the launcher ends all processes of the job (Roster.R4). */
  ending(nowMs: number): Decision<T>[] {
    this.#isEnding = true;
    this.#chains.ending();
    return this.#conclude([], nowMs);
  }

  /**
   * The node is done. With `failure` it could not begin: so ends the job, unless the node replaced another. With
   * `returns` another process comes for the state that this server has left. With `unlessNeeded` it stays if no other
   * one has its state (Chains.C4). With `unclosed` the process of a worker ends (Roster.R11).
   */
  leave(node: number, incarnation: number, nowMs: number, request: LeaveRequest = {}): Decision<T>[] {
    const { failure, returns = false, unlessNeeded = false, unclosed } = request;
    if (isGuest(node)) {
      this.#guests.leave(node);
      this.#slots.guestsChanged();
      return this.#conclude([], nowMs);
    }
    const slot = this.#holder(node, incarnation);
    const decisions: Decision<T>[] = [];
    if (unclosed !== undefined && slot.role === "worker") {
      decisions.push({ kind: "unclosed", node, isAwaited: returns, exitCode: unclosed });
      if (returns || unclosed !== 0) return this.#conclude([...decisions, ...this.#gone(slot, nowMs)], nowMs);
    }
    if (unlessNeeded && !this.isOver) {
      const twin = this.#chains.lostTwin(slot);
      if (twin !== undefined) decisions.push(...this.#gone(twin, nowMs));
      if (this.#chains.isNeeded(slot)) return this.#conclude([...decisions, { kind: "needed", node }], nowMs);
    }
    slot.returns = returns && slot.role !== "worker";
    if (failure === undefined && !this.isOver && (returns || this.#chains.hasSuccessor(slot)))
      return this.#conclude([...decisions, ...this.#gone(slot, nowMs, { isPlanned: true })], nowMs);
    this.#chains.left(slot);
    const isNew = incarnation === 1 && (slot.role === "worker" || this.#slots.placement?.servers.includes(slot.rank) !== false);
    if (failure !== undefined && isNew) return this.fail(cannotTakePart(holderOf(slot), failure));
    return this.#conclude(decisions, nowMs);
  }

  /** Whether nobody works any more: a server that leaves then need not hand over. */
  get isOver(): boolean {
    if (this.#rules.serves === true) return this.#isEnding;
    const workers = this.#slots.all().filter(({ role }) => role === "worker");
    return this.#isEnding || (workers.length > 0 && workers.every(({ state }) => state === "left"));
  }

  /** `lateMs`: how much later than `dueMs` it is called. */
  tick(nowMs: number, lateMs = 0): Decision<T>[] {
    const now = this.#hearingAt(nowMs);
    this.#verdicts.tick(lateMs, now);
    if (this.#phase === "forming") {
      const formed = this.#form(nowMs);
      if (this.#phase !== "forming" || nowMs < this.#timeoutMs) return formed;
      return this.fail(incomplete(this.#rules, this.#applicants.all, this.#rules.startTimeoutMs));
    }
    const before = this.#verdicts.doubt(now);
    const mayJudge = (heardAtMs: number): boolean => this.#verdicts.mayJudge(heardAtMs, now);
    const decisions: Decision<T>[] = this.#guests.expire(nowMs, mayJudge).map((node) => this.#guestDoor.dismissal(node));
    if (decisions.length > 0) this.#slots.guestsChanged();
    for (const slot of this.#slots.all()) {
      if (nowMs < this.#chains.deathAtMs(slot) || !mayJudge(slot.heardAtMs)) continue;
      decisions.push(...this.#gone(slot, nowMs));
    }
    const doubt = this.#verdicts.doubt(now);
    if (doubt !== undefined && before === undefined) decisions.push({ kind: "doubts", doubt });
    return this.#conclude(decisions, nowMs);
  }

  #gone(slot: RankSlot, nowMs: number, how: { readonly isPlanned: boolean } = { isPlanned: false }): Decision<T>[] {
    const outcome = this.#chains.gone(slot, nowMs, how);
    const died = { kind: "died", node: slot.node, goesOn: outcome !== "dead", ...how } as const;
    if (outcome !== "promoted") return [died];
    return [died, { kind: "promoted", node: slot.node, incarnation: slot.incarnation, label: slot.label, ...how }];
  }

  /** The job is over with this error, for everybody who waits and everybody who comes. */
  fail(error: WeighbridgeError): Decision<T>[] {
    if (this.#failure !== undefined) return [];
    this.#phase = "failed";
    this.#failure = error;
    const waiting = [...this.#applicants.takeAll(), ...this.#guestDoor.clear()];
    const refusals = waiting.map(({ caller }): Decision<T> => ({ kind: "refuse", caller, error }));
    return [{ kind: "fail", error }, ...refusals];
  }

  // Forming.

  #gather(applicant: Applicant<T>, nowMs: number): Decision<T>[] {
    const mayJoin = this.isAwaitingReturn && this.#rules.mayScale === true; // the job that was found, if it goes on
    const error = mayJoin
      ? contradiction(applicant.request, this.#rules, [], { isRunning: true })
      : conflict(applicant, this.#rules, this.#applicants.all);
    if (error !== undefined) return this.#missOut(applicant.caller, error);
    this.#applicants.add(applicant);
    return this.#form(nowMs);
  }

  /** Gives everybody a slot once all are there. */
  #form(nowMs: number): Decision<T>[] {
    if (nowMs < (this.#returnUntilMs ?? 0)) return []; // Roster.R5
    const { fitting, refusals: decisions } = this.#applicants.sorted();
    const assignments = this.#applicants.deal(fitting, { isDue: nowMs >= this.#timeoutMs, nowMs });
    if (assignments instanceof WeighbridgeError) return this.fail(assignments);
    if (assignments === undefined) return [];
    if (this.#returnUntilMs !== undefined) decisions.push(this.#setAside(`none of its nodes came back within ${this.returnMs} ms`));
    this.#applicants.takeAll();
    this.#phase = "running";
    this.#slots.establish(this.#rules);
    decisions.push({ kind: "run", lacking: lackingStandbys(assignments, this.#rules) });
    for (const { applicant: assigned, role, rank } of assignments) {
      const slot = this.#slots.get(idOf(role, rank)) ?? this.#slots.add("worker", rank);
      decisions.push({ ...this.#applicants.assign(assigned, slot, nowMs), recovery: false });
    }
    this.#chains.formed();
    this.#slots.setPlacement(firstPlacement(this.#rules));
    this.#slots.publish(); // nobody needs a push: the answers carry it
    decisions.push(...this.#admitGuests(nowMs), ...this.#publish()); // Guests.G4
    return decisions;
  }

  /** A node reports that it cannot take part: a cluster that forms fails; a complete one never counted on it. */
  #missOut(caller: T, error: WeighbridgeError): Decision<T>[] {
    const isForming = this.#phase === "forming" && this.#returnUntilMs === undefined; // Roster.R5
    return [...(isForming ? this.fail(error) : []), { kind: "refuse", caller, error }];
  }

  // Newcomers.

  /** A newcomer to a cluster that is complete. */
  #apply(applicant: Applicant<T>, nowMs: number): Decision<T>[] {
    const { request, caller } = applicant;
    const error = contradiction(request, this.#rules, [], { isRunning: this.#rules.mayScale === true });
    if (error !== undefined) return [{ kind: "refuse", caller, error }];
    const own = this.#slots.all().find((slot) => slot.token === request.token && slot.state !== "left");
    if (own !== undefined) {
      // The same process, whose answer was lost with its link: it keeps its incarnation, and nothing has happened.
      this.#slots.assign(own, request, own.incarnation, nowMs);
      const recovery = own.incarnation > 1;
      return this.#conclude([{ kind: "admit", caller, node: own.node, incarnation: own.incarnation, recovery }], nowMs);
    }
    this.#applicants.add(applicant);
    return this.#conclude([], nowMs);
  }

  // Nodes that resume after a restart of the scheduler.

  #resume(request: RegisterRequest, claim: ResumeClaim, caller: T, nowMs: number): Decision<T>[] {
    const decisions: Decision<T>[] = [];
    if (jobConflict(claim.job, this.job) === "name") return [{ kind: "refuse", caller, error: otherJob(request, claim, this.job) }];
    if (claim.isStored === true && request.returns !== true && claim.job !== this.job)
      return [{ kind: "refuse", caller, error: otherRun(request, claim, this.job) }]; // PlannedStop.P2
    if (this.#isTooOldFor(claim)) {
      const error = tooOld(request, claim);
      return [...this.fail(error), { kind: "refuse", caller, error }];
    }
    if (this.#phase === "forming") {
      // What was found says how many servers there are by now.
      const error = contradiction(request, this.#rules, this.#applicants.all, { isRunning: this.#isFound, isResuming: true });
      // The wrong one is this scheduler: the node waits for one with the right counts.
      const own = error && new WeighbridgeError(error.code, error.message, { retryable: true });
      if (own !== undefined) return [...this.fail(own), { kind: "refuse", caller, error: own }];
      if (this.#returnUntilMs !== undefined && claim.job !== this.job)
        // Roster.R5
        decisions.push(this.#setAside(`${nameOf(claim.node)} ("${request.label}") is of run ${claim.job}`));
      this.#returnUntilMs = undefined;
      if (claim.job !== this.job) this.#journal.write({ kind: "job", job: claim.job });
      this.#isResumed = true;
      this.#resumedAtMs = nowMs;
      this.#isStored = claim.isStored === true;
      this.#phase = "running";
      this.#slots.establish(this.#rules);
      decisions.push({ kind: "run", lacking: [] });
    }
    if (claim.job !== this.job) {
      return [{ kind: "refuse", caller, error: otherRun(request, claim, this.job) }];
    }
    // A scheduler that was there from the start knows better than any node.
    // Roster.R3
    if (this.#isFound && isBehind(this.#journal.state, claim)) decisions.push({ kind: "outdated", node: claim.node });
    if (this.#isResumed) for (const node of this.#slots.recall(claim.roster, request.role, nowMs)) decisions.push({ kind: "died", node });
    this.#chains.recalled(nowMs);
    const slot = this.#slots.get(claim.node);
    if (claim.isStored === true && slot !== undefined)
      return this.#conclude([...decisions, ...this.#comeBack({ request, caller, arrivedAtMs: nowMs }, slot, claim, nowMs)], nowMs);
    if (slot === undefined || claim.incarnation < slot.incarnation || isAnother(slot, request, claim)) {
      return this.#conclude([...decisions, { kind: "refuse", caller, error: fenced(claim.node, claim.incarnation, slot) }], nowMs);
    }
    const { node, incarnation } = claim;
    if (!this.#chains.isPromoted(slot, incarnation)) this.#slots.assign(slot, request, incarnation, nowMs);
    decisions.push({ kind: "admit", caller, node, incarnation, recovery: false });
    return this.#conclude(decisions, nowMs);
  }

  /** A process that has the state of a server from a disk gets its rank, in the next incarnation. */
  #comeBack({ request, caller }: Applicant<T>, slot: RankSlot, { node, incarnation }: ResumeClaim, nowMs: number): Decision<T>[] {
    const admitted = (): Decision<T> => ({ kind: "admit", caller, node, incarnation: slot.incarnation, recovery: true });
    if (slot.state === "alive" && slot.token === request.token) return [admitted()]; // the answer was lost
    const isOver = this.#isEnding && this.#rules.serves === true; // Roster.R4
    const error = isOver ? jobOver(request) : this.#chains.comebackRefusal(slot, request, incarnation);
    if (error !== undefined) return [{ kind: "refuse", caller, error }];
    const before: Decision<T>[] = slot.state === "alive" ? [{ kind: "died", node }] : [];
    this.#chains.cameBack(slot, incarnation);
    this.#slots.assign(slot, request, slot.incarnation + 1, nowMs);
    return [...before, admitted()];
  }

  /** Roster.R5 */
  #setAside(reason: string): Decision<T> {
    const { job } = this;
    this.#returnUntilMs = undefined;
    this.#isFound = false;
    this.#journal.setAside(this.#jobId);
    return { kind: "setAside", job, reason };
  }

  /** Whether this scheduler was started with less than the nodes know, and servers may take over (Roster.R7). */
  #isTooOldFor(claim: ResumeClaim): boolean {
    const isForming = this.#phase === "forming";
    if ((this.#rules.replicas ?? 1) === 1 || !(isForming || this.#isResumed)) return false;
    return (isForming && claim.job !== this.job) || isBehind(this.#journal.state, claim);
  }

  #hearingAt(nowMs: number): HearingNow {
    const counted = (): Hearing[] => this.#slots.hearings(this.#rules);
    const registeredAtMs = (): number => Math.max(-Infinity, ...this.#applicants.all.map(({ arrivedAtMs }) => arrivedAtMs));
    return { nowMs, counted, registeredAtMs };
  }

  #factsAt(nowMs: number): JobFacts {
    const mayResume = nowMs < this.#resumedAtMs + this.#rules.heartbeatTimeoutMs;
    const isPaused = this.#verdicts.isPaused(this.#hearingAt(nowMs));
    return { isEnding: this.#isEnding, isStored: this.#isStored, isSettled: this.hasHeardEverybody, mayResume, isPaused };
  }

  #lives(slot: RankSlot, nowMs: number): Decision<T>[] {
    const ended = doubtEnded<T>(this.#verdicts.heard(slot.heardAtMs, this.#hearingAt(nowMs)));
    slot.heardAtMs = nowMs;
    return ended;
  }

  #holder(node: number, incarnation: number): RankSlot {
    const slot = this.#slots.get(node);
    if (slot === undefined || !slot.confirmed || incarnation > slot.incarnation)
      throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} has to register first`, { retryable: true });
    if (incarnation < slot.incarnation) throw fenced(node, incarnation, slot);
    return slot;
  }

  #publish(): Decision<T>[] {
    const to = this.#slots.publish();
    return to === undefined ? [] : [{ kind: "publish", to }];
  }

  #admitGuests(nowMs: number): Decision<T>[] {
    return this.#guestDoor.admit(nowMs, { isOver: this.#isEnding || this.#finished, isSettled: this.hasHeardEverybody });
  }

  /** What follows from any event: free slots are assigned, changes published, the end noticed. */
  #conclude(decisions: Decision<T>[], nowMs: number): Decision<T>[] {
    if (this.#phase !== "running") return decisions;
    decisions.push(...this.#applicants.assignFree(this.#factsAt(nowMs), nowMs), ...this.#admitGuests(nowMs), ...this.#publish());
    const states = new Set(this.#slots.all().map(({ state }) => state));
    const hasAllLeft = !states.has("alive") && states.has("left");
    if (hasAllLeft) decisions.push(...this.#applicants.refuseLast(this.#factsAt(nowMs)));
    if (hasAllLeft && this.#applicants.all.length === 0 && !this.#finished) {
      this.#finished = true;
      decisions.push({ kind: "finish" });
    }
    return decisions;
  }
}
