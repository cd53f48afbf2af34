// scaling — the number of servers of a running job changes: what was asked for is written down, begins when the change
// before it has ended, waits for new servers, has parts moved, and lets servers leave; or all of it is taken back. Not
// how parts move (placement-moves.ts), who gets which rank (roster.ts), nor who starts processes (`onServers`).
//
//   asked ──► under way ──► new servers are there ──► parts moved ──► servers without parts leave ──► done
//               │  refused      │ too late, rolled back   │ failed, rolled back
//               ▼               ▼                         ▼
//             failed          rolledBack ◄────────── parts moved back
//
// Invariants:
//   Scaling.S1. A change is written down before its caller hears of it, and so is every step that others act on
//       (Scheduler.D5): a restarted scheduler goes on with it.
//   Scaling.S2. Nothing moves before every server has said that it can take part, and that what the job holds fits the
//       servers to be.
//   Scaling.S3. Every change ends: new servers are waited for `timeoutMs`, leaving ones LEAVE_MS, and a way back that
//       fails is tried BACK_TRIES times.
//   Scaling.S4. Until all parts have moved a change can be taken back; from then on it is carried through.
//   Scaling.S5. Where ranks are held by two processes, a step that is taken back because a standby has taken over
//       (PlacementChanges.C7) is made again, with that one: the change goes on. TAKEOVERS_MAX times.

