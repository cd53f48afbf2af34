// worker-clock — how many iterations a worker has finished, its membership in the clock set of every server, and the
// numbers of its pushes. Pushes to each parameter are numbered 1, 2, 3 …; servers learn the numbers with the clock, so
// that they can count pushes over the whole parameter (consistency/push-counts.ts). Servers decide who waits for whom
// (spec/consistency.md).
//
// Invariants:
//   WorkerClock.J1. `advance` never waits. Its message travels behind everything that this worker sent before.
//   WorkerClock.J2. A worker that was declared dead but lives, whose server was restarted, or whose servers were
//       restored at a later clock, joins the clock set again by itself. The call that found out fails with NOT_JOINED
//       or STALE_UPDATE once that is done, and may be repeated. The error names the worker's clock and those of
//       WorkerClock.J9.
//   WorkerClock.J3. The clock never goes back.
//   WorkerClock.J4. A worker that has left stays outside until `rejoin`, and has finished its clock
//       (spec/consistency.md, W7).
//   WorkerClock.J5. No call carries a clock above CLOCK_MAX: `advance` refuses, nothing changed.
//   WorkerClock.J6. A server that could not be reached gets the clock once it can be: otherwise all would wait for it.
//   WorkerClock.J7. A worker that joins again sends its clock right before the join, to servers that may not know it:
//       otherwise they would drop what it pushed at the clock that it ended.
//   WorkerClock.J8. A worker joins a restarted server as soon as the roster names it, before any of its calls can reach
//       it: the server's set forms only when all have joined (spec/consistency.md, W1), and a call that waits elsewhere
//       may never be made. It joins one that comes into the placement, too: that one was told of no clock that ended
//       just then.
//   WorkerClock.J9. If servers dropped sync updates of a clock that this worker has ended, because they declared it
//       dead, the next call fails once and names the clock, unless a call that failed has done so (WorkerClock.J2).
//   WorkerClock.J10. A `rejoin` is a join that begins after it was called: everything pushed before is dropped.
//   WorkerClock.J11. A worker that steps aside leaves, and spends no clock: it joins again at the clock at which it
//       stood, or at that of the slowest member if that is later. It has pushed nothing at that clock.
//   WorkerClock.J12. A worker that was taken for dead joins again as soon as it hears of it, also if no call has found
//       out. The next call fails with NOT_JOINED then: others have gone on without it.
//   WorkerClock.J13. A server that refuses something of a worker that it holds for dead tells it first. Listeners hear
//       of it then, once for each time; the call that was refused fails, and so does the next call after a clock.
//   WorkerClock.J14. A worker that was taken for dead tells those of `onRejoined` once it is in the set again, once for
//       each time.
//   WorkerClock.J15. Refusals, joins and the scheduler's word belong to one time until all have come, however late that
//       is. A heartbeat that left after the join and is answered without the word shows that none comes.
//   PushNumbers.N1. Every push has the next number, in the order in which pushes leave; its frames all carry it.
//   PushNumbers.N2. Pushes of a clock are reported until every server knows them. Beyond CLOCKS_KEPT such clocks, the
//       pushes of the oldest are reported as those of the next.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, reasonOf, restated, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { PushReport } from "../consistency/push-counts.ts";
import { clockAdvance, clockJoin } from "../contracts/clocks.ts";
import { wasTakenOut } from "../wire/failure.ts";
import type { FunctionClient } from "./function-client.ts";
import type { Router } from "./router.ts";

/** Of what leaves after everything else. */
export const LAST_PRIORITY: number = -(2 ** 31);

/** Of a join, and of the clock that is told right before: what is sent at one priority stays in order. */
const JOIN_PRIORITY = 0;

/** The highest clock there is: clocks travel as u32. At a thousand a second a worker gets there after 49 days. */
export const CLOCK_MAX: number = 2 ** 32 - 1;

/**
 * How long a call that failed waits until this worker has joined again, before it fails without a clock: a round trip.
 */
const JOINED_MS = 1000;

/** Of how many clocks it is kept what was pushed at them. */
const CLOCKS_KEPT = 64;

/** How long after a failure the message to a server is repeated. */
const TELL_AGAIN_MS = 500;

/** A time for which this worker was out of the clock set, and of which the scheduler may still speak. */
type Absence = {
  /** Whether listeners know that it is, or was, out. */
  isTold: boolean;
  /** Whether they know that it is in again. */
  isEndTold: boolean;
  /** Whether the scheduler has said that it took this worker for dead. */
  isHeard: boolean;
  /** When it had joined again; undefined: it is out. */
  endedAtMs: number | undefined;
};

