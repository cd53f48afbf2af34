// function-client — calls PS functions of the servers. Calls return promises; the frames leave through the worker's channels. Calls of a parameter that a handle
// holds leave only for lives of servers that it knows (held-parameter.ts, L1 to L4).

import type { Clock } from "../base/clock.ts";
import { checkWait, Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import { clockWait } from "../contracts/clocks.ts";
import type { Contract } from "../contracts/contract.ts";
import { parameterOrigin } from "../contracts/parameters.ts";
import type { Call, CallFate } from "../peer/call.ts";
import { functionCalls } from "../peer/function-call.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { callText, explainedDeadline, missingFailure, namedFailure } from "./call-subject.ts";
import type { HeldParameter } from "./held-parameter.ts";
import type { Worker } from "./worker.ts";

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

/** One call of a group, to one server. */
export type FunctionRequest<Q extends Fields, R extends Fields> = FunctionCallSettings & {
  readonly server: number;
  readonly request: FieldValues<Q>;
  readonly answered?: (response: FieldValues<R>) => void;
  /** Hears how it failed, before the caller of the group does. */
  readonly failed?: (error: WeighbridgeError, fate?: CallFate) => void;
};

/** Payload bytes of one function since the recording began, both ways; what travels twice counts once. */
export type FunctionLoad = { sentBytes: number; receivedBytes: number };
/** How a caller waits, and what for: errors then name the parameter, and lives of servers that its handle does not know are not asked. */
export type CallWait = WaitOptions & { readonly subject?: HeldParameter | undefined };

type CallsOfServers = readonly (readonly Call[])[];
/** Calls that are ready to be sent. */
type Prepared<Q extends Fields, R extends Fields> = {
  readonly callsOf: CallsOfServers;
  /** Settles when all have ended: rejects with the first failure. */
  readonly done: Promise<void>;
  /** Those whose answers came from lives that the handle does not know, and were not taken (L2). */
  readonly crossed: readonly FunctionRequest<Q, R>[];
};

const NUMBERS = 2 ** 32;
/** Of what overtakes everything else. */
const FIRST_PRIORITY = 2 ** 31 - 1;
/** How much later than its deadline a call may fail, to say why: a round trip where a server answers. */
const EXPLAIN_MS = 100;

export class FunctionClient {
  readonly #worker: Worker;
  readonly #clock: Clock;
  #next = 0;
  /** Hears of every call that failed, before its caller does. */
  onFailure: (error: WeighbridgeError) => void = () => {};
  /** The last of those who wait for room, if anybody does. */
  #queue: Promise<void> | undefined;
  /** By the function's name; undefined while nobody records. */
  #loads: Map<string, FunctionLoad> | undefined;

  constructor(worker: Worker, clock: Clock) {
    this.#worker = worker;
    this.#clock = clock;
  }

  get serverCount(): number {
    return this.#worker.ranges.length;
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
    return this.#worker.lifeOf(server);
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
  async #explained(thrown: unknown, subject: HeldParameter | undefined, { signal }: WaitOptions): Promise<unknown> {
    if (subject === undefined || !isWeighbridgeError(thrown, "DEADLINE")) return thrown;
    const told = new Deferred<string | undefined>();
    const answered = ({ waits }: { readonly waits: string }): void => {
      if (waits !== "") told.resolve(waits);
    };
    const request = { parameter: subject.parameter };
    const requests = Array.from({ length: this.serverCount }, (_, server) => ({ server, request, priority: FIRST_PRIORITY, answered }));
    const nobodyWaits = (): undefined => undefined;
    const all = this.callEach(clockWait, requests, { deadlineMs: EXPLAIN_MS, signal }).then(nobodyWaits, nobodyWaits);
    return explainedDeadline(thrown, await Promise.race([told.promise, all]));
  }

  /** Calls a function of one server. Rejects with what the handler threw, with NODE_DEAD, or with DEADLINE or ABORTED (the call then goes on). */
  async call<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    server: number,
    request: FieldValues<Q>,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<FieldValues<R>> {
    let response: FieldValues<R> | undefined;
    await this.callEach(
      fn,
      [
        {
          ...options,
          server,
          request,
          answered: (values) => {
            response = values;
          },
        },
      ],
      options,
    );
    return response as FieldValues<R>;
  }

  /** The same request to every server, in the order of their ranks. */
  async callAll<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<FieldValues<R>[]> {
    const responses: FieldValues<R>[] = [];
    const requests = Array.from({ length: this.serverCount }, (_, server) => ({
      ...options,
      server,
      request,
      answered: (values: FieldValues<R>) => {
        responses[server] = values;
      },
    }));
    try {
      await this.callEach(fn, requests, options);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "UNKNOWN_FUNCTION")) throw thrown;
      throw missingFailure(thrown, fn, { serverCount: this.serverCount, hasAnswered: (server) => responses[server] !== undefined });
    }
    return responses;
  }

  /** All of these calls, leaving together; resolves when every one has its answer, rejects with the first failure once all ended. */
  async callEach<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    requests: readonly FunctionRequest<Q, R>[],
    options: CallWait = {},
  ): Promise<void> {
    checkWait(options);
    if (requests.length === 0) return;
    const { subject, ...wait } = options;
    const { callsOf, done, crossed } = this.#prepare(fn, requests, subject);
    await this.#send(callsOf, subject, wait);
    try {
      await waitFor(done, callText(fn, subject), this.#clock, wait);
    } catch (thrown) {
      throw await this.#explained(thrown, subject, wait);
    }
    if (crossed.length > 0) await this.callEach(fn, crossed, options); // with its deadline anew: once for each life of a server
  }

  #prepare<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    requests: readonly FunctionRequest<Q, R>[],
    subject: HeldParameter | undefined,
  ): Prepared<Q, R> {
    const done = new Deferred<void>();
    let open = requests.length;
    let failure: WeighbridgeError | undefined;
    const ended = (error?: WeighbridgeError): void => {
      failure ??= error;
      if (--open > 0) return;
      if (failure === undefined) done.resolve();
      else done.reject(failure);
    };
    const crossed: FunctionRequest<Q, R>[] = [];
    const callsOf: Call[][] = Array.from({ length: this.serverCount }, () => []);
    for (const asked of requests) {
      const { server, request, priority = 0, scope = 0, into, passing, answered } = asked;
      if (!Number.isFinite(priority)) throw new WeighbridgeError("BAD_ARGUMENT", `a priority is a number, not ${showValue(priority)}`);
      const calls = functionCalls({
        fn,
        request,
        number: this.#next,
        priority,
        scope,
        into: into === undefined ? undefined : new Uint8Array(into.buffer, into.byteOffset, into.byteLength),
        passing,
        answered: (response, byteCount) => {
          this.#count(fn.name, 0, byteCount);
          if (this.#isStranger(subject, server)) crossed.push(asked);
          else answered?.(response);
          ended();
        },
        failed: (error, fate) => {
          this.onFailure(error);
          asked.failed?.(error, fate);
          ended(namedFailure(error, fn, subject));
        },
      });
      this.#next = (this.#next + 1) % NUMBERS;
      for (const call of calls) {
        this.#count(fn.name, call.byteCount, 0);
        (callsOf[server] as Call[]).push(call);
      }
    }
    return { callsOf, done: done.promise, crossed };
  }

  #count(name: string, sentBytes: number, receivedBytes: number): void {
    if (this.#loads === undefined) return;
    const load = this.#loads.get(name) ?? { sentBytes: 0, receivedBytes: 0 };
    load.sentBytes += sentBytes;
    load.receivedBytes += receivedBytes;
    this.#loads.set(name, load);
  }

  /** Waits for room, or for what a restarted server says of the parameter, instead of failing. Those who wait keep their order (L4). */
  async #send(callsOf: CallsOfServers, subject: HeldParameter | undefined, wait: WaitOptions): Promise<void> {
    if (this.#queue === undefined && this.#strangerAmong(subject, callsOf) < 0 && this.#tryAsk(callsOf)) return;
    const turn = (this.#queue ?? Promise.resolve()).then(() => this.#askInTurn(callsOf, subject));
    const queue: Promise<void> = turn
      .catch(() => {}) // its caller is told; those behind it go on
      .then(() => {
        if (this.#queue === queue) this.#queue = undefined;
      });
    this.#queue = queue;
    await waitFor(turn, "room in the queues to the servers", this.#clock, wait);
  }

  /** L1: whom it asks is looked at and asked in one step. */
  async #askInTurn(callsOf: CallsOfServers, subject: HeldParameter | undefined): Promise<void> {
    for (;;) {
      const stranger = this.#strangerAmong(subject, callsOf);
      if (subject !== undefined && stranger >= 0) await this.#meet(subject, stranger);
      else if (this.#tryAsk(callsOf)) return;
      else await this.#worker.room();
    }
  }

  /** Asks the new life of a server where its parameter is from. Throws UNKNOWN_PARAMETER, and what the server throws. */
  async #meet(held: HeldParameter, server: number): Promise<void> {
    let lost: WeighbridgeError | undefined;
    const answered = ({ isRestored }: { readonly isRestored: boolean }): void => {
      const life = this.lifeOf(server); // of whom this is the answer
      if (isRestored) held.found(server, life);
      else lost = held.lost(server, life);
    };
    const request = { parameter: held.parameter, name: held.name };
    const { callsOf, done } = this.#prepare(parameterOrigin, [{ server, request, answered }], undefined);
    while (!this.#tryAsk(callsOf)) await this.#worker.room();
    await done.catch((thrown: unknown) => {
      throw isWeighbridgeError(thrown) ? namedFailure(thrown, parameterOrigin, held) : thrown;
    });
    if (lost !== undefined) throw lost;
  }

  /** The first server that these calls are for and whose life the handle does not know; -1 for none. */
  #strangerAmong(subject: HeldParameter | undefined, callsOf: CallsOfServers): number {
    if (subject === undefined) return -1;
    return callsOf.findIndex((calls, server) => calls.length > 0 && this.#isStranger(subject, server));
  }

  #isStranger(subject: HeldParameter | undefined, server: number): boolean {
    return subject !== undefined && !subject.knows(server, this.lifeOf(server));
  }

  #tryAsk(callsOf: CallsOfServers): boolean {
    try {
      this.#worker.ask(callsOf);
      return true;
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown;
      return false;
    }
  }
}

/** Waits until all of them have ended; rejects with the first in the list that failed. */
export async function allEnded(calls: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(calls)) if (outcome.status === "rejected") throw outcome.reason;
}
