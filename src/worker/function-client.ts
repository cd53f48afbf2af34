// function-client — calls PS functions of the servers. Calls return promises; the router finds the servers, and the frames leave through its channels. Calls of
// a parameter that a handle holds leave only for lives of servers that it knows (held-parameter.ts, L1 to L4). A call that a server refused because the
// placement has changed is made again, and its caller does not notice (router.ts, R3 and R4). Announcements of clocks, and what is called after them, wait while
// the placement is about to change (R7).

import type { Clock } from "../base/clock.ts";
import { checkWait, Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import { clockWait } from "../contracts/clocks.ts";
import type { Contract } from "../contracts/contract.ts";
import { parameterOrigin } from "../contracts/parameters.ts";
import { type Call, type CallFate, detachedError } from "../peer/call.ts";
import { functionCalls } from "../peer/function-call.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { callText, explainedDeadline, missingFailure, namedFailure } from "./call-subject.ts";
import type { HeldParameter } from "./held-parameter.ts";
import type { Route, Routed, Router } from "./router.ts";

export type FunctionCallSettings = {
  /** Higher overtakes lower between frames. Defaults to 0. */
  readonly priority?: number | undefined;
  /** Reads follow this worker's own updates of the same scope. */
  readonly scope?: number | undefined;
  /** Where a response lands that is one array. */
  readonly into?: ArrayBufferView | undefined;
  /** `answered` copies the response on at once: a small one is shown where it was read, void when that returns, and never lands in `into`. */
  readonly passing?: boolean | undefined;
};

/** One call of a group. */
export type FunctionRequest<Q extends Fields, R extends Fields> = FunctionCallSettings & {
  /** What it is about; the router finds the server. */
  readonly to: Route;
  readonly request: FieldValues<Q>;
  readonly answered?: (response: FieldValues<R>) => void;
  /** Hears how it failed, before the caller of the group does. */
  readonly failed?: (error: WeighbridgeError, fate?: CallFate) => void;
  /** For rows, whose owners may not be one any more: what it carries, cut by the placement as it is now. Left out, it goes to the owner as it is. May throw. */
  readonly cutAgain?: (() => Recut) | undefined;
  /** For an update that was applied and whose answer was lost: what asks for it. Left out, it fails with ANSWER_LOST. May throw. */
  readonly answerLost?: (() => Recut) | undefined;
};

/** A request of some function: the types of its fields were checked where it was made. */
export type AnyRequest = { readonly fn: Contract; readonly asked: FunctionRequest<Fields, Fields> };

export function requestOf<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, asked: FunctionRequest<Q, R>): AnyRequest {
  return { fn: fn as unknown as Contract, asked: asked as unknown as FunctionRequest<Fields, Fields> };
}

/** What takes the place of a request. */
export type Recut = {
  readonly requests: readonly AnyRequest[];
  /** All of them were answered. */
  readonly answered?: (() => void) | undefined;
  /** All of them have ended: nobody sends from their memory any more. */
  readonly release: () => void;
};

/** Payload bytes of one function since the recording began, both ways; what travels twice counts once. */
export type FunctionLoad = { sentBytes: number; receivedBytes: number };
/** How a caller waits, and what for: errors then name the parameter, and lives of servers that its handle does not know are not asked. */
export type CallWait = WaitOptions & { readonly subject?: HeldParameter | undefined };

/** Calls that are ready to be sent. */
type Prepared = {
  /** In the order in which they leave. */
  readonly entries: Entry[];
  /** Settles when all have ended: rejects with the first failure. */
  readonly done: Promise<void>;
  /** Those whose answers came from lives that the handle does not know, and were not taken (L2). */
  readonly crossed: readonly AnyRequest[];
};

/** A request, and its calls as the placement of an epoch has them. */
type Entry = AnyRequest & {
  readonly subject: HeldParameter | undefined;
  /** It has its answer, or has failed for good. */
  ended: (error?: WeighbridgeError, fate?: CallFate) => void;
  readonly crossed: (request: AnyRequest) => void;
  server: number;
  /** 0: it does not depend on the placement. */
  epoch: number;
  order: number;
  calls: readonly Call[];
};

const NUMBERS = 2 ** 32;
/** Of what overtakes everything else. */
const FIRST_PRIORITY = 2 ** 31 - 1;
/** How much later than its deadline a call may fail, to say why: a round trip where a server answers. */
const EXPLAIN_MS = 100;

