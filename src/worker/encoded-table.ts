// encoded-table — pushes and pulls of rows of a table whose link carries less: keys as a section of their own, by name where the server holds
// the list. A list that it does not hold any more travels again, and the caller does not notice.
//
// Invariants:
//   ET1. A push that is refused for its values sends nothing.
//   ET2. A frame leaves a second time only if the server said that it did nothing with the first (UNKNOWN_KEY_LIST, or a placement that has changed), and then
//        with its keys.

import { isWeighbridgeError } from "../base/errors.ts";
import { NAMED_LISTS_MAX, rowsPullEncoded, rowsPushEncoded } from "../contracts/rows.ts";
import { SentKeyLists } from "../wire/codecs/key-cache.ts";
import { keySectionBound } from "../wire/codecs/key-codec.ts";
import { KeySender } from "../wire/codecs/key-sender.ts";
import { encodesRows, type LinkEncoding } from "../wire/codecs/link-encoding.ts";
import type { CodecContext } from "../wire/codecs/value-codec.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { allEnded, type FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { type Landing, Landings } from "./landings.ts";
import type { LinkPayloads } from "./link-payloads.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import type { RowFrame, RowPlan, RowPlanner } from "./router/row-plan.ts";
import { requestOf } from "./router.ts";

type FrameCall = {
  readonly clock: number;
  readonly priority?: number | undefined;
  /** What the handle holds that calls: handles of one table share this. */
  readonly subject: HeldParameter;
};

/** What the servers of a session were told, each by itself; one for all tables of the session. */
export class ServerKeyLists {
  readonly #functions: FunctionClient;
  readonly #servers = new Map<number, { life: number; readonly lists: SentKeyLists }>();

  constructor(functions: FunctionClient) {
    this.#functions = functions;
  }

  of(server: number): SentKeyLists {
    const life = this.#functions.incarnationOf(server);
    const known = this.#servers.get(server);
    if (known === undefined) {
      const lists = new SentKeyLists({ listCountMax: NAMED_LISTS_MAX });
      this.#servers.set(server, { life, lists });
      return lists;
    }
    if (known.life !== life) known.lists.clear();
    known.life = life;
    return known.lists;
  }

  /** Servers took this worker for dead: they hold nothing of it any more. */
  clear(): void {
    for (const { lists } of this.#servers.values()) lists.clear();
  }
}

/** A frame with its keys as they travel, and what is to be done when it is cut again, besides that. */
type EncodedFrame = { readonly frame: RowFrame; readonly keys: Uint8Array; readonly isCut: () => void };
type PushFrameCall = FrameCall & { readonly pushNumber: number; readonly scale: number };

export type EncodedTableOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly codecs: CodecContext;
  readonly payloads: LinkPayloads;
  readonly keyLists: ServerKeyLists;
  readonly parameter: number;
  readonly width: number;
  readonly link: LinkEncoding;
};

export class EncodedTable {
  readonly encodesPush: boolean;
  /** Whether repeated keys travel by name: a frame may then have to be sent again, behind what left after it (ET2). */
  readonly namesKeys: boolean;
  readonly encodesPull: boolean;
  readonly #options: EncodedTableOptions;

  constructor(options: EncodedTableOptions) {
    this.#options = options;
    this.namesKeys = options.link.keyCache;
    this.encodesPush = encodesRows(options.link, "push");
    this.encodesPull = encodesRows(options.link, "pull");
  }

