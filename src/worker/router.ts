// router — sends the requests of a worker. It alone knows the placement: callers name what a request is about (raw
// keys, rows of a plan, a block, a key, one server); the router finds the server, keeps a channel to it as the roster
// says, and sends. It cuts again what a server refuses because the placement has changed. Requests that cannot leave at
// once wait in router/request-queue.ts; router/function-recut.ts and router/kv-recut.ts cut again.
//
//   request ─► cut by the placement of epoch e ─► calls ─► answered
//                         ▲                          └───► WRONG_EPOCH, nothing done, with a placement of epoch > e
//                         └── cut again, once all updates of older epochs are answered or refused ◄──┘
//
// Invariants:
//   Router.R1. A request leaves for every server that it concerns or for none: room is checked first.
//   Router.R2. Calls to a server fail, naming it, as soon as the roster says that it is dead.
//   Router.R3. A refused call has changed nothing. Its content is cut by a placement of a higher epoch and gets new
//       stamps: it counts once, and ends after as many refusals as there are placements.
//   Router.R4. Once a newer placement is known, nothing new leaves until every update cut by an older one is answered
//       or refused. Then refused requests leave in their first order, and what waited follows. So updates of a
//       parameter keep their order, a read follows this worker's updates, and a clock message those of its clock.
//   Router.R5. Requests that the application cut itself, or that name one server, are never cut again.
//   Router.R6. A kv request leaves only for incarnations that its KVWorker knows: the first one to a restarted server
//       fails with NODE_DEAD, nothing sent.
//   Router.R7. From PREPARE until its placement is adopted no clock message leaves, and each that had left is answered
//       (router/clock-messages.ts): no server has closed a clock of which an update may still be refused.
//   Router.R8. A refusal may bring a placement before the roster that names its servers. Nothing leaves until that
//       roster has come, or for `startTimeoutMs`: then calls to a server without a name fail with NODE_DEAD.
//   Router.R9. What is open at a server that has left, and is not in the placement, was refused, but for updates that
//       had departed: those fail, since they may have been applied, once. A server that leaves in order leaves none
//       (Retirement.R1).

import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, showValue, type UpdateOutcome, type WeighbridgeError, withOutcome } from "../base/errors.ts";
import type { OpenWaits } from "../base/open-waits.ts";
import type { Membership } from "../cluster/membership.ts";
import type { Contract } from "../contracts/contract.ts";
import { Placements } from "../keys/placement-of.ts";
import type { Call, CallFate } from "../peer/call.ts";
import { outcomeOfCall } from "../peer/call-outcome.ts";
import { type FunctionCallOptions, functionCalls } from "../peer/function-call.ts";
import { notSent } from "../peer/unheard-update.ts";
import { placementOfError } from "../wire/failure.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { PlacementView } from "../wire/roster.ts";
import { namedFailure } from "./call-failures.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import { type Piece, updateFailure } from "./part-outcome.ts";
import { ClockMessages } from "./router/clock-messages.ts";
import type { AnyRequest, FunctionLoad, FunctionRequest, Recut } from "./router/function-request.ts";
import type { KvRoutes } from "./router/kv-routes.ts";
import { RequestQueue } from "./router/request-queue.ts";
import { BlockRoute, type DirectoryOptions, ServerDirectory } from "./router/server-directory.ts";

/** A request of a function, as a router takes it. */
export function requestOf<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, options: FunctionRequest<Q, R>): AnyRequest {
  return { fn: fn as unknown as Contract, options: options as unknown as FunctionRequest<Fields, Fields> };
}

/** Who hears how a request ended. */
export type RequestOwner = {
  /** It has its answer, or has failed for good. */
  ended(error?: WeighbridgeError, fate?: CallFate): void;
  /** Its answer came from an incarnation that its handle does not know, and was not taken (ParameterHandle.L2). */
  crossed(request: AnyRequest): void;
};

export type RouterOptions = DirectoryOptions & {
  readonly waits: OpenWaits;
  readonly membership: Pick<Membership, "onPlacement" | "adoptPlacement">;
};

/** The numbers of calls begin again after so many. */
const NUMBERS = 2 ** 32;

