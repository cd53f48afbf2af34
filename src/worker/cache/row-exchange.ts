// row-exchange — what one operation of a cache sends to the servers and what comes back: pushes and questions cut by server and into frames
// of about a block, the last push of a server and its first question in one call. Not the decision what to push or to ask.
//
//   server's part of a question     [ rows the cache has, with versions | rows to keep | rows only to read ]     (contracts/cached-rows.ts)
//
// Invariants:
//   X1. All calls leave together, and on each server every push comes before every question.
//   X2. What came back before something failed is told together with the failure: a push that was acknowledged counts as such.
//   X3. So are the pushes that must not be made again: those that failed and may have been applied, and those that a server refused for their
//       numbers, which it would refuse each time.
//   X4. And those that had left when their server was taken for dead: whether they are to be made again is known when it is heard of again.

import { WeighbridgeError } from "../../base/errors.ts";
import { cachePush, cachePushSync, cacheSync, type FreshRows } from "../../contracts/cached-rows.ts";
import type { CallFate } from "../../peer/call.ts";
import { mayBeApplied } from "../../peer/gone-error.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";
import type { FunctionClient } from "../function-client.ts";
import type { HeldParameter } from "../held-parameter.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

/** Some rows of a list, of one server. */
export type Span = { readonly server: number; readonly from: number; readonly to: number };

/** Gradients to push, in the order of the servers. Arrays lie still until the exchange is over. */
export type PushList = {
  readonly parts: readonly Span[];
  readonly keys: BigUint64Array;
  readonly gradients: Float32Array;
  /** How many updates each sums up; empty for one each. */
  readonly updates: Uint32Array;
};

/** A server's part of a question: the rows up to `keptFrom` are there, those up to `plainFrom` are to be kept. */
export type AskPart = Span & { readonly keptFrom: number; readonly plainFrom: number };

export type AskList = {
  readonly parts: readonly AskPart[];
  readonly keys: BigUint64Array;
  /** For each key; only those of rows that are there count. */
  readonly versions: Uint32Array;
};

export type Answer = { readonly asked: AskPart; readonly fresh: FreshRows };
export type Acknowledged = { readonly pushed: Span; readonly rate: number };
export type Unsure = { readonly pushed: Span; readonly fate: CallFate };
export type Exchanged = {
  readonly acknowledged: readonly Acknowledged[];
  /** X3 */
  readonly lost: readonly Span[];
  /** X4 */
  readonly unsure: readonly Unsure[];
  readonly answers: readonly Answer[];
  readonly failure: unknown;
};

export type ExchangeOptions = {
  readonly functions: FunctionClient;
  readonly held: HeldParameter;
  readonly width: number;
  readonly pullBound: number;
};

export type ExchangeCall = { readonly clock: number; readonly priority?: number | undefined };

type Frames = { readonly pushes: readonly Span[]; readonly asks: readonly AskPart[] };

const NOTHING_TO_PUSH: PushList = {
  parts: [],
  keys: new BigUint64Array(0),
  gradients: new Float32Array(0),
  updates: new Uint32Array(0),
};
const NOTHING_TO_ASK: AskList = { parts: [], keys: new BigUint64Array(0), versions: new Uint32Array(0) };

