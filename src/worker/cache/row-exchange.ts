// row-exchange — what one operation of a cache sends to the servers and gets back: pushes and syncs, cut by server and
// into frames of about a block; a server's last push and first sync are one call. The operation decides what to send.
//
//   a server's sync     [ rows the cache has, with versions | rows to keep | rows only to read ]
//
// Invariants:
//   RowExchange.X1. All calls leave together, and on each server every push comes before every sync.
//   RowExchange.X2. The result has what was answered before something failed, and the failure.
//   RowExchange.X3. It lists the pushes that must not be made again: those that may have been applied, and those that a
//       server refused for their numbers.
//   RowExchange.X4. It lists the pushes that had left when their server was declared dead: their fate is known later.
//   RowExchange.X5. A sync that is cut again, or whose answer was lost after its push was applied, requests all its
//       rows: versions mean nothing to another server.

import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import { type CachedRowsPush, cachePush, cachePushSync, cacheSync, type FreshRows, type RowsSync } from "../../contracts/cached-rows.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import { type CallFate, mayBeApplied } from "../../peer/call.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";
import type { FunctionClient } from "../function-client.ts";
import type { ParameterHandle } from "../parameter-handle.ts";
import type { AnyRequest, Recut } from "../router/function-request.ts";
import type { RowFrame, RowPlan, RowPlanner } from "../router/row-plan.ts";
import { requestOf } from "../router.ts";

/** Some rows of a list, of one server as the placement of an epoch has it. */
export type ServerRows = { readonly server: number; readonly epoch: number; readonly from: number; readonly to: number };

/** Gradients to push, in the order of the servers. Arrays lie still until the exchange is over. */
export type PushList = {
  readonly parts: readonly ServerRows[];
  readonly keys: BigUint64Array;
  readonly gradients: Float32Array;
  /** How many updates each sums up; empty for one each. */
  readonly updates: Uint32Array;
};

/** A server's part of a question: the rows up to `keptFrom` are there, those up to `plainFrom` are to be kept. */
export type SyncPart = ServerRows & { readonly keptFrom: number; readonly plainFrom: number };

export type SyncList = {
  readonly parts: readonly SyncPart[];
  readonly keys: BigUint64Array;
  /** For each key; only those of rows that are there count. */
  readonly versions: Uint32Array;
};

export type SyncAnswer = {
  readonly wanted: SyncPart;
  readonly fresh: FreshRows;
  /** It came from the server that was asked first, and so did its versions (RowExchange.X5). */
  readonly isWhole: boolean;
};
export type Acknowledged = { readonly pushed: ServerRows; readonly rate: number };
export type Unsure = { readonly pushed: ServerRows; readonly fate: CallFate };
export type Exchanged = {
  readonly acknowledged: readonly Acknowledged[];
  /** RowExchange.X3 */
  readonly lost: readonly ServerRows[];
  /** RowExchange.X4 */
  readonly unsure: readonly Unsure[];
  readonly answers: readonly SyncAnswer[];
  readonly failure: unknown;
};

export type ExchangeOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly handle: ParameterHandle;
  readonly width: number;
  readonly pullBound: number;
};

export type ExchangeCall = { readonly clock: number; readonly priority?: number | undefined };

const NOTHING_TO_PUSH: PushList = {
  parts: [],
  keys: new BigUint64Array(0),
  gradients: new Float32Array(0),
  updates: new Uint32Array(0),
};
const NOTHING_TO_SYNC: SyncList = { parts: [], keys: new BigUint64Array(0), versions: new Uint32Array(0) };

export class RowExchange {
  readonly #options: ExchangeOptions;
  /** By rank, the generation of the versions we have of each server; none before its first answer. */
  readonly #generations: number[] = [];

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** The generation that a server's versions have to be of. */
  generationOf(server: number): number {
    return this.#generations[server] ?? 0;
  }