export class Router extends ServerDirectory {
  /** Requests of the kv face; undefined where nobody makes any (`kvRoutesOf`). */
  kv: KvRoutes | undefined;
  /** Hears of every call of a function that failed, before its caller does. */
  onFailure: (error: WeighbridgeError) => void = () => {};
  /** Payload bytes by the function's name; undefined while nobody records. */
  loads: Map<string, FunctionLoad> | undefined;
  // Plain fields, because every request looks at them or counts there: this file and kv-routes.ts change them.
  /** Of callers for their requests: what they wait for outlives a server that another process goes on for. */
  readonly waits: OpenWaits;
  /** How many requests were sent; the order of what is cut again. */
  order = 0;
  /** Updates that are neither answered nor refused. */
  openUpdates = 0;
  /** Settles when what was refused has left again; undefined while nothing is held back (Router.R4). */
  held: Deferred<void> | undefined;
  /** Router.R7 */
  readonly clockMessages: ClockMessages;
  readonly #membership: RouterOptions["membership"];
  readonly #placements = new Placements();
  #isSendingAgain = false;
  #refused: RoutedRequest[] = [];
  /** Requests of functions that cannot leave yet. */
  readonly #queue: RequestQueue = new RequestQueue(this);
  /** Of the last call of a function. */
  #number = 0;
  /** Frames to each server, while their room is looked at. */
  readonly #frameCounts: number[] = [];

  constructor(options: RouterOptions) {
    super(options);
    this.#membership = options.membership;
    this.waits = options.waits;
    this.clockMessages = new ClockMessages(this, options.clock);
    options.membership.onPlacement((placement) => this.adopt(placement));
  }

  /** A placement was published, or came with a refusal. An older one changes nothing. */
  override adopt(published: PlacementView): void {
    if (published.epoch <= this.epoch) return;
    const before = this.servers;
    this.place(this.#placements.of(published));
    if (this.#mustHold) this.held ??= new Deferred();
    else this.sendAgainSoon(); // what waited for a server that the placement before had
    this.clockMessages.adopted(published.epoch);
    if (before.length > 0) for (const rank of this.servers) if (!before.includes(rank)) this.serverCame(rank);
  }

  /** Whether what was cut by the placement may not leave yet (Router.R4, Router.R8). */
  get #mustHold(): boolean {
    return this.openUpdates > 0 || this.isIncomplete;
  }

  protected override completed(): void {
    this.sendAgainSoon();
  }

  // Requests of functions.

  /**
   * Sends these requests, together. Resolves when every one has its answer, rejects with the first failure once all
   * ended. `subject` is the parameter that they are about: incarnations of servers that its handle does not know are
   * asked first (parameter-handle.ts). With `pushClock` they are a push of that clock, which gets the next number
   * (PushNumbers.N1). Throws BAD_ARGUMENT, nothing sent.
   */
  call(requests: readonly AnyRequest[], subject?: ParameterHandle, pushClock?: number): Promise<void> {
    if (subject !== undefined && pushClock !== undefined) subject.pushes.next(subject.parameter, pushClock);
    const group = this.send(requests, subject);
    return group.left === undefined ? group.done : group.left.then(() => group.done);
  }

  /** The same request to every server; nobody looks at the answers. */
  async tellAll<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, request: FieldValues<Q>, priority: number): Promise<void> {
    const requests: AnyRequest[] = [];
    for (const server of this.servers) requests.push(requestOf(fn, { to: { server }, request, priority }));
    await this.call(requests);
  }

  /** As `call`, for those who wait otherwise. */
  send(requests: readonly AnyRequest[], subject?: ParameterHandle): RequestGroup {
    const group = new RequestGroup(this, requests, subject);
    if (this.#mayLeave(group.requests) && this.trySend(group.requests)) return group;
    group.done.catch(() => {}); // nobody waits for it where sending fails
    group.left = this.#queue.add(group.requests);
    return group;
  }

  /** Requests that are not sent yet. */
  groupOf<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, options: readonly FunctionRequest<Q, R>[]): RequestGroup {
    return new RequestGroup(
      this,
      options.map((each) => requestOf(fn, each)),
      undefined,
    );
  }

  routed(request: AnyRequest, subject: ParameterHandle | undefined, owner: RequestOwner): RoutedRequest {
    return new RoutedRequest(this, request, subject, owner);
  }

  /** Whether what was cut by the placement of this epoch may leave as it is. */
  isCurrent(epoch: number): boolean {
    return epoch === 0 || epoch === this.epoch;
  }