export class RowExchange {
  readonly #options: ExchangeOptions;
  /** The generation of the versions we have of each server; 0 before the first answer. */
  readonly #generations: Uint32Array;
  readonly #rowsPerFrame: number;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#generations = new Uint32Array(options.functions.serverCount);
    this.#rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + options.width * FLOAT_BYTES)));
  }

  /** The generation that a server's versions have to be of. */
  generationOf(server: number): number {
    return this.#generations[server] as number;
  }

  /** Takes note of the generations of the answers; returns whether one of them ends another that we had versions of. */
  noteGenerations(answers: readonly Answer[]): boolean {
    let isNew = false;
    for (const { asked, fresh } of answers) {
      const known = this.#generations[asked.server] as number;
      if (known !== 0 && known !== fresh.generation) isNew = true;
      this.#generations[asked.server] = fresh.generation;
    }
    return isNew;
  }

  /** Never rejects: what failed is in the result (X2). */
  async run(push: PushList | undefined, ask: AskList | undefined, call: ExchangeCall): Promise<Exchanged> {
    const calls = new Calls(this.#options, this.#generations, { push: push ?? NOTHING_TO_PUSH, ask: ask ?? NOTHING_TO_ASK, ...call });
    for (let server = 0; server < this.#generations.length; server++) calls.add(this.#framesFor(server, push, ask));
    const failure = await calls.send();
    const { acknowledged, lost, unsure, answers } = calls;
    return { acknowledged, lost, unsure, answers, failure };
  }

  /** Asks a server for nothing: afterwards what left for it before has its fate. Rejects when it cannot be asked. */
  async probe(server: number, clock: number): Promise<void> {
    const nothing = { keptCount: 0, keys: NOTHING_TO_ASK.keys, versions: NOTHING_TO_ASK.versions };
    const { functions, held: subject, pullBound: bound } = this.#options;
    const request = { parameter: subject.parameter, clock, generation: this.generationOf(server), bound, ...nothing };
    await functions.call(cacheSync, server, request, { subject });
  }

  #framesFor(server: number, push: PushList | undefined, ask: AskList | undefined): Frames {
    const own = (part: Span): boolean => part.server === server;
    return {
      pushes: (push?.parts ?? []).filter(own).flatMap((part) => cutSpan(part, this.#rowsPerFrame)),
      asks: (ask?.parts ?? []).filter(own).flatMap((part) => cutAsk(part, this.#rowsPerFrame)),
    };
  }
}

type PushFields = {
  readonly pushNumber: number;
  readonly scale: number;
  readonly pushKeys: BigUint64Array;
  readonly gradients: Float32Array;
  readonly updates: Uint32Array;
};
type AskFields = {
  readonly generation: number;
  readonly bound: number;
  readonly keptCount: number;
  readonly keys: BigUint64Array;
  readonly versions: Uint32Array;
};

/** The calls of one exchange, by function. */
class Calls {
  readonly acknowledged: Acknowledged[] = [];
  readonly lost: Span[] = [];
  readonly unsure: Unsure[] = [];
  readonly answers: Answer[] = [];
  readonly #options: ExchangeOptions;
  readonly #generations: Uint32Array;
  readonly #given: ExchangeCall & { readonly push: PushList; readonly ask: AskList };
  readonly #pushes: Span[] = [];
  readonly #both: { readonly pushed: Span; readonly asked: AskPart }[] = [];
  readonly #asks: AskPart[] = [];

  constructor(
    options: ExchangeOptions,
    generations: Uint32Array,
    given: ExchangeCall & { readonly push: PushList; readonly ask: AskList },
  ) {
    this.#options = options;
    this.#generations = generations;
    this.#given = given;
  }

  /** The frames of one server; its last push and its first question become one call. */
  add({ pushes, asks }: Frames): void {
    const [firstAsk, ...moreAsks] = asks;
    pushes.forEach((pushed, i) => {
      if (i === pushes.length - 1 && firstAsk !== undefined) this.#both.push({ pushed, asked: firstAsk });
      else this.#pushes.push(pushed);
    });
    this.#asks.push(...(pushes.length > 0 ? moreAsks : asks));
  }

  /** X1. Resolves with the first failure, if any. */
  async send(): Promise<unknown> {
    const { functions, held: subject } = this.#options;
    const { clock } = this.#given;
    const pushNumber = this.#pushes.length + this.#both.length === 0 ? 0 : subject.numberPush(clock);
    const sent = await Promise.allSettled([
      functions.callEach(
        cachePush,
        this.#pushes.map((pushed) => ({
          ...this.#to(pushed),
          request: { ...this.#common, ...this.#pushFields(pushed, pushNumber) },
          answered: ({ rate }) => this.#acknowledge(pushed, rate),
          failed: (error, fate) => this.#noteFailed(pushed, error, fate),
        })),
        { subject },
      ),
      functions.callEach(
        cachePushSync,
        this.#both.map(({ pushed, asked }) => ({
          ...this.#to(pushed),
          request: { ...this.#common, ...this.#pushFields(pushed, pushNumber), ...this.#askFields(asked) },
          answered: (fresh) => {
            this.#acknowledge(pushed, fresh.rate);
            this.answers.push({ asked, fresh });
          },
          failed: (error, fate) => this.#noteFailed(pushed, error, fate),
        })),
        { subject },
      ),
      functions.callEach(
        cacheSync,
        this.#asks.map((asked) => ({
          ...this.#to(asked),
          request: { ...this.#common, ...this.#askFields(asked) },
          answered: (fresh) => this.answers.push({ asked, fresh }),
        })),
        { subject },
      ),
    ]);
    return sent.find((result): result is PromiseRejectedResult => result.status === "rejected")?.reason as WeighbridgeError | undefined;
  }

  get #common(): { readonly parameter: number; readonly clock: number } {
    return { parameter: this.#options.held.parameter, clock: this.#given.clock };
  }

  #to({ server }: Span): { readonly server: number; readonly priority: number | undefined; readonly scope: number } {
    return { server, priority: this.#given.priority, scope: this.#options.held.parameter };
  }

  #acknowledge(pushed: Span, rate: number): void {
    this.acknowledged.push({ pushed, rate });
  }

  /** X3, X4 */
  #noteFailed(pushed: Span, error: WeighbridgeError, fate: CallFate | undefined): void {
    if (mayBeApplied(error) || error.code === "NOT_FINITE") this.lost.push(pushed);
    else if (fate !== undefined) this.unsure.push({ pushed, fate });
  }

  #pushFields({ from, to }: Span, pushNumber: number): PushFields {
    const { keys, gradients, updates } = this.#given.push;
    const { width } = this.#options;
    return {
      pushNumber,
      scale: 1,
      pushKeys: keys.subarray(from, to),
      gradients: gradients.subarray(from * width, to * width),
      updates: updates.length === 0 ? updates : updates.subarray(from, to),
    };
  }

  #askFields({ server, from, to, keptFrom, plainFrom }: AskPart): AskFields {
    const { keys, versions } = this.#given.ask;
    return {
      generation: this.#generations[server] as number,
      bound: this.#options.pullBound,
      keptCount: plainFrom - keptFrom,
      keys: keys.subarray(from, to),
      versions: versions.subarray(from, keptFrom),
    };
  }
}