  /** Takes note of the generations of the answers; returns whether one of them ends another that we had versions of. */
  noteGenerations(answers: readonly SyncAnswer[]): boolean {
    let isNew = false;
    for (const { wanted, fresh, isWhole } of answers) {
      if (!isWhole) continue;
      const known = this.generationOf(wanted.server);
      if (known !== 0 && known !== fresh.generation) isNew = true;
      this.#generations[wanted.server] = fresh.generation;
    }
    return isNew;
  }

  /** Never rejects: what failed is in the result (RowExchange.X2). */
  async run(push: PushList = NOTHING_TO_PUSH, sync: SyncList = NOTHING_TO_SYNC, call: ExchangeCall): Promise<Exchanged> {
    const { functions, handle: subject } = this.#options;
    const pushNumber = push.parts.length === 0 ? 0 : subject.numberPush(call.clock);
    const calls = new Calls(this.#options, this.#generations, { push, sync, pushNumber, ...call });
    const requests = functions.servers.flatMap((server) => calls.requestsTo(server));
    const { acknowledged, lost, unsure, answers } = calls;
    const failure = await functions.callMixed(requests, `the cache of ${JSON.stringify(subject.name)}`, { subject }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    return { acknowledged, lost, unsure, answers, failure };
  }

  /** Asks a server for nothing: afterwards what left for it before has its fate. Rejects when it cannot be asked. */
  async probe(server: number, clock: number): Promise<void> {
    const nothing = { keptCount: 0, keys: NOTHING_TO_SYNC.keys, versions: NOTHING_TO_SYNC.versions };
    const { functions, handle: subject, pullBound: bound } = this.#options;
    const request = { parameter: subject.parameter, clock, generation: this.generationOf(server), bound, ...nothing };
    await functions.call(cacheSync, { server }, request, { subject });
  }
}

type Given = ExchangeCall & { readonly push: PushList; readonly sync: SyncList; readonly pushNumber: number };
/** What takes the place of a request, but for its memory. */
type Again = Omit<Recut, "release">;

/** The calls of one exchange. */
class Calls {
  readonly acknowledged: Acknowledged[] = [];
  readonly lost: ServerRows[] = [];
  readonly unsure: Unsure[] = [];
  readonly answers: SyncAnswer[] = [];
  readonly #options: ExchangeOptions;
  readonly #generations: readonly number[];
  readonly #given: Given;
  readonly #rowsPerFrame: number;

  constructor(options: ExchangeOptions, generations: readonly number[], given: Given) {
    this.#options = options;
    this.#generations = generations;
    this.#given = given;
    this.#rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + options.width * FLOAT_BYTES)));
  }

  /** RowExchange.X1. The last push to a server and the first question to it are one call. */
  requestsTo(server: number): AnyRequest[] {
    const { push, sync } = this.#given;
    const isOwn = (part: ServerRows): boolean => part.server === server;
    const pushes = push.parts.filter(isOwn).flatMap((part) => cutSpan(part, this.#rowsPerFrame));
    const syncs = sync.parts.filter(isOwn).flatMap((part) => cutSync(part, this.#rowsPerFrame));
    const both = syncs[0] === undefined ? undefined : pushes.pop();
    return [
      ...pushes.map((pushed) => this.#pushRequest(pushed)),
      ...syncs.map((wanted, i) => (i === 0 && both !== undefined ? this.#bothRequest(both, wanted) : this.#syncRequest(wanted))),
    ];
  }

  #pushRequest(pushed: ServerRows): AnyRequest {
    const request = this.#pushFields(pushed);
    return requestOf(cachePush, {
      ...this.#to(pushed),
      request,
      answered: ({ rate }) => this.#acknowledge(pushed, rate),
      failed: (error, fate) => this.#noteFailed(pushed, error, fate),
      cutAgain: () => this.#options.planner.again(request.pushKeys, (plan) => this.#pushedAgain(plan, pushed, request)),
    });
  }

  #syncRequest(wanted: SyncPart): AnyRequest {
    const request = { parameter: this.#options.handle.parameter, ...this.#syncFields(wanted) };
    return requestOf(cacheSync, {
      ...this.#to(wanted),
      request,
      answered: (fresh) => this.answers.push({ wanted, fresh, isWhole: true }),
      cutAgain: () => this.#options.planner.again(request.keys, (plan) => this.#syncAgain(plan, wanted)),
    });
  }

  #bothRequest(pushed: ServerRows, wanted: SyncPart): AnyRequest {
    const { planner } = this.#options;
    const push = this.#pushFields(pushed);
    const sync = this.#syncFields(wanted);
    return requestOf(cachePushSync, {
      ...this.#to(pushed),
      request: { ...push, ...sync },
      answered: (fresh) => {
        this.#acknowledge(pushed, fresh.rate);
        this.answers.push({ wanted, fresh, isWhole: true });
      },
      failed: (error, fate) => this.#noteFailed(pushed, error, fate),
      cutAgain: () =>
        planner.again(push.pushKeys, (plan, other) => joined(this.#pushedAgain(plan, pushed, push), this.#syncAgain(other, wanted)), {
          others: sync.keys,
        }),
      answerLost: () => planner.again(sync.keys, (plan) => this.#syncAgain(plan, wanted, (rate) => this.#acknowledge(pushed, rate))),
    });
  }

  #pushedAgain(plan: RowPlan, pushed: ServerRows, fields: CachedRowsPush): Again {
    return this.#pushAgain(plan, fields, (rate) => this.#acknowledge(pushed, rate));
  }

  /** The same gradients, as another placement has their rows. */
  #pushAgain(plan: RowPlan, fields: CachedRowsPush, acknowledged: (rate: number) => void): Again {
    const { width, planner } = this.#options;
    const rows = plan.gradients(fields.gradients, width);
    const counts = fields.updates.length === 0 ? fields.updates : plan.words(fields.updates);
    return this.#again(plan, acknowledged, (frame, note) => {
      const { keys, from, to } = frame;
      const updates = counts.length === 0 ? counts : counts.subarray(from, to);
      const request = { ...fields, pushKeys: keys, gradients: rows.subarray(from * width, to * width), updates };
      return requestOf(cachePush, {
        ...this.#to(frame),
        request,
        answered: ({ rate }) => note(rate),
        cutAgain: () => planner.again(keys, (next) => this.#pushAgain(next, request, note)),
      });
    });
  }

  /** RowExchange.X5: an answer in which every row that the cache has is too far behind. */
  #syncAgain(plan: RowPlan, wanted: SyncPart, acknowledged?: (rate: number) => void): Again {
    const rows = new Float32Array((wanted.to - wanted.from) * this.#options.width);
    return this.#rowsAgain(plan, rows, (rate) => {
      const indexes = Uint32Array.from({ length: wanted.keptFrom - wanted.from }, (_, i) => i);
      const versions = new Uint32Array(wanted.plainFrom - wanted.from).fill(VERSION_NONE);
      this.answers.push({ wanted, fresh: { generation: 0, rate, indexes, versions, rows }, isWhole: false });
      acknowledged?.(rate);
    });
  }

  /** Fills `into` with the rows of the plan. */
  #rowsAgain(plan: RowPlan, into: Float32Array, filled: (rate: number) => void): Again {
    const { width, pullBound: bound, planner } = this.#options;
    const landed = plan.landing(into, width);
    const ended = (rate: number): void => {
      plan.deliver(landed, into, width);
      filled(rate);
    };
    return this.#again(plan, ended, (frame, note) => {
      const { keys, from, to } = frame;
      const own = landed.subarray(from * width, to * width);
      return requestOf(cacheSync, {
        ...this.#to(frame),
        request: { ...this.#common, generation: 0, bound, keptCount: 0, keys, versions: new Uint32Array(0) },
        answered: (fresh) => {
          note(fresh.rate);
          own.set(fresh.rows);
        },
        cutAgain: () => planner.again(keys, (next) => this.#rowsAgain(next, own, note)),
      });
    });
  }

  /** A request for each frame of a plan, which notes the rate of its answer; `ended` gets the last of them. */
  #again(plan: RowPlan, ended: (rate: number) => void, requestFor: (frame: RowFrame, note: (rate: number) => void) => AnyRequest): Again {
    let last = 0;
    const note = (rate: number): void => {
      last = rate;
    };
    return { requests: plan.frames(plan.rowCount).map((frame) => requestFor(frame, note)), answered: () => ended(last) };
  }

  get #common(): { readonly parameter: number; readonly clock: number } {
    return { parameter: this.#options.handle.parameter, clock: this.#given.clock };
  }

  #to(to: ServerRows): { readonly to: ServerRows; readonly priority: number | undefined; readonly scope: number } {
    return { to, priority: this.#given.priority, scope: this.#options.handle.parameter };
  }

  #acknowledge(pushed: ServerRows, rate: number): void {
    this.acknowledged.push({ pushed, rate });
  }

