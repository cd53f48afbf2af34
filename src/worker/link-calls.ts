// link-calls — the layer between the calls of a parameter and the router, for a parameter whose link carries less
// (spec/codecs.md). Its clients make the same requests as for any other, with keys and values as they are; here the
// fields of a request that are keys and values become what the link carries, and what is answered becomes values again,
// in the array that the client has for it. So every call obeys the link, also when it is cut again.
//
//   client ─► requests: u64, f32 ─► LinkCalls: key lists (perhaps only their names), payloads ─► router
//   client ◄── values where they are to land ◄── decoded ◄── payloads ◄──────────────────────────┘
//
// Invariants:
//   LinkCalls.L1. A call of which something cannot be encoded sends nothing, and is no push: it has no number yet.
//   LinkCalls.L2. A request leaves a second time only if the server said that it did nothing with the first
//       (UNKNOWN_KEY_LIST, or a placement that has changed), and then with its keys.
//   LinkCalls.L4. With top-k, a push of whole blocks sends of each the largest of what has added up, and keeps the
//       others (kept-gradients.ts). Rows, and what is flushed, travel exactly.
//   LinkCalls.L3. What requests are sent from, and answers land in, is given back when the last of them has ended, also
//       when nobody waits any more.

import { isWeighbridgeError, withOutcome } from "../base/errors.ts";
import { NAMED_LISTS_MAX } from "../contracts/rows.ts";
import { type OpenKeyList, SentKeyLists } from "../wire/codecs/key-cache.ts";
import { keySectionBound } from "../wire/codecs/key-codec.ts";
import { KeySender } from "../wire/codecs/key-sender.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import type { CodecContext, ValueShape } from "../wire/codecs/value-codec.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { CallerArray } from "./caller-array.ts";
import type { FunctionClient } from "./function-client.ts";
import { type KeptGradients, noteLost, type SentBlock } from "./kept-gradients.ts";
import type { LinkPayloads } from "./link-payloads.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { AnyRequest, FunctionRequest, Recut } from "./router/function-request.ts";
import { requestOf } from "./router.ts";

type Request = FieldValues<Fields>;

export type LinkCallsOptions = {
  readonly functions: FunctionClient;
  readonly codecs: CodecContext;
  readonly payloads: LinkPayloads;
  readonly keyLists: ServerKeyLists;
  readonly link: LinkEncoding;
  /** What top-k keeps of whole blocks; undefined without top-k. */
  readonly kept?: KeptGradients | undefined;
  /** In which rows so many values of a request, or of its answer, are encoded. */
  readonly shapeOf: (request: Request, direction: "push" | "pull", valueCount: number) => ValueShape;
};

/** What the servers of a session were told, each by itself; one for all tables of the session. */
export class ServerKeyLists {
  readonly #functions: FunctionClient;
  readonly #servers = new Map<number, { holder: number; readonly lists: SentKeyLists }>();

  constructor(functions: FunctionClient) {
    this.#functions = functions;
  }

  of(server: number): SentKeyLists {
    const holder = this.#functions.incarnationOf(server);
    const known = this.#servers.get(server);
    if (known === undefined) {
      const lists = new SentKeyLists({ listCountMax: NAMED_LISTS_MAX });
      this.#servers.set(server, { holder, lists });
      return lists;
    }
    if (known.holder !== holder) known.lists.clear();
    known.holder = holder;
    return known.lists;
  }

  /** Servers took this worker for dead: they hold nothing of it any more. */
  clear(): void {
    for (const { lists } of this.#servers.values()) lists.clear();
  }
}

/** Some requests on their way: what they take until the last has ended (LinkCalls.L3). */
type Sending = {
  readonly spans: ArenaSpans;
  readonly answers: EncodedAnswers;
  readonly keys: Set<RequestKeys>;
  /** Of which top-k has kept something, until they are acknowledged. */
  readonly blocks: Set<SentBlock>;
};

type CallOptions = {
  /** That of the push that these are: it gets its number once all of it is encoded (LinkCalls.L1). */
  readonly pushClock?: number | undefined;
  /**
   * Whether key lists may travel by name, where the link has that. A request may then have to be sent again
   * (LinkCalls.L2).
   */
  readonly isNaming?: boolean | undefined;
  /** LinkCalls.L4 */
  readonly isExact?: boolean | undefined;
};

export class LinkCalls {
  readonly #options: LinkCallsOptions;

