// function-client — calls functions of the servers, and waits for their answers as their callers say: with a deadline,
// whose error says what the call waits for. The router finds the servers and sends (router.ts); requests that are made
// again and again go to it directly.

import { checkNotAborted, checkWait, Deferred, type WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError, restated, WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { parameterState } from "../contracts/parameters.ts";
import { tellsOutcome } from "../peer/call-outcome.ts";
import { unheard } from "../peer/unheard-update.ts";
import { isMissingThere, nearestFunction } from "../wire/failure.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { callText } from "./call-failures.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { AnyRequest, FunctionCallSettings, FunctionLoad, FunctionRequest, Recut } from "./router/function-request.ts";
import type { Route } from "./router/server-directory.ts";
import { type Router, requestOf } from "./router.ts";

/**
 * How a caller waits, and what for: errors then name the parameter, and incarnations of servers that its handle does
 * not know are asked first.
 */
export type CallWait = WaitOptions & { readonly subject?: ParameterHandle | undefined };

/** Of what overtakes everything else. */
const FIRST_PRIORITY = 2 ** 31 - 1;
/** How much later than its deadline a call may fail, to say why: a round trip where a server answers. */
const EXPLAIN_MS = 100;

export class FunctionClient {
  readonly router: Router;
  /** The error for the caller of a parameter's call, in place of its failure; may come a little later. */
  explainFailure: (error: WeighbridgeError, wait: WaitOptions) => Promise<WeighbridgeError> = (error) => Promise.resolve(error);

  constructor(router: Router) {
    this.router = router;
  }

  /** The ranks of all servers, ascending. */
  get servers(): readonly number[] {
    return this.router.servers;
  }

  /** Of the placement by which requests are cut now: another one, other owners. */
  get epoch(): number {
    return this.router.epoch;
  }

  /** Counts payload bytes from now on, from 0. */
  startRecord(): void {
    this.router.loads = new Map();
  }

  /** What was counted since `startRecord`, or since the last time, by function. Empty when nobody records. */
  takeLoads(): ReadonlyMap<string, Readonly<FunctionLoad>> {
    const { loads } = this.router;
    if (loads !== undefined) this.router.loads = new Map();
    return loads ?? new Map<string, FunctionLoad>();
  }

  /** Which incarnation of a server calls go to now: a new one knows nothing that the one before knew. */
  incarnationOf(server: number): number {
    return this.router.incarnationOf(server);
  }

  /** This worker is about to join a clock set (Router.R7). */
  joining(): () => void {
    return this.router.clockMessages.joining();
  }

  /** No other placement comes until the returned function is called; waits for one that is about to come. */
  async steady(): Promise<() => void> {
    const { clockMessages } = this.router;
    while (clockMessages.hold !== undefined) await clockMessages.hold.released;
    return clockMessages.joining();
  }

  /** Waits for something that goes on even when nobody waits for it any more. */
  async wait<T>(promise: Promise<T>, what: string, { subject, ...wait }: CallWait): Promise<T> {
    try {
      return await this.router.waits.wait(promise, what, wait);
    } catch (thrown) {
      throw await this.explained(thrown, subject, wait);
    }
  }

  /**
   * A DEADLINE names the worker that a read waits for, if a server says so in time (spec/consistency.md, P3): asked
   * once, when it has passed.
   */
  async explained(thrown: unknown, subject: ParameterHandle | undefined, wait: WaitOptions): Promise<unknown> {
    if (subject === undefined || !isWeighbridgeError(thrown)) return thrown;
    if (thrown.code !== "DEADLINE") return await this.explainFailure(thrown, wait);
    const { signal } = wait;
    const told = new Deferred<string | undefined>();
    const answered = ({ waits }: { readonly waits: string }): void => {
      if (waits !== "") told.resolve(waits);
    };
    const request = { parameter: subject.parameter, name: subject.name };
    const requests = this.servers.map((server) => ({ to: { server }, request, priority: FIRST_PRIORITY, answered }));
    const nobodyWaits = (): undefined => undefined;
    const all = this.callEach(parameterState, requests, { timeoutMs: EXPLAIN_MS, signal }).then(nobodyWaits, nobodyWaits);
    return explainedDeadline(thrown, await Promise.race([told.promise, all]));
  }

  /**
   * Calls a function where `to` says. Rejects with what the handler threw, with NODE_DEAD, or with DEADLINE or ABORTED
   * (the call then goes on).
   */
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
      if (!isWeighbridgeError(thrown, "UNKNOWN_FUNCTION") || !isMissingThere(thrown.cause)) throw thrown;
      throw missingFailure(thrown, fn, { servers, hasAnswered: (server) => responses[servers.indexOf(server)] !== undefined });
    }
    return responses;
  }

  /**
   * A function of the owners of these keys, each of which is asked for its share: what the share of the keys at some
   * positions is, `shareOf` says.
   */
  async callOwners<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    keys: BigUint64Array,
    shareOf: (positions: readonly number[]) => Pick<FunctionRequest<Q, R>, "request" | "answered">,
    options: FunctionCallSettings & CallWait = {},
  ): Promise<void> {
    checkWait(options);
    const requestsFor = (among?: readonly number[]): AnyRequest[] =>
      this.router.sharesOf(keys, among).map(({ to, positions }) => {
        const cutAgain = (): Recut => ({ requests: requestsFor(positions), release: () => {} });
        return requestOf(fn, { ...options, ...shareOf(positions), to, cutAgain });
      });
    await this.callMixed(requestsFor(), callText(fn, options.subject), options);
  }

  /** Sends these calls together; resolves when all are answered, rejects with the first failure once all ended. */
  async callEach<Q extends Fields, R extends Fields>(
    fn: Contract<Q, R>,
    requests: readonly FunctionRequest<Q, R>[],
    options: CallWait = {},
  ): Promise<void> {
    checkWait(options);
    const any: AnyRequest[] = [];
    for (const request of requests) any.push(requestOf(fn, request));
    await this.callMixed(any, callText(fn, options.subject), options);
  }

  /** The same for requests of several functions; `what` completes "waiting for …". */
  async callMixed(requests: readonly AnyRequest[], what: string, options: CallWait = {}): Promise<void> {
    checkWait(options);
    if (requests.length === 0) return;
    const { subject, ...wait } = options;
    let ended: Promise<void> | undefined;
    try {
      checkNotAborted(what, wait);
      const { left, done } = this.router.send(requests, subject);
      ended = left === undefined ? done : left.then(() => done);
      if (left !== undefined) {
        ended.catch(() => {}); // nobody waits for it where the wait for room ends first
        await this.router.waits.wait(left, "room in the queues to the servers", wait);
      }
      await this.wait(done, what, options);
    } catch (thrown) {
      throw ended !== undefined && requests.some(({ fn }) => tellsOutcome(fn)) ? unheard(thrown, ended) : thrown;
    }
  }
}