  /** RowExchange.X3, RowExchange.X4 */
  #noteFailed(pushed: ServerRows, error: WeighbridgeError, fate: CallFate | undefined): void {
    if (mayBeApplied(error) || error.code === "NOT_FINITE" || error.code === "ANSWER_LOST") this.lost.push(pushed);
    else if (fate !== undefined) this.unsure.push({ pushed, fate });
  }

  #pushFields({ from, to }: ServerRows): CachedRowsPush {
    const { push, pushNumber } = this.#given;
    const { width } = this.#options;
    return {
      ...this.#common,
      pushNumber,
      scale: 1,
      pushKeys: push.keys.subarray(from, to),
      gradients: push.gradients.subarray(from * width, to * width),
      updates: push.updates.length === 0 ? push.updates : push.updates.subarray(from, to),
    };
  }

  #syncFields({ server, from, to, keptFrom, plainFrom }: SyncPart): RowsSync {
    const { keys, versions } = this.#given.sync;
    return {
      clock: this.#given.clock,
      generation: this.#generations[server] ?? 0,
      bound: this.#options.pullBound,
      keptCount: plainFrom - keptFrom,
      keys: keys.subarray(from, to),
      versions: versions.subarray(from, keptFrom),
    };
  }
}

function joined(one: Again, other: Again): Again {
  const answered = (): void => {
    one.answered?.();
    other.answered?.();
  };
  return { requests: [...one.requests, ...other.requests], answered };
}