  /** `rows` has the gradients of all frames. Ends when all calls have. */
  async push(frames: readonly RowFrame[], rows: Float32Array, given: FrameCall & { readonly scale: number }): Promise<void> {
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const encoded = spans.guard(() =>
      frames.map((frame) => {
        const own = this.#rowsOf(rows, frame);
        return { frame, own, gradients: this.#encode(own, spans), section: spans.take(keySectionBound(frame.keys.length)) };
      }),
    ); // ET1
    const call = { ...given, pushNumber: given.subject.numberPush(given.clock) };
    const calls = encoded.map(({ frame, own, gradients, section }) =>
      this.#withKeys(frame, section, (keys, isCut) => this.#pushOf({ frame, keys, isCut }, own, gradients, call), call),
    );
    await allEnded(calls).finally(() => spans.release());
  }

  /** Fills `landed` with the rows of all frames. */
  async pull(frames: readonly RowFrame[], landed: Float32Array, call: FrameCall): Promise<void> {
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const landings = new Landings(this.#options.payloads, spans);
    const opened = spans.guard(() =>
      frames.map((frame) => {
        const own = this.#rowsOf(landed, frame);
        return { frame, own, landing: this.#land(own, landings), section: spans.take(keySectionBound(frame.keys.length)) };
      }),
    );
    const calls = opened.map(({ frame, own, landing, section }) =>
      this.#withKeys(frame, section, (keys, isCut) => this.#pullOf({ frame, keys, isCut }, own, landing, call), call),
    );
    await allEnded(calls).finally(() => spans.release());
    landings.check();
  }

  #pushOf({ frame, keys, isCut }: EncodedFrame, own: Float32Array, gradients: Uint8Array, call: PushFrameCall): AnyRequest {
    const { parameter } = this.#options;
    const { clock, pushNumber, scale, priority } = call;
    const cutAgain = (): Recut => {
      isCut();
      return this.#cutAgain(frame, (plan, spans) => {
        const rows = plan.gradients(own, this.#options.width);
        const requests = this.#framesOf(plan, spans).map((next) => {
          const nextOwn = this.#rowsOf(rows, next.frame);
          return this.#pushOf(next, nextOwn, this.#encode(nextOwn, spans), call);
        });
        return { requests };
      });
    };
    const request = { parameter, clock, pushNumber, scale, keys, gradients };
    return requestOf(rowsPushEncoded, { to: frame, request, priority, scope: parameter, cutAgain });
  }

  #pullOf({ frame, keys, isCut }: EncodedFrame, own: Float32Array, landing: Landing, call: FrameCall): AnyRequest {
    const { parameter, payloads, width } = this.#options;
    const { clock, priority } = call;
    const cutAgain = (): Recut => {
      isCut();
      return this.#cutAgain(frame, (plan, spans) => {
        const landed = plan.landing(own, width);
        const landings = new Landings(payloads, spans);
        const requests = this.#framesOf(plan, spans).map((next) => {
          const nextOwn = this.#rowsOf(landed, next.frame);
          return this.#pullOf(next, nextOwn, this.#land(nextOwn, landings), call);
        });
        const answered = (): void => {
          landings.check();
          plan.deliver(landed, own, width);
        };
        return { requests, answered };
      });
    };
    return requestOf(rowsPullEncoded, { to: frame, request: { parameter, clock, keys }, priority, scope: parameter, ...landing, cutAgain });
  }

  /** Plans the keys of a frame anew, with memory that is given back together with the plan. */
  #cutAgain({ keys }: RowFrame, make: (plan: RowPlan, spans: ArenaSpans) => Omit<Recut, "release">): Recut {
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const recut = spans.guard(() => this.#options.planner.again(keys, (plan) => make(plan, spans), { isAscending: true }));
    const release = (): void => {
      recut.release();
      spans.release();
    };
    return { ...recut, release };
  }

  /** The frames of a plan, with their keys (ET2). */
  #framesOf(plan: RowPlan, spans: ArenaSpans): EncodedFrame[] {
    const { codecs, link } = this.#options;
    const sender = new KeySender(codecs, undefined);
    return plan.frames(plan.rowCount).map((frame) => {
      const target = spans.take(keySectionBound(frame.keys.length));
      const { sectionBytes } = sender.write({ keys: frame.keys.byteOffset, keyCount: frame.keys.length, target, form: link.keys });
      return { frame, keys: codecs.arena.bytes.subarray(target, target + sectionBytes) as Uint8Array, isCut: () => {} };
    });
  }

  #encode(rows: Float32Array, spans: ArenaSpans): Uint8Array {
    const { payloads, width } = this.#options;
    return payloads.encode(rows, { rowCount: rows.length / width, width }, spans);
  }

  #land(rows: Float32Array, landings: Landings): Landing {
    const { width } = this.#options;
    return landings.open(rows, { rowCount: rows.length / width, width });
  }

  #rowsOf(rows: Float32Array, { from, to }: RowFrame): Float32Array {
    const { width } = this.#options;
    return rows.subarray(from * width, to * width);
  }

  /**
   * Sends a frame with its keys in the shortest form, and again with the keys themselves if the server does not know them by name (ET2).
   * `target` has room for the section.
   */
  async #withKeys(
    { server, keys }: RowFrame,
    target: number,
    make: (section: Uint8Array, isCut: () => void) => AnyRequest,
    { subject }: FrameCall,
  ): Promise<void> {
    const { codecs, keyLists, link, functions } = this.#options;
    const lists = link.keyCache ? keyLists.of(server) : undefined;
    const sender = new KeySender(codecs, lists);
    let wasCut = false; // then this server has not seen the list
    const isCut = (): void => {
      wasCut = true;
    };
    for (const withKeys of [false, true]) {
      const { sectionBytes, open } = sender.write({ keys: keys.byteOffset, keyCount: keys.length, target, form: link.keys, withKeys });
      try {
        const request = make(codecs.arena.bytes.subarray(target, target + sectionBytes) as Uint8Array, isCut);
        await functions.callMixed([request], `rows of ${JSON.stringify(subject.name)}`, { subject });
        if (open !== undefined) lists?.[wasCut ? "failed" : "acknowledged"](open);
        return;
      } catch (thrown) {
        const isUnknown = isWeighbridgeError(thrown, "UNKNOWN_KEY_LIST") && open?.isNamed === true;
        if (open !== undefined) lists?.[isUnknown ? "missed" : "failed"](open);
        if (!isUnknown) throw thrown;
      }
    }
  }
}