/**
 * The same DEADLINE, with what the servers say that the call waits for; undefined when they say that none waits there.
 */
function explainedDeadline(error: WeighbridgeError, waits: string | undefined): WeighbridgeError {
  if (waits === undefined) return error;
  return restated(error, `${error.message}: it waits ${waits}`);
}

/** Of a function that every server was asked for, and not every one has: who does, and who does not. */
function missingFailure(
  error: WeighbridgeError,
  { name }: Contract,
  { servers, hasAnswered }: { readonly servers: readonly number[]; readonly hasAnswered: (server: number) => boolean },
): WeighbridgeError {
  const names = (isKnown: boolean): string =>
    servers
      .filter((server) => hasAnswered(server) === isKnown)
      .map((server) => `server ${server}`)
      .join(", ");
  const known = names(true) === "" ? "" : `, but on ${names(true)}`;
  const message = `no function ${JSON.stringify(name)} on ${names(false)}${known}: start every server with the same --functions${nearestFunction(name, toldBy(error))}`;
  const { outcome, parts } = error;
  return new WeighbridgeError("UNKNOWN_FUNCTION", message, { outcome, parts, cause: error });
}

/** What the server said, without the name that `namedFailure` put before it. */
function toldBy({ message, cause }: WeighbridgeError): string {
  return isWeighbridgeError(cause) ? cause.message : message;
}
