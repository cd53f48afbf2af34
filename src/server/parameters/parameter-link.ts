// parameter-link — how the values and keys of one parameter come to a server and leave it, when they do not travel as they are. Requests are
// decoded into memory of the arena that lives as long as their handling, answers encoded into memory that is held until they have left.

import { WeighbridgeError } from "../../base/errors.ts";
import type { WorkerLife } from "../../consistency/worker-lives.ts";
import { LISTED_KEYS_MAX } from "../../contracts/rows.ts";
import type { Arena } from "../../kernel/arena.ts";
import { CODEC_COUNT_MAX } from "../../kernel/codec-kernels.ts";
import type { ParameterSpec } from "../../store/parameter-spec.ts";
import type { GeneralCompression } from "../../wire/codecs/general-compression.ts";
import type { HeldKeyList } from "../../wire/codecs/key-cache.ts";
import { compressionOf, type LinkEncoding } from "../../wire/codecs/link-encoding.ts";
import { PayloadCodec } from "../../wire/codecs/payload-codec.ts";
import { type CodecContext, floatCountOf, malformed, type ValueShape } from "../../wire/codecs/value-codec.ts";
import { type Holder, roomFor } from "./parameter-host.ts";
import type { WorkerKeyLists } from "./worker-key-lists.ts";

const FLOAT_BYTES = 4;

/** What the links of a server's parameters share. */
export type LinkHost = {
  readonly codecs: CodecContext;
  readonly keyLists: WorkerKeyLists;
  /** What this server can compress with, if it can. */
  readonly compression: GeneralCompression | undefined;
};

/** The keys of a request, until released. */
export type RequestKeys = { readonly list: BigUint64Array; release(): void };

export class ParameterLink {
  readonly #host: LinkHost;
  readonly #arena: Arena;
  readonly #push: PayloadCodec;
  readonly #pull: PayloadCodec;

  /** Throws UNSUPPORTED. */
  constructor(host: LinkHost, link: LinkEncoding, name: string) {
    const compression = compressionOf(link, host.compression, name);
    this.#host = host;
    this.#arena = host.codecs.arena;
    this.#push = new PayloadCodec(host.codecs, link.push, compression);
    this.#pull = new PayloadCodec(host.codecs, link.pull, compression);
  }

  static of(host: LinkHost, { link, name }: ParameterSpec): ParameterLink | undefined {
    return link === undefined ? undefined : new ParameterLink(host, link, name);
  }

  /** Gives the values of a push, in the arena, to `use`; they are void when it returns. Throws BAD_REQUEST, ARENA_FULL. */
  decoded(payload: Uint8Array, shape: ValueShape, use: (values: Float32Array) => void): void {
    if (this.#push.isPlain) {
      use(this.#push.plain(payload, shape));
      return;
    }
    const byteCount = floatCountOf(shape) * FLOAT_BYTES;
    const target = this.#arena.allocate(byteCount);
    try {
      this.#push.decode({ ...shape, source: payload.byteOffset, byteCount: payload.length, target });
      use(new Float32Array(this.#arena.memory.buffer, target, byteCount / FLOAT_BYTES));
    } finally {
      this.#arena.release(target, byteCount);
    }
  }

  /** Whether pulled values leave as they are. */
  get isPlainPull(): boolean {
    return this.#pull.isPlain;
  }

  /** Room for an answer of values of this shape, which `holder` holds. Throws ARENA_FULL. */
  roomFor(shape: ValueShape, holder: Holder): number {
    return roomFor(this.#arena, this.#pull.encodeBound(shape), holder);
  }

  /** The answer that carries these values, in `room`. Throws BAD_ARGUMENT for values that the link cannot carry. */
  encoded(values: Float32Array, shape: ValueShape, room: number): { readonly values: Uint8Array } {
    const byteCount = this.#pull.encode({ ...shape, source: values.byteOffset, target: room });
    return { values: this.#arena.bytes.subarray(room, room + byteCount) as Uint8Array };
  }

  /** Throws BAD_REQUEST, KEYS_NOT_ASCENDING, UNKNOWN_KEY_LIST, ARENA_FULL. */
  keys(section: Uint8Array, life: WorkerLife, width: number): RequestKeys {
    const keyCountMax = Math.min(LISTED_KEYS_MAX, Math.floor(CODEC_COUNT_MAX / width));
    const receiver = this.#host.keyLists.of(life);
    const { keys, sectionBytes } = receiver.read({ source: section.byteOffset, byteCount: section.length, keyCountMax });
    if (sectionBytes === section.length) return requestKeys(this.#arena, keys);
    keys.release();
    throw malformed(`${section.length} bytes of a key list that ends after ${sectionBytes}`);
  }

  close(): void {
    this.#push.close();
    this.#pull.close();
  }
}

function requestKeys({ memory }: Arena, held: HeldKeyList): RequestKeys {
  return { list: new BigUint64Array(memory.buffer, held.address, held.keyCount), release: () => held.release() };
}

/** The error of an encoded call to a parameter whose values travel as they are. */
export function noLink(name: string): WeighbridgeError {
  return new WeighbridgeError("UNSUPPORTED", `${name} has no link encoding: its values and keys travel as they are`);
}