/** Throws BAD_REQUEST for an answer that does not fit its question. */
export function checkAnswer({ asked, fresh }: Answer, width: number): void {
  const { indexes, versions, rows } = fresh;
  const knownCount = asked.keptFrom - asked.from;
  const isFitting =
    versions.length === indexes.length + asked.plainFrom - asked.keptFrom &&
    rows.length === (indexes.length + asked.to - asked.keptFrom) * width &&
    indexes.every((index, i) => index < knownCount && (i === 0 || index > (indexes[i - 1] as number)));
  if (isFitting) return;
  const what = `${indexes.length} stale rows, ${versions.length} versions and ${rows.length} floats`;
  throw new WeighbridgeError(
    "BAD_REQUEST",
    `server ${asked.server} answered ${knownCount} of ${asked.to - asked.from} known rows with ${what}`,
  );
}

function cutSpan({ server, from, to }: Span, rowsPerFrame: number): Span[] {
  const spans: Span[] = [];
  for (let at = from; at < to; at += rowsPerFrame) spans.push({ server, from: at, to: Math.min(to, at + rowsPerFrame) });
  return spans;
}

function cutAsk({ server, from, to, keptFrom, plainFrom }: AskPart, rowsPerFrame: number): AskPart[] {
  return cutSpan({ server, from, to }, rowsPerFrame).map((span) => ({
    ...span,
    keptFrom: Math.min(Math.max(keptFrom, span.from), span.to),
    plainFrom: Math.min(Math.max(plainFrom, span.from), span.to),
  }));
}