export type WorkerClockOptions = {
  /** The worker's, for errors. */
  readonly name: string;
  readonly clock: Clock;
  readonly functions: Pick<FunctionClient, "call" | "callAll" | "joining">;
  /** Sends the end of a clock to the servers. */
  readonly router: Pick<Router, "tellAll">;
  readonly log: Log;
  /** Of what this worker pushes, which servers hear of with its clock. */
  readonly pushes: PushNumbers;
  /**
   * Called before the clock set is joined again: servers that do not know this worker know nothing else of it either.
   */
  readonly joiningAgain: () => void;
};

export class WorkerClock {
  readonly #functions: WorkerClockOptions["functions"];
  readonly #router: WorkerClockOptions["router"];
  readonly #log: Log;
  readonly #pushes: PushNumbers;
  readonly #joiningAgain: () => void;
  readonly #clock: Clock;
  readonly #name: string;
  readonly #lostListeners = new Set<(error: WeighbridgeError) => void>();
  readonly #rejoinedListeners = new Set<(error: WeighbridgeError) => void>();
  // Plain fields that only this file changes: every call looks at them.
  /** How many clocks this worker has finished. */
  value = 0;
  /** The clock that every server has heard of. */
  #heard = 0;
  #isTellingAgain = false;
  #joining: Promise<void> | undefined;
  #hasJoined = false;
  #hasLeft = false;
  /** Whether the last message about the end of a clock failed at a server: that was logged. */
  #isUnheard = false;
  /** The error of the next call, without the clock that this worker has by then (WorkerClock.J9). */
  lost: string | undefined;
  /** The same of the last join, also after a call got it. */
  #lastLost: string | undefined;
  /** WorkerClock.J15 */
  #absence: Absence | undefined;

  constructor({ name, clock, functions, router, log, pushes, joiningAgain }: WorkerClockOptions) {
    this.#name = name;
    this.#clock = clock;
    this.#functions = functions;
    this.#router = router;
    this.#log = log;
    this.#pushes = pushes;
    this.#joiningAgain = joiningAgain;
  }

  /** The clock of a call that is made now: `value`, unless something was `lost`. Throws NOT_JOINED (WorkerClock.J9). */
  get forCall(): number {
    const lost = this.lost;
    if (lost === undefined) return this.value;
    this.lost = undefined;
    throw new WeighbridgeError("NOT_JOINED", `${lost}${this.#whereText}`, { retryable: true });
  }

  /** The failure that a caller gets: for a worker that is no member, only once it has joined again (WorkerClock.J2). */
  async explained(error: WeighbridgeError, { signal, timeoutMs = Infinity }: WaitOptions): Promise<WeighbridgeError> {
    const joining = this.#joining;
    if (!isOutside(error) || joining === undefined) return error;
    try {
      await waitFor(joining, "the clock set", this.#clock, { signal, timeoutMs: Math.min(timeoutMs, JOINED_MS) });
    } catch {
      return error; // of the join the log tells
    }
    this.lost = undefined;
    // spec/consistency.md, W5
    const again = "push again what it had pushed to parameters with sync updates at the clock that it had not ended";
    return restated(error, `${this.#lastLost ?? error.message}${this.#whereText}: ${again}`);
  }

  get #outText(): string {
    return `${this.#name} was taken for dead, and out of the clock set: others have gone on without it`;
  }