export class FunctionClient {
  readonly #router: Router;
  readonly #clock: Clock;
  #next = 0;
  /** Hears of every call that failed, before its caller does. */
  onFailure: (error: WeighbridgeError) => void = () => {};
  /** What the caller of a parameter's call is told in the place of its failure; may come a little later. */
  explainFailure: (error: WeighbridgeError, wait: WaitOptions) => Promise<WeighbridgeError> = (error) => Promise.resolve(error);
  /** The last of those who wait for room, if anybody does. */
  #queue: Promise<void> | undefined;
  /** By the function's name; undefined while nobody records. */
  #loads: Map<string, FunctionLoad> | undefined;

  constructor(router: Router, clock: Clock) {
    this.#router = router;
    this.#clock = clock;
  }

  /** The ranks of all servers, ascending. */
  get servers(): readonly number[] {
    return this.#router.servers;
  }

  /** Of the placement by which requests are cut now: another one, other owners. */
  get epoch(): number {
    return this.#router.epoch;
  }

  /** Counts payload bytes from now on, from 0. */
  startRecord(): void {
    this.#loads = new Map();
  }

  /** What was counted since `startRecord`, or since the last time, by function. Empty when nobody records. */
  takeLoads(): ReadonlyMap<string, Readonly<FunctionLoad>> {
    const loads = this.#loads;
    if (loads !== undefined) this.#loads = new Map();
    return loads ?? new Map<string, FunctionLoad>();
  }

  /** Which life of a server calls go to now: a new one knows nothing of what the one before was told. */
  lifeOf(server: number): number {
    return this.#router.incarnationOf(server);
  }

  /** This worker is about to join a clock set (router.ts, R7). */
  joining(): () => void {
    return this.#router.joining();
  }

  /** Waits for something that goes on even when nobody waits for it any more. */
  async wait<T>(promise: Promise<T>, what: string, { subject, ...wait }: CallWait): Promise<T> {
    try {
      return await waitFor(promise, what, this.#clock, wait);
    } catch (thrown) {
      throw await this.#explained(thrown, subject, wait);
    }
  }

  /** A DEADLINE names the worker that a read waits for, if a server says so in time (spec/consistency.md, P3): asked once, when it has passed. */
  async #explained(thrown: unknown, subject: HeldParameter | undefined, wait: WaitOptions): Promise<unknown> {
    if (subject === undefined || !isWeighbridgeError(thrown)) return thrown;
    if (thrown.code !== "DEADLINE") return await this.explainFailure(thrown, wait);
    const { signal } = wait;
    const told = new Deferred<string | undefined>();
    const answered = ({ waits }: { readonly waits: string }): void => {
      if (waits !== "") told.resolve(waits);
    };
    const request = { parameter: subject.parameter };
    const requests = this.servers.map((server) => ({ to: { server }, request, priority: FIRST_PRIORITY, answered }));
    const nobodyWaits = (): undefined => undefined;
    const all = this.callEach(clockWait, requests, { deadlineMs: EXPLAIN_MS, signal }).then(nobodyWaits, nobodyWaits);
    return explainedDeadline(thrown, await Promise.race([told.promise, all]));
  }

  /** Calls a function where `to` says. Rejects with what the handler threw, with NODE_DEAD, or with DEADLINE or ABORTED (the call then goes on). */
  async call<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    to: Route,
    request: FieldValues<Q>,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<FieldValues<R>> {
    let response: FieldValues<R> | undefined;
    const answered = (values: FieldValues<R>): void => {
      response = values;
    };
    await this.callEach(fn, [{ ...options, to, request, answered }], options);
    return response as FieldValues<R>;
  }