  constructor(options: LinkCallsOptions) {
    this.#options = options;
  }

  get kept(): KeptGradients | undefined {
    return this.#options.kept;
  }

  /** Sends these requests, together. As Router.call; throws also BAD_ARGUMENT, ARENA_FULL (LinkCalls.L1). */
  async call(
    requests: readonly AnyRequest[],
    subject: ParameterHandle,
    { pushClock, isNaming = true, isExact = false }: CallOptions,
  ): Promise<void> {
    const sending = this.#begin();
    try {
      const carried = requests.map((request) => this.#carry(request, sending, { isNaming, isExact }));
      await this.#options.functions.router.call(carried, subject, pushClock);
    } catch (thrown) {
      this.kept?.takeBack(sending.blocks);
      throw thrown;
    } finally {
      this.#end(sending);
    }
    try {
      sending.answers.check();
    } catch (thrown) {
      throw pushClock !== undefined && isWeighbridgeError(thrown) ? withOutcome(thrown, "applied") : thrown;
    }
  }

  #begin(): Sending {
    const spans = new ArenaSpans(this.#options.codecs.arena);
    return { spans, answers: new EncodedAnswers(this.#options.payloads, spans), keys: new Set(), blocks: new Set() };
  }

  #end({ spans, keys }: Sending): void {
    for (const each of keys) each.end("failed"); // of what never left, or was given up
    spans.release();
  }

  /** The same request as the link carries it. */
  #carry({ fn, options }: AnyRequest, sending: Sending, how: { readonly isNaming: boolean; readonly isExact: boolean }): AnyRequest {
    const { to, into } = options;
    const request: Record<string, unknown> = { ...options.request };
    const sent = how.isExact ? undefined : this.#keeping(options.request, sending);
    for (const name of fn.request.valueNames) request[name] = sent?.payload ?? this.#encoded(options.request, name, sending);
    if (sent !== undefined) request.scale = 1; // it is in what was kept
    const server = how.isNaming && this.#options.link.keyCache && "server" in to ? to.server : undefined;
    const { keyNames } = fn.request;
    const keys = keyNames.length === 0 ? undefined : new RequestKeys(this.#options, keyNames, options.request, sending.spans, server);
    if (keys !== undefined) sending.keys.add(keys);
    keys?.write(request, false);
    const landing = into === undefined ? undefined : this.#landing(options, into as Float32Array, sending);
    const acknowledged = (isApplied: boolean): void => {
      keys?.end(isApplied ? "acknowledged" : "failed");
      if (isApplied && sent !== undefined) sending.blocks.delete(sent);
    };
    const again = (recut: (() => Recut) | undefined, isApplied: boolean): (() => Recut) | undefined =>
      recut === undefined
        ? undefined
        : () => {
            acknowledged(isApplied);
            return this.#again(recut());
          };
    const carried: FunctionRequest<Fields, Fields> = {
      ...options,
      ...landing,
      request,
      answered: (answer) => {
        acknowledged(true);
        (landing ?? options).answered?.(answer);
      },
      failed: (error, fate) => {
        acknowledged(false);
        if (sent !== undefined) noteLost(sent, error);
        options.failed?.(error, fate);
      },
      cutAgain: again(options.cutAgain, false),
      answerLost: again(options.answerLost, true),
      keysUnknown: () => {
        keys?.end("missed");
        keys?.write(request, true);
        return requestOf(fn, carried);
      },
    };
    return requestOf(fn, carried);
  }

  /** LinkCalls.L4 */
  #keeping(request: Request, sending: Sending): SentBlock | undefined {
    const { kept, shapeOf } = this.#options;
    const { block, gradients, scale } = request as { readonly block?: number; readonly gradients?: Float32Array; readonly scale: number };
    const rows = (request.rows ?? request.pushRows) as Uint32Array | undefined;
    if (kept === undefined || block === undefined || gradients === undefined || rows?.length !== 0) return undefined;
    const sent = kept.encode(block, gradients, shapeOf(request, "push", gradients.length), scale, sending.spans);
    sending.blocks.add(sent);
    return sent;
  }

  /** What takes the place of a request, as the link carries it; its keys are not named (LinkCalls.L2). */
  #again(recut: Recut): Recut {
    const sending = this.#begin();
    const release = (): void => {
      this.#end(sending);
      recut.release();
    };
    try {
      const requests = recut.requests.map((request) => this.#carry(request, sending, { isNaming: false, isExact: true }));
      const answered = (): void => {
        sending.answers.check();
        recut.answered?.();
      };
      return { requests, answered, release };
    } catch (thrown) {
      release();
      throw thrown;
    }
  }

  #encoded(request: Request, name: string, { spans }: Sending): Uint8Array {
    const values = request[name] as Float32Array;
    return this.#options.payloads.encode(values, this.#options.shapeOf(request, "push", values.length), spans);
  }

