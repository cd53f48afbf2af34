// exchange — every member sends every other one bytes of its own, of whatever length, and gets theirs.

import { CollectiveKind, PART_BYTES } from "../../wire/collective-frame.ts";
import { Operation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";

/** To one member. */
export const EXCHANGE_BYTES_MAX: number = 2 ** 30;

type Incoming = { bytes: Uint8Array | undefined; fill: number; nextIndex: number; isWhole: boolean };

export class Exchange extends Operation {
  readonly #outgoing: readonly Uint8Array[];
  readonly #outgoingBytes: readonly number[];
  readonly #incoming: Incoming[] = [];
  #awaitedCount = 0;

  constructor(outgoing: readonly Uint8Array[]) {
    super({ kind: CollectiveKind.EXCHANGE, length: 0 });
    this.#outgoing = outgoing;
    this.#outgoingBytes = outgoing.map(({ length }) => length);
  }

  get isIntact(): boolean {
    return this.#outgoing.every(({ length }, i) => length === this.#outgoingBytes[i]);
  }

  /** What each member sent, by position; this member's own is what it gave. */
  get received(): readonly Uint8Array[] {
    return this.#incoming.map(({ bytes }, i) => bytes ?? this.#outgoing[i] ?? new Uint8Array(0));
  }

  protected start({ position, memberCount }: OperationContext): void {
    this.#awaitedCount = memberCount - 1;
    for (let i = 0; i < memberCount; i++) this.#incoming.push({ bytes: undefined, fill: 0, nextIndex: 0, isWhole: i === position });
    for (const [to, bytes] of this.#outgoing.entries()) {
      if (to === position) continue;
      const stream = this.streamTo(to);
      // One at least.
      for (let at = 0; at === 0 || at < bytes.length; at += PART_BYTES) stream.push(bytes.subarray(at, at + PART_BYTES));
    }
  }

  protected get isComplete(): boolean {
    return this.#awaitedCount === 0;
  }

  override lengthTo(position: number): number {
    return this.#outgoing[position]?.length ?? 0;
  }

  destination(from: number, label: PartLabel, byteCount: number): Uint8Array | undefined {
    const incoming = this.#incoming[from];
    if (incoming === undefined || !isNext(incoming, label, byteCount)) return undefined;
    incoming.bytes ??= new Uint8Array(label.length);
    return incoming.bytes.subarray(incoming.fill, incoming.fill + byteCount);
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    const incoming = this.#incoming[from];
    if (incoming === undefined || !isNext(incoming, label, payload.length)) throw unexpectedPart(this, from, label, payload.length);
    incoming.bytes ??= new Uint8Array(label.length);
    if (payload.buffer !== incoming.bytes.buffer) incoming.bytes.set(payload, incoming.fill);
    incoming.fill += payload.length;
    incoming.nextIndex++;
    if (incoming.fill < incoming.bytes.length) return;
    incoming.isWhole = true;
    this.#awaitedCount--;
    this.endIfDone();
  }

  awaited(): number[] {
    return [...this.#incoming.keys()].filter((i) => this.#incoming[i]?.isWhole === false);
  }
}

function isNext({ bytes, fill, nextIndex, isWhole }: Incoming, { index, length }: PartLabel, byteCount: number): boolean {
  if (length > EXCHANGE_BYTES_MAX || isWhole || index !== nextIndex || (bytes !== undefined && bytes.length !== length)) return false;
  return byteCount === Math.min(PART_BYTES, length - fill);
}