  /** Of a call. */
  nextNumber(): number {
    this.#number = (this.#number + 1) % NUMBERS;
    return this.#number;
  }

  /** Whether requests wait here that have not left. */
  get hasWaiting(): boolean {
    return this.#queue.last !== undefined || this.#refused.length > 0;
  }

  /** Whether a handle does not know the incarnation of a server that calls go to now (ParameterHandle.L1). */
  isUnknownIncarnation(subject: ParameterHandle | undefined, rank: number): boolean {
    return subject !== undefined && subject.incarnations[rank] !== (this.channels[rank]?.since ?? 0);
  }

  #mayLeave(requests: readonly RoutedRequest[]): boolean {
    if (this.#queue.last !== undefined || this.held !== undefined) return false;
    for (let i = 0; i < requests.length; i++) {
      const { epoch, subject, server, fn } = requests[i] as RoutedRequest;
      if (!this.isCurrent(epoch) || this.isUnknownIncarnation(subject, server)) return false;
      if (fn.followsUpdates && this.clockMessages.hold !== undefined) return false;
    }
    return true;
  }

  /** Settles once these need not wait for a placement (Router.R4, Router.R7); undefined if they need not wait. */
  releaseOf(requests: readonly RoutedRequest[]): Promise<void> | undefined {
    if (this.held !== undefined) return this.held.promise;
    const { hold } = this.clockMessages;
    return hold !== undefined && requests.some(({ fn }) => fn.followsUpdates) ? hold.released : undefined;
  }