import type { Clock } from "../base/clock.ts";
import { Deferred, sleep, waitFor } from "../base/deferred.ts";
import { badRequest, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { waitUntil } from "../base/wait-until.ts";
import { nameOf, rankOf, roleOf } from "../wire/node-id.ts";
import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import type { ScaleRequest, ScalingDirection, ScalingEnd, ScalingReport, ScalingStep, ScalingView } from "../wire/scaling.ts";
import { type AwaitedServers, awaitedServers, awaitedText, isServed } from "./awaited-servers.ts";
import { maybeRepeated } from "./known-requests.ts";
import { PartShares } from "./part-shares.ts";
import type { MoveProgress, PlacementMoves } from "./placement-moves.ts";
import {
  askedDirection,
  checkRequest,
  directionOf,
  namesOf,
  type ScalingWish,
  type ServerSets,
  serversAfter,
  wishedServers,
} from "./scaling-wish.ts";
import type { StateJournal } from "./state-journal.ts";

const SCALING_TIMEOUT_MS = 60_000;
/** What may wait behind the change under way. */
const QUEUE_MAX = 16;
/** How long servers without parts may take to leave. */
export const LEAVE_MS = 10_000;
/** Scaling.S3 */
const BACK_TRIES = 30;
const BACK_DELAY_MS = 1000;
/** Scaling.S5 */
const TAKEOVERS_MAX = 16;
const BACK_REASON = "its rollback was asked for";

export type ScalingOptions = {
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: StateJournal;
  /** By how many processes each rank is held. Defaults to 1. */
  readonly replicas?: number | undefined;
  readonly view: () => RosterView;
  /** Whether every node of the job has been heard of. */
  readonly isSettled: () => boolean;
  /** Ranks that servers which wait for one have asked for. */
  readonly askedRanks: () => readonly number[];
  /** Why the servers of this job cannot change at all, if so. */
  readonly refusal: () => WeighbridgeError | undefined;
  /** Asks the servers (Scaling.S2). Throws UNSUPPORTED, ARENA_FULL. */
  readonly survey: (sets: ServerSets, next: PlacementView) => Promise<void>;
  readonly moveTo: PlacementMoves["moveTo"];
  /** The state says something else of the servers: the roster looks at it. */
  readonly changed: () => void;
  /** The servers that there are to be, and those that have parts: whoever starts processes sees to it. */
  readonly onServers: (servers: WishedServers) => void;
};

const NOBODY: AwaitedServers = { servers: [], standbys: [], filling: [] };

/** By rank: those that there are to be, and those that have parts. */
export type WishedServers = { readonly wished: readonly number[]; readonly placed: readonly number[] };

/** The change under way, as far as it is not written down. */
type Current = {
  readonly sets: ServerSets;
  readonly untilMs: number;
  readonly abort: AbortController;
  step: ScalingStep;
  progress: MoveProgress | undefined;
  /** Ranks of which a process has ended, and is not started again. */
  readonly lost: Set<number>;
};

export class Scaling {
  readonly #options: ScalingOptions;
  #isRunning = false;
  #current: Current | undefined;
  /** Requests that are not written down yet, because the servers are asked. */
  #surveyCount = 0;
  /** Whoever waits for the end of a change, by its number. */
  readonly #waiting = new Map<number, Deferred<ScalingEnd>>();
  /** Resolves when the roster has changed. */
  #news = new Deferred<void>();
  #closed: WeighbridgeError | undefined;
  readonly #closing = new AbortController();
  readonly #shares = new PartShares();
  #told = "";

  constructor(options: ScalingOptions) {
    this.#options = options;
  }

  /**
   * Returns the number of the change. Throws BAD_REQUEST, NO_ROUTE while the cluster forms, NODE_DEAD, UNSUPPORTED,
   * ARENA_FULL, QUEUE_FULL; then nothing has changed.
   */
  async request(request: ScaleRequest): Promise<number> {
    await this.survey(request);
    return this.submit(request);
  }

  /** Asks the servers, unless changes before this one may change the answer. Throws as `request`. */
  async survey(request: ScaleRequest): Promise<void> {
    const sets = this.#accept(request);
    if (this.#wishes.length > 0) return;
    this.#surveyCount++;
    try {
      await this.#check(sets);
    } finally {
      this.#surveyCount--;
    }
  }

  /** `request` without a survey, which was before. */
  submit(request: ScaleRequest): number {
    this.#accept(request); // something may have happened since
    const { timeoutMs = SCALING_TIMEOUT_MS, requestId: _, ...ask } = request;
    const number = this.#options.journal.state.scaling.highest + 1;
    this.#write({ number, ask, timeoutMs });
    this.#go();
    return number;
  }

  /** The servers before and after. Throws what `request` throws without a survey. */
  #accept({ timeoutMs = SCALING_TIMEOUT_MS, requestId, ...ask }: ScaleRequest): ServerSets {
    checkRequest({ ...ask, timeoutMs });
    if (this.#closed !== undefined) throw this.#closed;
    const refusal = this.#options.refusal();
    if (refusal !== undefined) throw refusal;
    const from = this.#expected();
    const to = this.#after(ask, from);
    const equal = ask.add === undefined ? undefined : this.#wishes.find((wish) => wish.ask.add === ask.add);
    if (equal !== undefined && requestId === undefined) throw maybeRepeated(`change ${equal.number} adds ${ask.add} to the servers, and`);
    if (this.#wishes.length >= QUEUE_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${QUEUE_MAX} changes of the servers wait already`, { retryable: true });
    return { from, to };
  }

  /** The direction of the change under way; its servers may still be asked whether they can take part. */
  get underWay(): ScalingDirection | undefined {
    const [wish] = this.#wishes;
    return wish && (wish.begun === undefined ? askedDirection(wish.ask, this.#servers.length) : directionOf(wish.begun));
  }

  /**
   * Takes the change under way back. Returns its number once it is. Throws BAD_REQUEST where none of that direction is,
   * or all its parts have moved (Scaling.S4).
   */
  async rollBack(direction?: ScalingDirection): Promise<number> {
    const [wish] = this.#wishes;
    const what = direction === undefined ? "change of the servers" : `scale-${direction}`;
    if (wish === undefined && this.#surveyCount > 0)
      throw badRequest(`the ${what} is not accepted yet: the servers are asked whether they can take part; its answer comes soon`);
    if (wish === undefined || (direction !== undefined && this.underWay !== direction))
      throw badRequest(`no ${what} is under way that could be taken back`);
    if (this.#hasMoved(wish)) throw badRequest(`the ${what} has moved all parts: ask for another change`);
    this.#write({ ...wish, isBack: true });
    this.#current?.abort.abort(new WeighbridgeError("ABORTED", BACK_REASON));
    const { outcome, reason } = await this.ended(wish.number);
    if (outcome !== "rolledBack") throw badRequest(`change ${wish.number} was not taken back: ${reason}`);
    return wish.number;
  }

  /** A process of this server has ended, and no other is started: a change that waits for the server is taken back. */
  lost(rank: number): void {
    this.#current?.lost.add(rank);
    this.#wake();
  }

  /**
   * How the change of this number ends. Rejects when this is closed before; BAD_REQUEST for one that nobody asked for.
   */
  async ended(number: number): Promise<ScalingEnd> {
    const known = this.#options.journal.state.scaling.ends.find((end) => end.number === number);
    if (known !== undefined) return known;
    this.#checkOpen();
    if (!this.#wishes.some((wish) => wish.number === number))
      throw badRequest(`there is no change ${number} of the servers, or it has ended long ago`);
    const waiting = this.#waiting.get(number) ?? new Deferred<ScalingEnd>();
    this.#waiting.set(number, waiting);
    return await waiting.promise;
  }

  /** What is under way, what waits, how the last changes ended, and who owns how much. */
  report(): ScalingReport {
    const { wishes, ends } = this.#options.journal.state.scaling;
    const [first] = wishes;
    const current = first === undefined ? undefined : this.#viewOf(first);
    const queued = wishes.filter((wish) => wish !== first || current === undefined).map(({ number }) => number);
    const wished = wishedServers(this.#options.journal.state.scaling) ?? this.#servers;
    return { wishedCount: wished.length, ...this.#shares.of(this.#placement), ...(current && { current }), queued, ended: ends };
  }

  /** The roster has changed. */
  review(): void {
    this.#wake();
    this.#tellWished();
    this.#go();
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = new Deferred();
  }

  /** Nothing more happens here; a scheduler that finds the state goes on. */
  close(error: WeighbridgeError): void {
    this.#closed ??= error;
    this.#closing.abort(error);
    this.#current?.abort.abort(error);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#news.resolve();
  }

  get #wishes(): readonly ScalingWish[] {
    return this.#options.journal.state.scaling.wishes;
  }

  get #placement(): PlacementView | undefined {
    return this.#options.journal.state.placement;
  }

  get #servers(): readonly number[] {
    return this.#placement?.servers ?? [];
  }

  /** The servers when all that was asked for is done. Throws NO_ROUTE. */
  #expected(): readonly number[] {
    if (this.#placement === undefined || !this.#options.isSettled())
      throw new WeighbridgeError("NO_ROUTE", "the cluster is not ready: not every node of the job is there", { retryable: true });
    const after = (servers: readonly number[], { ask, begun, isBack }: ScalingWish): readonly number[] =>
      isBack === true ? (begun?.from ?? servers) : (begun?.to ?? this.#after(ask, servers));
    return this.#wishes.reduce(after, this.#servers);
  }

  #after(ask: ScalingWish["ask"], from: readonly number[]): readonly number[] {
    return serversAfter(ask, from, (count) => this.#ranksFor(count, from));
  }

  /** ScalingWish.W2 */
  #ranksFor(count: number, taken: readonly number[]): readonly number[] {
    const { journal, askedRanks, view } = this.#options;
    const { retired } = journal.state.scaling;
    const held = serversOf(view()).map(({ rank }) => rank);
    const isFree = (rank: number): boolean => !taken.includes(rank) && !retired.includes(rank);
    const idle = held.filter(isFree); // a scheduler that forgot its state let them in
    const ranks = [...new Set([...idle, ...askedRanks().filter(isFree)])].slice(0, count);
    const everHeld = [...journal.state.incarnations.keys()].filter((node) => roleOf(node) === "server").map(rankOf);
    const known = new Set([...everHeld, ...taken, ...ranks]);
    for (let rank = 0; ranks.length < count; rank++) if (!known.has(rank)) ranks.push(rank);
    return ranks;
  }

  #write(wish: ScalingWish): void {
    this.#options.journal.write({ kind: "wish", wish });
    this.#changed();
  }

  #changed(): void {
    this.#options.changed();
    this.#tellWished();
  }

  #tellWished(): void {
    const { scaling, pending } = this.#options.journal.state;
    const placed = pending?.previous?.servers ?? this.#servers; // they have the parts until those are handed over
    const wished = wishedServers(scaling) ?? this.#servers;
    const text = `${wished.join()}/${placed.join()}`;
    if (text === this.#told || placed.length === 0) return;
    this.#told = text;
    this.#options.journal.told(() => this.#options.onServers({ wished, placed }));
  }

  #go(): void {
    if (this.#isRunning || this.#closed !== undefined || this.#wishes.length === 0 || !this.#options.isSettled()) return;
    this.#isRunning = true;
    this.#run()
      .catch((thrown: unknown) => {
        if (this.#closed === undefined) throw thrown; // else whoever waits was told
      })
      .finally(() => {
        this.#isRunning = false;
      });
  }

  async #run(): Promise<void> {
    for (let [wish] = this.#wishes; wish !== undefined; [wish] = this.#wishes) {
      const end = await this.#carryOut(wish);
      this.#options.log[end.outcome === "done" ? "info" : "warn"](`a change of the servers has ended: ${endText(end)}`, {
        servers: this.#servers.join(" "),
      });
      this.#options.journal.write({ kind: "wishEnd", ...end });
      this.#changed();
      this.#current = undefined;
      this.#waiting.get(end.number)?.resolve(end);
      this.#waiting.delete(end.number);
    }
  }

  /** Throws only when this is closed. */
  async #carryOut({ number, ask, timeoutMs, begun, isBack }: ScalingWish): Promise<ScalingEnd> {
    const { clock, log } = this.#options;
    const isTakenBack = (): boolean => begun === undefined && this.#wishes.some((wish) => wish.number === number && wish.isBack === true);
    let sets: ServerSets | undefined;
    let reason = BACK_REASON;
    try {
      sets = begun ?? (isTakenBack() ? undefined : await this.#begin(ask));
    } catch (thrown) {
      reason = reasonOf(thrown);
    }
    this.#checkOpen();
    if (isTakenBack()) return { number, outcome: "rolledBack", reason: BACK_REASON }; // nothing has happened
    if (sets === undefined) return { number, outcome: "failed", reason };
    const state = { step: "waiting", progress: undefined, lost: new Set<number>() } as const;
    const current: Current = { sets, untilMs: clock.nowMs() + timeoutMs, abort: new AbortController(), ...state };
    this.#current = current;
    if (begun === undefined) this.#write({ number, ask, timeoutMs, begun: sets });
    log.info("the servers of the job change", { from: sets.from.join(" "), to: sets.to.join(" ") });
    try {
      if (isBack === true) throw new WeighbridgeError("ABORTED", BACK_REASON);
      await this.#serversAreThere(current);
      await this.#moveOn(current);
    } catch (thrown) {
      this.#checkOpen();
      return await this.#goBack({ number, ask, timeoutMs, begun: sets, isBack: true }, current, thrown);
    }
    current.step = "leaving";
    await this.#haveLeft();
    return { number, outcome: "done" };
  }

  /** The servers before and after a change that nothing speaks against. Throws as `#check`, BAD_REQUEST. */
  async #begin(ask: ScalingWish["ask"]): Promise<ServerSets> {
    const from = this.#servers;
    const sets = { from, to: this.#after(ask, from) };
    await this.#check(sets);
    return sets;
  }

  /** Scaling.S2. Throws NODE_DEAD, UNSUPPORTED, ARENA_FULL. */
  async #check(sets: ServerSets): Promise<void> {
    const { view, survey } = this.#options;
    const placement = this.#placement;
    if (placement === undefined) throw new WeighbridgeError("NO_ROUTE", "the cluster is not ready: it has no servers yet");
    const gone = sets.from.filter((rank) => !isServed(view(), rank));
    if (gone.length > 0) {
      const message = `the servers cannot change while ${namesOf(gone)} is dead or away; start it again first`;
      throw new WeighbridgeError("NODE_DEAD", message, { retryable: true });
    }
    await survey(sets, { epoch: placement.epoch, policy: placement.policy, servers: sets.to });
  }

  /** Throws DEADLINE naming those that have not come, ABORTED for one of which no process comes any more. */
  async #serversAreThere(current: Current): Promise<void> {
    const { clock } = this.#options;
    for (let missing = this.#awaited(current); awaitedText(missing) !== ""; missing = this.#awaited(current)) {
      this.#checkOpen();
      const lost = [...missing.servers, ...missing.standbys, ...missing.filling].find((rank) => current.lost.has(rank));
      if (lost !== undefined)
        throw new WeighbridgeError("ABORTED", `a process of ${namesOf([lost])} has ended, and no other one is started for it`);
      const wait = { ...waitUntil(current.untilMs, clock), signal: current.abort.signal };
      await waitFor(this.#news.promise, awaitedText(missing), clock, wait);
    }
  }

  #awaited({ sets }: Current): AwaitedServers {
    const { view, replicas = 1 } = this.#options;
    return awaitedServers(view(), { wanted: sets.to, placed: this.#servers, replicas });
  }

  /** Scaling.S5 */
  async #moveOn(current: Current): Promise<void> {
    const { view, replicas = 1 } = this.#options;
    const { from, to } = current.sets;
    for (let takeovers = 0; ; takeovers++) {
      try {
        await this.#move(current, to);
        return;
      } catch (thrown) {
        this.#checkOpen();
        const areServed = [...from, ...to].every((rank) => isServed(view(), rank));
        const isReplaced = replicas > 1 && isWeighbridgeError(thrown, "NODE_DEAD") && areServed;
        if (!isReplaced || current.abort.signal.aborted || takeovers === TAKEOVERS_MAX) throw thrown;
      }
    }
  }

  async #move(current: Current, servers: readonly number[], signal: AbortSignal = current.abort.signal): Promise<void> {
    this.#checkOpen();
    if (current.step === "waiting") current.step = "moving";
    current.progress = undefined;
    await this.#options.moveTo(servers, {
      signal,
      onProgress: (progress) => {
        current.progress = progress;
      },
    });
    this.#checkOpen();
  }

  /** Scaling.S3 */
  async #goBack(wish: ScalingWish, current: Current, thrown: unknown): Promise<ScalingEnd> {
    const { number } = wish;
    const reason = reasonOf(current.abort.signal.reason ?? thrown);
    const hasMoved = current.step !== "waiting" || !this.#isAt(current.sets.from); // by a scheduler before this one
    current.step = "rollingBack";
    this.#write(wish);
    const failure = hasMoved ? await this.#moveBack(current) : undefined;
    if (failure !== undefined) return { number, outcome: "failed", reason: `${reason}; and it cannot be taken back: ${failure}` };
    await this.#haveLeft();
    return { number, outcome: "rolledBack", reason };
  }

  /** Scaling.S4. A scheduler that was started again, and has not gone on yet, finds it in the placement. */
  #hasMoved({ begun, isBack }: ScalingWish): boolean {
    if (this.#current !== undefined) return this.#current.step === "leaving";
    return begun !== undefined && isBack !== true && this.#isAt(begun.to);
  }

  /** Whether these servers have all parts, and none is on its way. */
  #isAt(servers: readonly number[]): boolean {
    return this.#placement?.move === undefined && String(this.#servers) === String(servers);
  }

  /** Returns why it cannot be done, if so. */
  async #moveBack(current: Current): Promise<string | undefined> {
    const { clock } = this.#options;
    const { signal } = this.#closing;
    for (let tries = 1; ; tries++) {
      try {
        await this.#move(current, current.sets.from, signal);
        return undefined;
      } catch (thrown) {
        this.#checkOpen();
        if (tries === BACK_TRIES) return reasonOf(thrown);
      }
      await sleep(clock, BACK_DELAY_MS);
      this.#checkOpen();
    }
  }

  /** Waits until the servers that no change wants, and their standbys, are gone (ScalingWish.W3), LEAVE_MS at most. */
  async #haveLeft(): Promise<void> {
    const { clock, log, view, journal } = this.#options;
    const isKept = (rank: number): boolean => this.#servers.includes(rank);
    const ranks = serversOf(view()).flatMap(({ rank }) => (isKept(rank) ? [] : [rank]));
    if (ranks.length > 0) journal.write({ kind: "retired", ranks });
    this.#changed();
    const untilMs = clock.nowMs() + LEAVE_MS;
    const staying = (): readonly RosterEntry[] =>
      view().nodes.filter(({ role, isRetired, state }) => role !== "worker" && isRetired === true && state === "alive");
    while (staying().length > 0 && clock.nowMs() < untilMs) {
      const news = waitFor(this.#news.promise, "servers to leave", clock, waitUntil(untilMs, clock));
      await news.catch(() => {}); // they leave later, or are found dead
      this.#checkOpen();
    }
    const stayed = staying().map(({ node }) => nameOf(node));
    if (stayed.length > 0) log.warn(`${stayed.join(", ")} has no parts any more, and has not left yet`);
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw this.#closed;
  }

  #viewOf({ number }: ScalingWish): ScalingView | undefined {
    const current = this.#current;
    if (current === undefined) return undefined;
    const { sets, step, progress, untilMs } = current;
    const waitMs = Math.max(0, Math.round(untilMs - this.#options.clock.nowMs()));
    const missing = step === "waiting" ? this.#awaited(current) : NOBODY;
    const { servers: awaited, standbys, filling } = missing;
    const ofStandbys = (this.#options.replicas ?? 1) === 1 ? {} : { awaitedStandbys: standbys, fillingStandbys: filling };
    const wait = awaitedText(missing) === "" ? {} : { waitMs };
    return { number, direction: directionOf(sets), step, ...sets, awaited, ...ofStandbys, ...wait, ...progress };
  }
}

function serversOf({ nodes }: RosterView): readonly RosterEntry[] {
  return nodes.filter(({ role }) => role === "server");
}

function endText({ number, outcome, reason }: ScalingEnd): string {
  const word = { done: "is done", rolledBack: "was rolled back", failed: "has failed" }[outcome];
  return `change ${number} ${word}${reason === undefined ? "" : `: ${reason}`}`;
}