  get #whereText(): string {
    const { isTold, endedAtMs } = this.#absence ?? {};
    if (isTold === true && endedAtMs === undefined) return "; it joins again once the scheduler has heard of it";
    return `; it has joined again, and stands at clock ${this.value}`;
  }

  /**
   * Ends this worker's iteration and begins the next one, whose number is returned (WorkerClock.J1). Servers that it
   * has left hear of it when it joins. Throws OUT_OF_RANGE (WorkerClock.J5).
   */
  readonly advance = (): number => this.advanceTo(this.value + 1);

  /** Ends all clocks before this one, with one message. Changes nothing for a worker that stands there or above. */
  advanceTo(clock: number): number {
    if (clock <= this.value) return this.value;
    if (clock > CLOCK_MAX) {
      const what = `this worker stands at clock ${this.value}, the highest there is`;
      const then = "save the parameters with saveParameter(), and load them in a new job";
      throw new WeighbridgeError("OUT_OF_RANGE", `${what}: it cannot end another one; ${then}`);
    }
    this.value = clock;
    if (this.#hasLeft) {
      this.#hear(this.value); // nobody waits to hear of it
      return this.value;
    }
    this.#tell().catch((thrown: unknown) => {
      if (!this.#isUnheard) this.#log.warn("a server did not hear of the end of a clock", { clock: this.value, reason: reasonOf(thrown) });
      this.#isUnheard = true; // those behind it fail alike
      if (wasTakenOut(thrown)) this.lost ??= this.#outText; // WorkerClock.J13
      this.#tellAgain(thrown);
    });
    return this.value;
  }

  async #tell(priority: number = LAST_PRIORITY): Promise<void> {
    const clock = this.value;
    await this.#router.tellAll(clockAdvance, this.#ended(clock), priority);
    this.#hear(clock);
    this.#isUnheard = false;
  }

  /** The message to servers about the end of the clocks before this one. */
  #ended(clock: number, leaves = false): { readonly clock: number; readonly leaves: boolean } & PushReport {
    return { clock, leaves, ...this.#pushes.before(clock) };
  }

  #hear(clock: number): void {
    this.#heard = Math.max(this.#heard, clock);
    this.#pushes.heard(this.#heard);
  }

  /**
   * WorkerClock.J6. A second report changes nothing; a server that was restarted meanwhile answers NOT_JOINED
   * (WorkerClock.J2).
   */
  #tellAgain(thrown: unknown): void {
    if (this.#isTellingAgain || !(isWeighbridgeError(thrown, "NODE_DEAD") || isWeighbridgeError(thrown, "LINK_LOST"))) return;
    this.#isTellingAgain = true;
    this.#clock.after(TELL_AGAIN_MS, () => {
      this.#isTellingAgain = false;
      if (!this.#hasLeft) this.#tell().catch((again: unknown) => this.#tellAgain(again));
    });
  }

  /** To where a checkpoint left off, unless this worker is beyond it (WorkerClock.J3). */
  raise(clock: number): void {
    this.value = Math.max(this.value, clock);
  }

  /**
   * A worker that comes late stands where the slowest does; servers may differ in that, and the highest holds for all.
   */
  async join(wait: WaitOptions): Promise<void> {
    const joined = this.#functions.joining();
    await this.#joinAll(wait).finally(joined);
    this.#hasJoined = true;
  }

  async #joinAll(wait: WaitOptions): Promise<void> {
    const answers = await this.#functions.callAll(clockJoin, this.#pushes.all(), { ...wait, priority: JOIN_PRIORITY });
    this.#noteLost(answers.flatMap(({ lost }) => [...lost]));
    const clocks = answers.map(({ clock }) => clock);
    this.value = Math.max(this.value, ...clocks);
    const clock = this.value;
    if (clocks.some((other) => other < clock)) await this.#functions.callAll(clockAdvance, this.#ended(clock), wait);
    this.#hear(clock);
  }

  /** Joins anew (WorkerClock.J10). */
  async rejoin(): Promise<void> {
    this.#hasLeft = false;
    await this.#startJoining();
    if (this.lost === this.#outText) this.lost = undefined; // its caller begins again
  }

  /** To be called for every call that failed (WorkerClock.J2). */
  joinAgain(error: WeighbridgeError): void {
    if (wasTakenOut(error)) this.#tellOut();
    if (!isOutside(error) || this.#joining !== undefined || this.#hasLeft) return; // WorkerClock.J4
    this.#startJoining().catch((thrown: unknown) => this.#log.warn("joining the clock set again failed", { reason: reasonOf(thrown) }));
  }

  /** WorkerClock.J8. To be called before anything else is asked of the new incarnation, or of a server that is new. */
  serverCame(server: number): void {
    if (this.#hasLeft) return; // WorkerClock.J4
    const joined = this.#functions.joining();
    this.#joinOne(server)
      .finally(joined)
      .catch((thrown: unknown) => {
        this.#log.info("a server that has come was not joined; the next call to it tells why", { server, reason: reasonOf(thrown) });
      });
  }

  async #joinOne(server: number): Promise<void> {
    const { clock, lost } = await this.#functions.call(clockJoin, { server }, this.#pushes.all(), { priority: JOIN_PRIORITY });
    this.#noteLost([...lost]);
    const { value } = this;
    if (this.#hasLeft || clock >= value) return;
    await this.#functions.call(clockAdvance, { server }, this.#ended(value), { priority: JOIN_PRIORITY });
  }

  /**
   * WorkerClock.J9. For updates of the current clock alone, the call that failed has said so, and they are pushed
   * again.
   */
  #noteLost(clocks: readonly number[]): void {
    if (!clocks.some((clock) => clock < this.value)) return;
    const lost = [...new Set(clocks)].sort((a, b) => a - b);
    const what = `what it pushed at clock ${lost.join(", ")} to parameters with sync updates does not count`;
    const why = `${this.#name} was taken for dead before the servers heard of the end of its clock`;
    this.lost = `${why}: ${what}`;
    this.#lastLost = this.lost;
    this.#log.warn("updates of a clock that this worker has ended do not count", { clocks: lost.join(", "), reason: why });
  }

  /** As `leave`; a clock at which this worker has pushed nothing is not spent (WorkerClock.J11). */
  async stepAside(wait: WaitOptions): Promise<void> {
    await this.leave(wait, this.#pushes.hasPushedAt(this.value));
  }

  /** The scheduler says that this worker was taken for dead, and is alive again (WorkerClock.J12). */
  wasDead(): void {
    if (!this.#hasJoined || this.#hasLeft) return;
    const absence = this.#absentNow();
    if (absence.isHeard) return; // it joins again already
    absence.isHeard = true;
    if (absence.endedAtMs === undefined) this.#comeBack(absence);
    else this.#report(absence);
  }

  /** The scheduler answered a heartbeat that left then, and spoke of no death (WorkerClock.J15). */
  wasAlive(leftAtMs: number): void {
    const { endedAtMs = Infinity } = this.#absence ?? {};
    if (leftAtMs > endedAtMs) this.#absence = undefined;
  }

  #absentNow(): Absence {
    this.#absence ??= { isTold: false, isEndTold: false, isHeard: false, endedAtMs: undefined };
    return this.#absence;
  }

  /** Joins again by the scheduler's word, as often as it takes. */
  #comeBack(absence: Absence): void {
    const why = this.#outText;
    const isAsked = this.#joining !== undefined; // the call that found out says so
    const joining = this.#joining ?? this.#startJoining();
    joining.then(
      () => {
        if (isAsked) return;
        this.lost ??= why;
        this.#lastLost = this.lost;
      },
      (thrown: unknown) => {
        if (!isAsked) this.#log.warn("joining the clock set again failed", { reason: reasonOf(thrown) });
        if (!isWeighbridgeError(thrown) || !thrown.retryable) return;
        this.#clock.after(TELL_AGAIN_MS, () => {
          if (this.#absence === absence && absence.endedAtMs === undefined && !this.#hasLeft) this.#comeBack(absence);
        });
      },
    );
  }

  /** WorkerClock.J13 */
  #tellOut(): void {
    if (!this.#hasJoined || this.#hasLeft) return;
    if (this.#absence?.endedAtMs !== undefined) this.#absence = undefined; // another time
    const absence = this.#absentNow();
    if (absence.isTold) return;
    absence.isTold = true;
    this.#tellListeners(this.#lostListeners);
  }

  /** This worker is in again. Where no word of the scheduler has come, it may have been a server that was restarted. */
  #report(absence: Absence): void {
    if (absence.isHeard) this.#absence = undefined;
    else if (!absence.isTold) return;
    if (!absence.isTold) this.#tellListeners(this.#lostListeners);
    if (!absence.isEndTold) this.#tellListeners(this.#rejoinedListeners, this.lost); // WorkerClock.J14
    absence.isTold = true;
    absence.isEndTold = true;
  }

  #tellListeners(listeners: ReadonlySet<(error: WeighbridgeError) => void>, why = this.#outText): void {
    const error = new WeighbridgeError("NOT_JOINED", `${why}${this.#whereText}`, { retryable: true });
    for (const listener of [...listeners]) listener(error);
  }

  /** Calls `listener` with the error that says so (WorkerClock.J12, WorkerClock.J13). Returns how to stop. */
  onLost(listener: (error: WeighbridgeError) => void): () => void {
    this.#lostListeners.add(listener);
    return () => this.#lostListeners.delete(listener);
  }

  /** Calls `listener` with the error that says what was lost (WorkerClock.J14). Returns how to stop. */
  onRejoined(listener: (error: WeighbridgeError) => void): () => void {
    this.#rejoinedListeners.add(listener);
    return () => this.#rejoinedListeners.delete(listener);
  }

  /** Nobody waits for this worker until `rejoin` (WorkerClock.J4). */
  async leave(wait: WaitOptions, endsClock = true): Promise<void> {
    if (!this.#hasLeft && endsClock) this.value = Math.min(CLOCK_MAX, this.value + 1); // WorkerClock.J5
    const ended = this.#ended(this.value, true);
    this.#hear(this.value); // by leaving
    this.#hasLeft = true;
    this.#joining = undefined; // what is under way leads to where this worker leaves
    await this.#functions.callAll(clockAdvance, ended, { ...wait, priority: LAST_PRIORITY });
  }

  /**
   * WorkerClock.J7. A server that refuses to hear of the clock has nothing of this worker to drop; one that cannot be
   * reached does not hear that it joins either.
   */
  async #joinBehindClock(): Promise<void> {
    if (this.#heard < this.value) this.#tell(JOIN_PRIORITY).catch(() => {});
    await this.join({});
  }

  async #startJoining(): Promise<void> {
    this.#joiningAgain();
    this.#lastLost = this.lost;
    this.#pushes.drop(this.value); // spec/consistency.md, W5
    const joining = this.#joinBehindClock().finally(() => {
      if (this.#joining === joining) this.#joining = undefined;
    });
    this.#joining = joining;
    await joining;
    const absence = this.#absentNow();
    absence.endedAtMs = this.#clock.nowMs();
    this.#report(absence);
  }
}