  /** Where the answer lands. The client hears of it when its values are where they belong. */
  #landing(
    { request, answered }: FunctionRequest<Fields, Fields>,
    values: Float32Array,
    { answers }: Sending,
  ): Partial<FunctionRequest<Fields, Fields>> {
    const landing = answers.open(values, this.#options.shapeOf(request, "pull", values.length));
    const landed = (answer: Request): void => {
      if (landing.answered(answer as { readonly values: ArrayBufferView })) answered?.({ values });
    };
    return { into: landing.into, answered: landed };
  }
}

/** The key lists of one request. */
class RequestKeys {
  readonly #options: LinkCallsOptions;
  readonly #lists: SentKeyLists | undefined;
  readonly #fields: readonly { readonly name: string; readonly keys: BigUint64Array; readonly target: number }[];
  readonly #open: OpenKeyList[] = [];

  /** The keys ascend, and lie in the arena. Those to `server` may be named. Throws ARENA_FULL. */
  constructor(options: LinkCallsOptions, names: readonly string[], request: Request, spans: ArenaSpans, server: number | undefined) {
    this.#options = options;
    this.#lists = server === undefined ? undefined : options.keyLists.of(server);
    this.#fields = names.map((name) => {
      const keys = request[name] as BigUint64Array;
      return { name, keys, target: spans.take(keySectionBound(keys.length)) };
    });
  }

  /** Puts them into the fields of the request, in the shortest form or with the keys themselves. */
  write(request: Record<string, unknown>, withKeys: boolean): void {
    const { codecs, link } = this.#options;
    const sender = new KeySender(codecs, this.#lists);
    for (const { name, keys, target } of this.#fields) {
      const { sectionBytes, open } = sender.write({ keys: keys.byteOffset, keyCount: keys.length, target, form: link.keys, withKeys });
      request[name] = codecs.arena.bytes.subarray(target, target + sectionBytes);
      if (open !== undefined) this.#open.push(open);
    }
  }

  /** The request has ended. Missed: the server does not hold one of those that were named. */
  end(how: "acknowledged" | "missed" | "failed"): void {
    for (const open of this.#open.splice(0)) this.#lists?.[how === "missed" && !open.isNamed ? "failed" : how](open);
  }
}

/** Where an answer lands, if its length is known, and what to do with it; false: its values were not decoded. */
type EncodedAnswer = {
  readonly into: Uint8Array | undefined;
  readonly answered: (answer: { readonly values: ArrayBufferView }) => boolean;
};

/** Keeps what was wrong with an answer until all have come: a call's `answered` must not throw. */
class EncodedAnswers {
  readonly #payloads: LinkPayloads;
  readonly #spans: ArenaSpans;
  #failure: unknown;

  constructor(payloads: LinkPayloads, spans: ArenaSpans) {
    this.#payloads = payloads;
    this.#spans = spans;
  }

  /** Throws ARENA_FULL. */
  open(target: Float32Array, shape: ValueShape): EncodedAnswer {
    const given = new CallerArray(target);
    return {
      into: this.#payloads.landing(target, shape, this.#spans),
      answered: ({ values }) => {
        try {
          given.check("an encoded answer", false);
          this.#payloads.decode(values, target, shape);
          return true;
        } catch (thrown) {
          this.#failure ??= thrown;
          return false;
        }
      },
    };
  }

  /** Throws BAD_REQUEST if an answer could not be decoded, BUFFER_DETACHED if there was nowhere to decode it to. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