/** Throws BAD_REQUEST for an answer that does not fit its question. */
export function checkAnswer({ wanted, fresh }: SyncAnswer, width: number): void {
  const { indexes, versions, rows } = fresh;
  const knownCount = wanted.keptFrom - wanted.from;
  const isFitting =
    versions.length === indexes.length + wanted.plainFrom - wanted.keptFrom &&
    rows.length === (indexes.length + wanted.to - wanted.keptFrom) * width &&
    indexes.every((index, i) => index < knownCount && (i === 0 || index > (indexes[i - 1] as number)));
  if (isFitting) return;
  const what = `${indexes.length} stale rows, ${versions.length} versions and ${rows.length} floats`;
  throw badRequest(`server ${wanted.server} answered ${knownCount} of ${wanted.to - wanted.from} known rows with ${what}`);
}

function cutSpan({ from, to, ...where }: ServerRows, rowsPerFrame: number): ServerRows[] {
  const spans: ServerRows[] = [];
  for (let at = from; at < to; at += rowsPerFrame) spans.push({ ...where, from: at, to: Math.min(to, at + rowsPerFrame) });
  return spans;
}

function cutSync({ keptFrom, plainFrom, ...whole }: SyncPart, rowsPerFrame: number): SyncPart[] {
  return cutSpan(whole, rowsPerFrame).map((span) => ({
    ...span,
    keptFrom: Math.min(Math.max(keptFrom, span.from), span.to),
    plainFrom: Math.min(Math.max(plainFrom, span.from), span.to),
  }));
}