/**
 * Numbers the pushes of a worker to each parameter, for all handles of its session (PushNumbers.N1, PushNumbers.N2).
 */
export class PushNumbers {
  /** Of the last push to each parameter. */
  readonly #last = new Map<number, number>();
  /** By rising clock and parameter: the number of the last push at that clock. */
  readonly #byClock = new Map<number, Map<number, number>>();

  /** The number of a push that is about to leave (PushNumbers.N1). */
  next(parameter: number, clock: number): number {
    const number = this.last(parameter) + 1;
    this.#last.set(parameter, number);
    const pushed = this.#byClock.get(clock);
    if (pushed !== undefined) pushed.set(parameter, number);
    else this.#open(clock).set(parameter, number);
    return number;
  }

  /** That of the last push to the parameter; 0 before the first. */
  last(parameter: number): number {
    return this.#last.get(parameter) ?? 0;
  }

  /** All of them, for a server that is joined. */
  all(): Omit<PushReport, "clocks"> {
    return { parameters: Uint32Array.from(this.#last.keys()), numbers: Uint32Array.from(this.#last.values()) };
  }

  hasPushedAt(clock: number): boolean {
    return this.#byClock.has(clock);
  }

  /** What was pushed at clocks below this one, and not heard of by all. */
  before(clock: number): PushReport {
    const entries = [...this.#byClock]
      .filter(([pushedAt]) => pushedAt < clock)
      .flatMap(([pushedAt, pushed]) => [...pushed].map(([parameter, number]) => ({ pushedAt, parameter, number })));
    return {
      clocks: Uint32Array.from(entries, ({ pushedAt }) => pushedAt),
      parameters: Uint32Array.from(entries, ({ parameter }) => parameter),
      numbers: Uint32Array.from(entries, ({ number }) => number),
    };
  }

  /** Every server has heard of the clocks below this one. */
  heard(clock: number): void {
    for (const pushedAt of this.#byClock.keys()) if (pushedAt < clock) this.#byClock.delete(pushedAt);
  }

  /** What was pushed at this clock or later to sync parameters is dropped everywhere, and pushed again. */
  drop(clock: number): void {
    for (const pushedAt of this.#byClock.keys()) if (pushedAt >= clock) this.#byClock.delete(pushedAt);
  }

  /** The parameter is no more. */
  cleared(parameter: number): void {
    for (const pushed of this.#byClock.values()) pushed.delete(parameter);
  }

  #open(clock: number): Map<number, number> {
    const pushed = new Map<number, number>();
    this.#byClock.set(clock, pushed);
    const [oldest, next] = this.#byClock.keys();
    if (this.#byClock.size > CLOCKS_KEPT && oldest !== undefined && next !== undefined) {
      const later = this.#byClock.get(next) as Map<number, number>;
      for (const [parameter, number] of this.#byClock.get(oldest) as Map<number, number>)
        if (!later.has(parameter)) later.set(parameter, number);
      this.#byClock.delete(oldest);
    }
    return pushed;
  }
}

/** Whether a server says that this worker is no member of its clock set, or not at that clock. */
function isOutside({ code }: WeighbridgeError): boolean {
  return code === "NOT_JOINED" || code === "STALE_UPDATE";
}
