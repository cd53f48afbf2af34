// encoded-table — pushes and pulls of rows of a table whose link carries less: keys as a section of their own, by name where the server holds
// the list. A list that it does not hold any more travels again, and the caller does not notice.
//
// Invariants:
//   ET1. A push that is refused for its values sends nothing.
//   ET2. A frame leaves a second time only if the server said that it did nothing with the first (UNKNOWN_KEY_LIST), and then with its keys.

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
import { Landings } from "./landings.ts";
import type { LinkPayloads } from "./link-payloads.ts";

/** Some rows that travel together to one server: from `from` up to `to` among all of a call. Keys ascend, and lie in the arena. */
export type KeyedFrame = {
  readonly server: number;
  readonly keys: BigUint64Array;
  readonly from: number;
  readonly to: number;
  readonly opens: boolean;
};

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
    const life = this.#functions.lifeOf(server);
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

export type EncodedTableOptions = {
  readonly functions: FunctionClient;
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
  async push(frames: readonly KeyedFrame[], rows: Float32Array, call: FrameCall & { readonly scale: number }): Promise<void> {
    const { functions, payloads, parameter, width } = this.#options;
    const { clock, scale, priority, subject } = call;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const encoded = spans.guard(() =>
      frames.map((frame) => {
        const { from, to, keys } = frame;
        const gradients = payloads.encode(rows.subarray(from * width, to * width), { rowCount: to - from, width }, spans);
        return { frame, gradients, section: spans.take(keySectionBound(keys.length)) };
      }),
    ); // ET1
    const pushNumber = subject.numberPush(clock);
    const calls = encoded.map(({ frame, gradients, section }) =>
      this.#withKeys(frame, section, (keys) => {
        const request = { parameter, clock, pushNumber, scale, keys, gradients };
        return functions.callEach(rowsPushEncoded, [{ server: frame.server, request, priority, scope: parameter }], { subject });
      }),
    );
    await allEnded(calls).finally(() => spans.release());
  }

  /** Fills `landed` with the rows of all frames. */
  async pull(frames: readonly KeyedFrame[], landed: Float32Array, { clock, priority, subject }: FrameCall): Promise<void> {
    const { functions, payloads, parameter, width } = this.#options;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const landings = new Landings(payloads, spans);
    const opened = spans.guard(() =>
      frames.map((frame) => {
        const { from, to, keys } = frame;
        const landing = landings.open(landed.subarray(from * width, to * width), { rowCount: to - from, width });
        return { frame, landing, section: spans.take(keySectionBound(keys.length)) };
      }),
    );
    const calls = opened.map(({ frame, landing, section }) =>
      this.#withKeys(frame, section, (keys) => {
        const request = { parameter, clock, keys };
        return functions.callEach(rowsPullEncoded, [{ server: frame.server, request, priority, scope: parameter, ...landing }], {
          subject,
        });
      }),
    );
    await allEnded(calls).finally(() => spans.release());
    landings.check();
  }

  /**
   * Sends a frame with its keys in the shortest form, and again with the keys themselves if the server does not know them by name (ET2).
   * `target` has room for the section.
   */
  async #withKeys({ server, keys }: KeyedFrame, target: number, send: (section: Uint8Array) => Promise<void>): Promise<void> {
    const { codecs, keyLists, link } = this.#options;
    const lists = link.keyCache ? keyLists.of(server) : undefined;
    const sender = new KeySender(codecs, lists);
    for (const withKeys of [false, true]) {
      const { sectionBytes, open } = sender.write({ keys: keys.byteOffset, keyCount: keys.length, target, form: link.keys, withKeys });
      try {
        await send(codecs.arena.bytes.subarray(target, target + sectionBytes) as Uint8Array);
        if (open !== undefined) lists?.acknowledged(open);
        return;
      } catch (thrown) {
        const isUnknown = isWeighbridgeError(thrown, "UNKNOWN_KEY_LIST") && open?.isNamed === true;
        if (open !== undefined) lists?.[isUnknown ? "missed" : "failed"](open);
        if (!isUnknown) throw thrown;
      }
    }
  }
}
