// parameter-link — decodes the values and keys of one parameter's requests, and encodes its answers, if they do not
// travel as they are. Decoded requests live in the arena as long as their handling, encoded answers until they have
// left.

import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { LISTED_KEYS_MAX, NAMED_LISTS_MAX } from "../../contracts/rows.ts";
import type { Arena } from "../../kernel/arena.ts";
import { CODEC_COUNT_MAX } from "../../kernel/codec-kernels.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import type { ParameterSpec } from "../../store/parameter-spec.ts";
import type { GeneralCompression } from "../../wire/codecs/general-compression.ts";
import { receivedListCount } from "../../wire/codecs/key-cache.ts";
import { nameOfKeys } from "../../wire/codecs/key-codec.ts";
import { KeyReceiver } from "../../wire/codecs/key-receiver.ts";
import { compressionOf, type LinkEncoding } from "../../wire/codecs/link-encoding.ts";
import { PayloadCodec } from "../../wire/codecs/payload-codec.ts";
import { ReceivedKeyLists } from "../../wire/codecs/received-key-lists.ts";
import { type CodecContext, floatCountOf, malformed, type ValueShape } from "../../wire/codecs/value-codec.ts";
import { type CallMemory, keepKeys, roomFor } from "./call-memory.ts";

/** What the links of a server's parameters share. */
type LinkHost = {
  readonly codecs: CodecContext;
  readonly keyLists: WorkerKeyLists;
  /** How this server compresses, if it can. */
  readonly compression: GeneralCompression | undefined;
};

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

  /** The values of a push: where they lie, or decoded in memory that `memory` holds. Throws BAD_REQUEST, ARENA_FULL. */
  decoded(payload: ArrayBufferView, shape: ValueShape, memory: CallMemory): Float32Array {
    if (this.#push.isPlain) return this.#push.plain(payload, shape);
    const target = roomFor(this.#arena, floatCountOf(shape) * FLOAT_BYTES, memory);
    this.#push.decode({ ...shape, source: payload.byteOffset, byteCount: payload.byteLength, target });
    return new Float32Array(this.#arena.memory.buffer, target, floatCountOf(shape));
  }

  /** Whether pulled values leave as they are. */
  get isPlainPull(): boolean {
    return this.#pull.isPlain;
  }

  /** The bytes of an answer with values of this shape beside the values themselves. */
  roomBytes(shape: ValueShape): number {
    return this.#pull.isPlain ? 0 : this.#pull.encodeBound(shape);
  }

  /**
   * These values, or their encoded form, written at `room`. Throws BAD_ARGUMENT for values that the link cannot carry.
   */
  encoded(values: Float32Array, shape: ValueShape, room: number): ArrayBufferView {
    if (this.#pull.isPlain) return values;
    const byteCount = this.#pull.encode({ ...shape, source: values.byteOffset, target: room });
    return this.#arena.bytes.subarray(room, room + byteCount);
  }

  /**
   * The keys of a request, in memory that `memory` holds. Throws BAD_REQUEST, KEYS_NOT_ASCENDING, UNKNOWN_KEY_LIST,
   * ARENA_FULL.
   */
  keys({ byteOffset, byteLength }: ArrayBufferView, holder: WorkerIncarnation, width: number, memory: CallMemory): BigUint64Array {
    const keyCountMax = Math.min(LISTED_KEYS_MAX, Math.floor(CODEC_COUNT_MAX / width));
    const receiver = this.#host.keyLists.of(holder);
    const { keys, sectionBytes } = receiver.read({ source: byteOffset, byteCount: byteLength, keyCountMax });
    memory.hold(keys);
    if (sectionBytes !== byteLength) throw malformed(`${byteLength} bytes of a key list that ends after ${sectionBytes}`);
    return new BigUint64Array(this.#arena.memory.buffer, keys.address, keys.keyCount);
  }

  close(): void {
    this.#push.close();
    this.#pull.close();
  }
}

/** The key lists that one incarnation of a worker told this server to remember. */
type KnownLists = { readonly incarnation: number; readonly lists: ReceivedKeyLists; readonly receiver: KeyReceiver };

/** The lists of one incarnation of a worker. */
export type KeyListsImage = WorkerIncarnation & { readonly lists: readonly BigUint64Array[] };

/**
 * The key lists that each worker has registered with this server: a name counts within one conversation
 * (wire/codecs/key-cache.ts). A new incarnation has none yet; one that is gone takes no memory.
 */
export class WorkerKeyLists {
  readonly #context: CodecContext;
  readonly #workers = new Map<number, KnownLists>();

  constructor(context: CodecContext) {
    this.#context = context;
  }

  /** Reads the key lists of this worker. Throws ARENA_FULL. */
  of({ worker, incarnation }: WorkerIncarnation): KeyReceiver {
    const known = this.#workers.get(worker);
    if (known?.incarnation === incarnation) return known.receiver;
    this.forget(worker);
    const listCountMax = receivedListCount(NAMED_LISTS_MAX);
    const lists = new ReceivedKeyLists(this.#context, { listCountMax, bytesMax: listCountMax * LISTED_KEYS_MAX * KEY_BYTES });
    const receiver = new KeyReceiver(this.#context, lists);
    this.#workers.set(worker, { incarnation, lists, receiver });
    return receiver;
  }

  /** Copies of all lists, the oldest of each worker first, for a standby that is filled. */
  save(): readonly KeyListsImage[] {
    const { buffer } = this.#context.arena.memory;
    return [...this.#workers].map(([worker, { incarnation, lists: known }]) => {
      const lists = [...known.lists.values()].map(({ address, keyCount }) => new BigUint64Array(buffer, address, keyCount).slice());
      return { worker, incarnation, lists };
    });
  }

  /** Throws ARENA_FULL. */
  load(saved: readonly KeyListsImage[]): void {
    const { arena } = this.#context;
    const signature = arena.allocate(KEY_BYTES);
    for (const { lists, ...holder } of saved) {
      this.of(holder);
      for (const list of lists) {
        const { list: keys, release } = keepKeys(arena, list);
        this.#workers
          .get(holder.worker)
          ?.lists.remember(nameOfKeys(this.#context, keys.byteOffset, list.length, signature), keys.byteOffset);
        release();
      }
    }
    arena.release(signature, KEY_BYTES);
  }

  forget(worker: number): void {
    this.#workers.get(worker)?.lists.close();
    this.#workers.delete(worker);
  }
}
