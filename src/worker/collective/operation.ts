// operation — one operation of a generation at one member: parts come in and go out until it is done, here. The kinds
// of operations derive from it; the order of operations, and what ends a generation, are collective-group.ts's.
//
// Invariants:
//   Operation.O1. Every member that calls operation s calls the same: each part says what its sender called, and a
//       difference is an error on both sides.
//   Operation.O2. Until the operation has ended, its arrays belong to it: parts leave from them, and land in them.
//       After that nothing touches them.

import { assert } from "../../base/assert.ts";
import { Deferred } from "../../base/deferred.ts";
import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import { CollectiveKind } from "../../wire/collective-frame.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import type { PartStream } from "./part-stream.ts";

/** What a part says of the operation that it belongs to, and which one of its sender's parts it is. */
export type PartLabel = {
  readonly generation: number;
  readonly sequence: number;
  readonly kind: number;
  /** Rank of the one who broadcasts; the number of the elements' type for an all-reduce (elements.ts); 0 otherwise. */
  readonly root: number;
  readonly length: number;
  readonly index: number;
};

export function partLabel(header: FrameHeader): PartLabel {
  const { flags, command, arg0, arg1, arg2, arg3 } = header;
  return { kind: flags, root: command, generation: arg0, sequence: arg1, length: arg2, index: arg3 };
}

/**
 * Where an operation stands among the members, and how it reaches them. Positions count the members by rank, from 0.
 */
export type OperationContext = {
  readonly position: number;
  readonly memberCount: number;
  /** A stream of parts to the member at this position. */
  streamTo(position: number, operation: Operation): PartStream;
  /** The operation has ended well. */
  finished(operation: Operation): void;
};

export type OperationSubject = { readonly kind: CollectiveKind; readonly root?: number; readonly length: number };

export abstract class Operation {
  readonly kind: CollectiveKind;
  readonly root: number;
  /** Elements of all-reduce and broadcast; 0 for an exchange, whose parts have lengths of their own. */
  readonly length: number;
  readonly done: Deferred<void> = new Deferred();
  /** Given when it is called. */
  sequence = 0;
  hasBegun = false;
  /** The streams whose parts refer to the caller's memory. */
  readonly streams: PartStream[] = [];
  /** Undefined before it begins. */
  protected context: OperationContext | undefined;

  constructor({ kind, root = 0, length }: OperationSubject) {
    this.kind = kind;
    this.root = root;
    this.length = length;
  }

  /** Whether its arrays are still there: one that is transferred away, or shrinks, has another length from then on. */
  abstract readonly isIntact: boolean;

  /** Sends what can be sent at once. */
  begin(context: OperationContext): void {
    this.context = context;
    this.start(context);
  }

  /** As `begin`, for the kinds. */
  protected abstract start(context: OperationContext): void;

  /** Whether all parts have come that have to. */
  protected abstract readonly isComplete: boolean;

  /** Where this part's payload may land; undefined: in the link's buffer. Also called for parts that came before. */
  abstract destination(from: number, label: PartLabel, byteCount: number): Uint8Array | undefined;

  /**
   * Takes a part, once each, in the order of its sender. Throws BAD_REQUEST when it is not the one that has to come.
   */
  abstract take(from: number, label: PartLabel, payload: Uint8Array): void;

  /** Ends it once all parts have come, and those that left from the caller's memory were taken. */
  endIfDone(): void {
    if (this.isComplete && this.streams.every(({ isIdle }) => isIdle)) this.context?.finished(this);
  }

  /** The members of which parts are missing. */
  abstract awaited(): number[];

  /** A stream of parts from the caller's memory to the member at this position. */
  protected streamTo(position: number): PartStream {
    assert(this.context !== undefined, "an operation sends once it begins");
    const stream = this.context.streamTo(position, this);
    this.streams.push(stream);
    return stream;
  }

  /** What parts to this member say the length is. */
  lengthTo(_position: number): number {
    return this.length;
  }

  describe(): string {
    return describeSubject(this);
  }

  /** Operation.O1: what the other member called instead, if it is not the same. */
  differs(label: PartLabel): string | undefined {
    const isSame =
      label.kind === this.kind && label.root === this.root && (this.kind === CollectiveKind.EXCHANGE || label.length === this.length);
    return isSame ? undefined : describeSubject(label);
  }
}

/** An operation over one array of each member, which all have the same length. */
export abstract class ArrayOperation extends Operation {
  protected readonly values: RowArray;

  constructor(values: RowArray, kind: CollectiveKind, root: number) {
    super({ kind, root, length: values.length });
    this.values = values;
  }

  get isIntact(): boolean {
    return this.values.length === this.length;
  }
}

export function describeSubject({ kind, root, length }: { readonly kind: number; readonly root: number; readonly length: number }): string {
  switch (kind) {
    case CollectiveKind.ALL_REDUCE:
      return `an all-reduce of ${length} ${root === 0 ? "floats" : `elements (type ${root})`}`;
    case CollectiveKind.BROADCAST:
      return `a broadcast of ${length} floats from worker ${root}`;
    case CollectiveKind.EXCHANGE:
      return "an exchange";
    default:
      return `an operation of an unknown kind (${kind})`;
  }
}

export function unexpectedPart(operation: Operation, from: number, { index }: PartLabel, byteCount: number): WeighbridgeError {
  const message = `part ${index} of ${byteCount} bytes, from member ${from}, is not what comes next in ${operation.describe()}`;
  return badRequest(message);
}