  /** All of them or, when a server has no room, none (Router.R1). */
  trySend(requests: readonly RoutedRequest[], isForced = false): boolean {
    if (!isForced && !this.#hasRoom(requests)) return false;
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i] as RoutedRequest;
      const { fn, server, calls } = request;
      if (request.order === 0) {
        request.order = ++this.order;
        if (fn.followsUpdates) this.clockMessages.openCount++;
      }
      if (request.isCounted) this.openUpdates++;
      const channel = this.reachable[server];
      if (channel === undefined) this.failSoon(server, calls);
      else for (let frame = 0; frame < calls.length; frame++) channel.send(calls[frame] as Call, true);
    }
    return true;
  }

  #hasRoom(requests: readonly RoutedRequest[]): boolean {
    const counts = this.#frameCounts.fill(0);
    for (let i = 0; i < requests.length; i++) {
      const { server, calls } = requests[i] as RoutedRequest;
      counts[server] = (counts[server] ?? 0) + calls.length;
    }
    for (let rank = 0; rank < counts.length; rank++) {
      const count = counts[rank] ?? 0;
      if (count > 0 && this.channels[rank]?.admits(count) === false) return false;
    }
    return true;
  }

  /** An update was answered, or failed for good. */
  updateEnded(): void {
    this.openUpdates--;
    if (this.held !== undefined) this.sendAgainSoon();
  }

  /** A request failed. True: it is sent again by a newer placement (Router.R3). An update counts as ended. */
  refused(request: RoutedRequest, error: WeighbridgeError): boolean {
    if (!this.isCutAgain(request.epoch, error)) return false;
    this.#refused.push(request);
    if (request.isCounted) this.openUpdates--;
    this.sendAgainSoon();
    return true;
  }

  /** It was applied, and its answer is not known: what asks for the answer takes its place. */
  askAnew(request: RoutedRequest, answerLost: () => Recut): void {
    if (request.isCounted) this.updateEnded();
    this.#queue.askAnew(request, answerLost);
  }

  /** Whether requests wait because the placement has changed (Router.R4). */
  get isHeld(): boolean {
    return this.held !== undefined;
  }

  /** Resolves once half of the queue to every server is free: the next request is taken then, however large. */
  async room(wait: WaitOptions = {}): Promise<void> {
    await this.held?.promise;
    const waits = this.channels
      .filter((channel) => channel !== undefined)
      .map((channel) => new Promise<void>((ready) => channel.whenRoom(ready)));
    await waitFor(Promise.all(waits), "room in the queues to the servers", this.clock, wait);
  }

  // Cutting again.

  /** Router.R3, Router.R5 */
  isCutAgain(epoch: number, error: WeighbridgeError): boolean {
    if (epoch === 0 || error.code !== "WRONG_EPOCH") return false;
    const placement = placementOfError(error);
    if (placement !== undefined) this.#membership.adoptPlacement(placement); // a restarted scheduler learns of it, too
    return epoch < this.epoch;
  }

  /** Once every update of an older epoch was answered or refused, and all servers are known (Router.R4, Router.R8). */
  sendAgainSoon(): void {
    const isNeeded = this.held !== undefined || this.#refused.length > 0 || this.kv?.hasRefused === true;
    if (!isNeeded || this.#isSendingAgain || (this.held !== undefined && this.#mustHold)) return;
    this.#isSendingAgain = true;
    this.held ??= new Deferred();
    this.clock.soon(() => void this.#sendAgain());
  }

  /** Never rejects: what cannot be sent again fails by itself. */
  async #sendAgain(): Promise<void> {
    const { epoch } = this;
    this.kv?.sendAgain();
    this.#refused.sort((a, b) => a.order - b.order);
    while (this.epoch === epoch && this.#refused.length > 0) {
      const refused = this.#refused.shift() as RoutedRequest;
      const leaving = this.#queue.sendAgain(refused);
      if (leaving !== undefined) await leaving;
    }
    this.#isSendingAgain = false;
    if (this.epoch !== epoch && this.#mustHold) return; // a still newer one: once this is refused as well
    if (this.#refused.length > 0 || this.kv?.hasRefused === true) {
      this.sendAgainSoon();
      return;
    }
    const held = this.held;
    this.held = undefined;
    this.kv?.sendWaiting();
    held?.resolve();
  }
}

/** Requests that leave together. */
export class RequestGroup implements RequestOwner {
  readonly requests: RoutedRequest[] = [];
  /** Resolves when all have their answers, rejects with the first failure once all ended. */
  readonly done: Promise<void>;
  /** Settles when they have left; undefined when they had left at once. */
  left: Promise<void> | undefined;
  readonly #router: Router;
  readonly #subject: ParameterHandle | undefined;
  readonly #resolve: (value: void | Promise<void>) => void;
  readonly #reject: (error: WeighbridgeError) => void;
  #open: number;
  #failure: WeighbridgeError | undefined;
  #crossed: AnyRequest[] | undefined;

  /** Throws BAD_ARGUMENT. */
  constructor(router: Router, requests: readonly AnyRequest[], subject: ParameterHandle | undefined) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.done = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#router = router;
    this.#subject = subject;
    this.#open = requests.length;
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i] as AnyRequest;
      this.requests.push(new RoutedRequest(router, request, request.options.subject ?? subject, this));
    }
    if (requests.length === 0) resolve();
  }

  ended(error?: WeighbridgeError): void {
    this.#failure ??= error;
    if (--this.#open > 0) return;
    if (this.#failure !== undefined) this.#reject(updateFailure(this.#failure, this.requests));
    else if (this.#crossed === undefined) this.#resolve();
    else this.#resolve(this.#callAgain(this.#crossed));
  }

  crossed(request: AnyRequest): void {
    this.#crossed ??= [];
    this.#crossed.push(request);
  }

  /** Once for each incarnation of a server. An update among the requests of the group counts already. */
  async #callAgain(crossed: readonly AnyRequest[]): Promise<void> {
    try {
      await this.#router.call(crossed, this.#subject);
    } catch (thrown) {
      throw isWeighbridgeError(thrown) ? updateFailure(thrown, this.requests) : thrown;
    }
  }
}

/** A request of a function on its way: its call, as the placement of an epoch has it. */
export class RoutedRequest implements FunctionCallOptions<Fields, Fields>, Piece {
  readonly router: Router;
  readonly fn: Contract;
  readonly options: FunctionRequest<Fields, Fields>;
  readonly subject: ParameterHandle | undefined;
  readonly owner: RequestOwner;
  /** Its place among all requests that have left; 0 before. */
  order = 0;
  /** Where it goes by the placement of `epoch`; epoch 0: it does not depend on one. */
  server = 0;
  epoch = 0;
  calls: readonly Call[] = [];
  /** Of an update, when it has ended. */
  outcome: UpdateOutcome | undefined;
  /** What was sent in its place, cut by another placement. */
  replacedBy: readonly RoutedRequest[] | undefined;
  // What its call is made of.
  readonly request: FieldValues<Fields>;
  readonly priority: number;
  readonly scope: number;
  readonly into: Uint8Array | undefined;
  readonly answered: ((response: FieldValues<Fields>) => void) | undefined;
  number = 0;

  /** Throws BAD_ARGUMENT. */
  constructor(router: Router, { fn, options }: AnyRequest, subject: ParameterHandle | undefined, owner: RequestOwner) {
    const { request, priority = 0, scope = 0, into, answered } = options;
    if (!Number.isFinite(priority)) throw badArgument(`a priority is a number, not ${showValue(priority)}`);
    this.router = router;
    this.fn = fn;
    this.options = options;
    this.subject = subject;
    this.owner = owner;
    this.request = request;
    this.priority = priority;
    this.scope = scope;
    this.into = into === undefined ? undefined : new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    this.answered =
      answered === undefined ? undefined : (response) => this.router.isUnknownIncarnation(subject, this.server) || answered(response);
    this.cut();
  }

  /** Makes its calls, as the placement is now. Throws BAD_ARGUMENT. */
  cut(): void {
    const { router, fn, options } = this;
    const { to } = options;
    if (to instanceof BlockRoute) {
      this.server = to.epoch === router.epoch ? to.owner : router.serverOf(to);
      this.epoch = router.epoch;
    } else if ("server" in to) {
      this.server = to.server;
      if ("epoch" in to) this.epoch = to.epoch;
      else this.epoch = fn.isPlaced ? router.epoch : 0; // one that names its server and follows no placement has none
    } else {
      this.server = router.serverOf(to);
      this.epoch = router.epoch;
    }
    this.number = router.nextNumber();
    this.calls = functionCalls(this);
    options.made?.(this.calls.at(-1) as Call);
    if (router.loads !== undefined) for (const { byteCount } of this.calls) this.#count(byteCount, 0);
  }

  /**
   * Whether it is an update that others wait for while the placement changes (Router.R4). What is not about parts is
   * none: it may wait for other workers.
   */
  get isCounted(): boolean {
    return this.fn.isUpdate && this.fn.isPlaced && this.epoch > 0;
  }

  /** Its call has its answer. */
  ended(byteCount: number): void {
    const { router } = this;
    if (router.loads !== undefined) this.#count(0, byteCount);
    if (router.isUnknownIncarnation(this.subject, this.server)) this.owner.crossed(this);
    if (this.isCounted) router.updateEnded();
    this.end();
  }

  failed(error: WeighbridgeError, fate?: CallFate): void {
    const { router, fn, options } = this;
    if (this.epoch > 0 && router.refused(this, error)) return;
    if (error.code === "ANSWER_LOST" && options.answerLost !== undefined) {
      router.askAnew(this, options.answerLost);
      return;
    }
    if (error.code === "UNKNOWN_KEY_LIST" && options.keysUnknown !== undefined) {
      if (this.isCounted) router.updateEnded();
      router.call([options.keysUnknown()], this.subject).then(
        () => this.end(),
        (thrown: unknown) => this.end(notSent(thrown) as WeighbridgeError),
      );
      return;
    }
    router.onFailure(error);
    const told = fn.isUpdate ? withOutcome(error, outcomeOfCall(fn, error, this.calls)) : error;
    options.failed?.(told, fate);
    if (this.isCounted) router.updateEnded();
    this.end(namedFailure(told, fn, this.subject), fate);
  }

  /** It has its answer, or has failed for good. */
  end(error?: WeighbridgeError, fate?: CallFate): void {
    if (this.fn.followsUpdates && this.order > 0) {
      const { clockMessages } = this.router;
      clockMessages.openCount--;
      if (error === undefined && clockMessages.hold === undefined) clockMessages.unheard[this.server] = undefined;
      else clockMessages.ended(this.server, error);
    }
    if (this.fn.isUpdate) this.outcome = error === undefined ? "applied" : outcomeOfCall(this.fn, error, this.calls);
    this.owner.ended(error, fate);
  }

  #count(sentBytes: number, receivedBytes: number): void {
    const { loads } = this.router;
    const { countedAs = this.fn.name } = this.options;
    const load = loads?.get(countedAs) ?? { sentBytes: 0, receivedBytes: 0 };
    load.sentBytes += sentBytes;
    load.receivedBytes += receivedBytes;
    loads?.set(countedAs, load);
  }
}