  /** The same request to every server, in the order of their ranks. */
  async callAll<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<FieldValues<R>[]> {
    const { servers } = this;
    const responses: FieldValues<R>[] = [];
    const requests = servers.map((server, i) => ({
      ...options,
      to: { server },
      request,
      answered: (values: FieldValues<R>) => {
        responses[i] = values;
      },
    }));
    try {
      await this.callEach(fn, requests, options);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "UNKNOWN_FUNCTION")) throw thrown;
      throw missingFailure(thrown, fn, { servers, hasAnswered: (server) => responses[servers.indexOf(server)] !== undefined });
    }
    return responses;
  }

  /** A function of the owners of these keys, each of which is asked for its share: what the share of the keys at some positions is, `shareOf` says. */
  async callOwners<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    keys: BigUint64Array,
    shareOf: (positions: readonly number[]) => Pick<FunctionRequest<Q, R>, "request" | "answered">,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<void> {
    checkWait(options);
    const requestsFor = (among?: readonly number[]): AnyRequest[] =>
      this.#router.sharesOf(keys, among).map(({ to, positions }) => {
        const cutAgain = (): Recut => ({ requests: requestsFor(positions), release: () => {} });
        return requestOf(fn, { ...options, ...shareOf(positions), to, cutAgain });
      });
    await this.callMixed(requestsFor(), callText(fn, options.subject), options);
  }

  /** All of these calls, leaving together; resolves when every one has its answer, rejects with the first failure once all ended. */
  async callEach<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    requests: readonly FunctionRequest<Q, R>[],
    options: CallWait = {},
  ): Promise<void> {
    checkWait(options);
    const any: AnyRequest[] = [];
    for (const asked of requests) any.push(requestOf(fn, asked));
    await this.callMixed(any, callText(fn, options.subject), options);
  }

  /** The same for requests of several functions; `what` completes "waiting for …". */
  async callMixed(requests: readonly AnyRequest[], what: string, options: CallWait = {}): Promise<void> {
    checkWait(options);
    if (requests.length === 0) return;
    const { subject, ...wait } = options;
    const prepared = this.#prepare(requests, subject);
    await this.#send(prepared, wait);
    try {
      await waitFor(prepared.done, what, this.#clock, wait);
    } catch (thrown) {
      throw await this.#explained(thrown, subject, wait);
    }
    if (prepared.crossed.length > 0) await this.callMixed(prepared.crossed, what, options); // with its deadline anew: once for each life of a server
  }

  #prepare(requests: readonly AnyRequest[], subject: HeldParameter | undefined): Prepared {
    const done = new Deferred<void>();
    let open = requests.length;
    let failure: WeighbridgeError | undefined;
    const ended = (error?: WeighbridgeError): void => {
      failure ??= error;
      if (--open > 0) return;
      if (failure === undefined) done.resolve();
      else done.reject(failure);
    };
    const crossed: AnyRequest[] = [];
    const noteCrossed = (request: AnyRequest): void => void crossed.push(request);
    const entries = requests.map((request) => this.#entry(request, { subject, ended, crossed: noteCrossed }));
    done.promise.catch(() => {}); // nobody waits for it where sending fails
    return { entries, done: done.promise, crossed };
  }

  #entry({ fn, asked }: AnyRequest, { subject, ended, crossed }: Pick<Entry, "subject" | "ended" | "crossed">): Entry {
    const { priority = 0 } = asked;
    if (!Number.isFinite(priority)) throw new WeighbridgeError("BAD_ARGUMENT", `a priority is a number, not ${showValue(priority)}`);
    const entry: Entry = { fn, asked, subject, ended, crossed, server: 0, epoch: 0, order: 0, calls: [] };
    if (fn.followsUpdates)
      entry.ended = (...outcome) => {
        if (entry.order > 0) this.#router.announcementEnded(entry.server, outcome[0]);
        ended(...outcome);
      };
    this.#cut(entry);
    return entry;
  }

  /** Makes its calls, as the placement is now. Throws BAD_ARGUMENT. */
  #cut(entry: Entry): void {
    const { asked, fn, subject } = entry;
    const { to, request, priority = 0, scope = 0, into, passing, answered } = asked;
    const epoch = this.#router.epochOf(to, fn);
    const server = this.#router.serverOf(to);
    const isCounted = fn.isUpdate && epoch > 0;
    entry.server = server;
    entry.epoch = epoch;
    entry.calls = functionCalls({
      fn,
      request,
      number: this.#next,
      priority,
      scope,
      into: into === undefined ? undefined : new Uint8Array(into.buffer, into.byteOffset, into.byteLength),
      passing,
      epoch,
      answered: (response, byteCount) => {
        this.#count(fn.name, 0, byteCount);
        if (this.#isStranger(subject, server)) entry.crossed(entry);
        else answered?.(response);
        if (isCounted) this.#router.updateEnded();
        entry.ended();
      },
      failed: (error, fate) => {
        if (epoch > 0 && this.#router.refused(this.#routed(entry), epoch, fn.isUpdate, error)) return;
        if (error.code === "ANSWER_LOST" && asked.answerLost !== undefined) {
          if (isCounted) this.#router.updateEnded();
          this.#askAnew(entry, asked.answerLost);
          return;
        }
        this.onFailure(error);
        asked.failed?.(error, fate);
        if (isCounted) this.#router.updateEnded();
        entry.ended(namedFailure(error, fn, subject), fate);
      },
    });
    this.#next = (this.#next + 1) % NUMBERS;
    if (this.#loads !== undefined) for (const { byteCount } of entry.calls) this.#count(fn.name, byteCount, 0);
  }

  /** How a refused call is made again. */
  #routed(entry: Entry): Routed {
    return {
      order: entry.order,
      sendAgain: () => {
        const entries = this.#cutAgain(entry);
        if (this.#strangerAmong(entries) < 0) return void this.#trySend(entries, true);
        return this.#sendInTurn(entries, true).catch(() => {}); // each was told
      },
    };
  }

  /** It was applied, and its answer is not known: what asks for the answer takes its place. */
  #askAnew(entry: Entry, answerLost: () => Recut): void {
    const entries = this.#cutAgain(entry, answerLost, true);
    this.#sendInTurn(entries, true).catch((thrown: unknown) => failEntries(entries, thrown));
  }

  /** The entries that take the place of one, as the placement is now; none when it has failed. */
  #cutAgain(entry: Entry, cutAgain: (() => Recut) | undefined = entry.asked.cutAgain, isApplied = false): Entry[] {
    const { asked, fn, subject } = entry;
    let recut: Recut | undefined;
    try {
      if (entry.calls.some(({ isIntact }) => !isIntact)) throw detachedError({ isUpdate: fn.isUpdate, sendCount: 0 });
      if (cutAgain === undefined) {
        this.#cut(entry);
        return [entry];
      }
      recut = cutAgain();
      return this.#recutEntries(entry, recut, isApplied);
    } catch (thrown) {
      recut?.release();
      const error = isApplied ? partlyApplied(asError(thrown)) : asError(thrown);
      asked.failed?.(error);
      entry.ended(namedFailure(error, fn, subject));
      return [];
    }
  }

  /** `wasApplied`: it counts already, whatever becomes of what takes its place. */
  #recutEntries(entry: Entry, recut: Recut, wasApplied: boolean): Entry[] {
    const { asked, fn, subject } = entry;
    const { requests, release } = recut;
    let open = requests.length;
    let failure: WeighbridgeError | undefined;
    let isApplied = wasApplied; // some of it, or perhaps
    const ended = (error?: WeighbridgeError, fate?: CallFate): void => {
      if (error === undefined || fate !== undefined) isApplied = true;
      failure ??= error;
      if (--open > 0) return;
      if (failure === undefined) failure = errorOf(() => recut.answered?.());
      release();
      const told = failure !== undefined && fn.isUpdate && isApplied ? partlyApplied(failure) : failure;
      if (told !== undefined) asked.failed?.(told);
      entry.ended(told);
    };
    const crossed = (): void => entry.crossed(entry); // with memory that lives as long as its caller waits
    const entries = requests.map((each) => this.#entry(each, { subject, ended, crossed }));
    for (const each of entries) each.order = entry.order;
    return entries;
  }

  #count(name: string, sentBytes: number, receivedBytes: number): void {
    if (this.#loads === undefined) return;
    const load = this.#loads.get(name) ?? { sentBytes: 0, receivedBytes: 0 };
    load.sentBytes += sentBytes;
    load.receivedBytes += receivedBytes;
    this.#loads.set(name, load);
  }

  /** Waits for room, for a change of the placement, or for what a restarted server says of the parameter, instead of failing. Those who wait keep their order (L4). */
  async #send({ entries }: Prepared, wait: WaitOptions): Promise<void> {
    if (this.#queue === undefined && !this.#isHeld(entries) && this.#mayLeave(entries) && this.#trySend(entries)) return;
    const turn = (this.#queue ?? Promise.resolve()).then(() => this.#sendInTurn(entries));
    const queue: Promise<void> = turn
      .catch(() => {}) // its caller is told; those behind it go on
      .then(() => {
        if (this.#queue === queue) this.#queue = undefined;
      });
    this.#queue = queue;
    await waitFor(turn, "room in the queues to the servers", this.#clock, wait);
  }

  /**
   * L1: whom it asks is looked at and asked in one step. What was cut by an older placement is cut again before it leaves. When it throws, entries that were sent
   * before or took the place of others have failed with that; those that never left are their caller's to fail.
   */
  async #sendInTurn(given: Entry[], isForced = false): Promise<void> {
    let entries = given;
    try {
      for (;;) {
        if (!isForced && this.#isHeld(entries)) {
          await (this.#router.isHeld ? this.#router.released() : this.#router.announcementsReleased());
          continue;
        }
        entries = entries.flatMap((entry) => (this.#router.isCurrent(entry.epoch) ? [entry] : this.#cutAgain(entry)));
        const stranger = this.#strangerAmong(entries);
        const subject = entries[0]?.subject;
        if (subject !== undefined && stranger >= 0) await this.#meet(subject, stranger, isForced);
        else if (this.#trySend(entries, isForced)) return;
        else await this.#router.room();
      }
    } catch (thrown) {
      failEntries(isForced ? entries : entries.filter((entry) => !given.includes(entry)), thrown);
      throw thrown;
    }
  }

  /** Asks the new life of a server where its parameter is from. Throws UNKNOWN_PARAMETER, and what the server throws. */
  async #meet(held: HeldParameter, server: number, isForced: boolean): Promise<void> {
    let lost: WeighbridgeError | undefined;
    const answered = ({ isRestored }: { readonly isRestored: boolean }): void => {
      const life = this.lifeOf(server); // of whom this is the answer
      if (isRestored) held.found(server, life);
      else lost = held.lost(server, life);
    };
    const request = { parameter: held.parameter, name: held.name };
    const { entries, done } = this.#prepare([requestOf(parameterOrigin, { to: { server }, request, answered })], undefined);
    while (!this.#trySend(entries, isForced)) await this.#router.room();
    await done.catch((thrown: unknown) => {
      throw isWeighbridgeError(thrown) ? namedFailure(thrown, parameterOrigin, held) : thrown;
    });
    if (lost !== undefined) throw lost;
  }

  /** Whether these wait for a placement (R4, R7). */
  #isHeld(entries: readonly Entry[]): boolean {
    return this.#router.isHeld || (this.#router.holdsAnnouncements && entries.some(({ fn }) => fn.followsUpdates));
  }

  /** Whether all were cut by the placement as it is, and are for lives of servers that the handle knows. */
  #mayLeave(entries: readonly Entry[]): boolean {
    return entries.every(({ epoch }) => this.#router.isCurrent(epoch)) && this.#strangerAmong(entries) < 0;
  }

  /** The first server that these are for and whose life the handle does not know; -1 for none. */
  #strangerAmong(entries: readonly Entry[]): number {
    for (let i = 0; i < entries.length; i++) {
      const { subject, server } = entries[i] as Entry;
      if (this.#isStranger(subject, server)) return server;
    }
    return -1;
  }

  #isStranger(subject: HeldParameter | undefined, server: number): boolean {
    return subject !== undefined && !subject.knows(server, this.lifeOf(server));
  }

  /** All of them or, when a server has no room, none. */
  #trySend(entries: readonly Entry[], isForced = false): boolean {
    const callsOf: Call[][] = [];
    for (const { server, calls } of entries) {
      const own = callsOf[server];
      if (own === undefined) callsOf[server] = [...calls];
      else own.push(...calls);
    }
    if (!this.#router.hasRoom(callsOf, isForced)) return false;
    for (const entry of entries) {
      if (entry.order === 0) {
        entry.order = this.#router.nextOrder();
        if (entry.fn.followsUpdates) this.#router.announcementOpened();
      }
      if (entry.fn.isUpdate && entry.epoch > 0) this.#router.updateOpened(); // what follows no placement may wait for other workers
    }
    this.#router.send(callsOf);
    return true;
  }
}

/** What was to be sent again and cannot be. */
function failEntries(entries: readonly Entry[], thrown: unknown): void {
  const error = asError(thrown);
  for (const { asked, ended } of entries) {
    asked.failed?.(error);
    ended(error);
  }
}

function asError(thrown: unknown): WeighbridgeError {
  return isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("BAD_REQUEST", reasonOf(thrown), { cause: thrown });
}

/** What something throws. */
function errorOf(run: () => void): WeighbridgeError | undefined {
  try {
    run();
    return undefined;
  } catch (thrown) {
    return asError(thrown);
  }
}

/** Of an update that was cut again, and of which some parts were applied and others were not: whoever keeps it must not send it whole once more. */
function partlyApplied(failure: WeighbridgeError): WeighbridgeError {
  const { code, message, retryable } = failure;
  const cause = new WeighbridgeError("LINK_LOST", `${message}; other parts of the update were applied, or may have been`);
  return new WeighbridgeError(code, cause.message, { retryable, cause });
}

/** Waits until all of them have ended; rejects with the first in the list that failed. */
export async function allEnded(calls: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(calls)) if (outcome.status === "rejected") throw outcome.reason;
}
