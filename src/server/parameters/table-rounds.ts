// table-rounds — the open rounds of a table with sync updates: what workers pushed at clocks that are not over, until
// their rounds are applied, or move with their part to another server. Not how a round is reduced: row-contribution.ts.
//
// A round is one for the whole table: a push names rows of hundreds of parts, and a contribution for each would cost
// more than the push. A part's share is found by the keys of the round, which is bounded (UpdateRounds.U6), not by the
// rows of the table.
//
// Invariants:
//   TableRounds.R1. A round's rows are made when its updates arrive, from a worker or a server: applying it cannot
//       fail.
//   TableRounds.R2. A part's share of a contribution counts once, however often it is loaded.

import type { WeighbridgeError } from "../../base/errors.ts";
import type { PartMarks } from "../../store/table-parts.ts";
import type { KeyOwners } from "../../store/table-requests.ts";
import type { TableStore } from "../../store/table-store.ts";
import { keepBytes } from "./call-memory.ts";
import type { ParameterHost } from "./parameter-host.ts";
import type { OpenRowsPage, PushedAt } from "./part-state.ts";
import { RoundMemories, type RoundTarget, RowContribution } from "./row-contribution.ts";

/** Gradients for rows in the arena, and an upper bound of their elements. */
type RoundPush = PushedAt & {
  readonly keys: BigUint64Array;
  readonly owners?: KeyOwners | undefined;
  readonly gradients: Float32Array;
  readonly scale: number;
  readonly magnitude: number;
  /** Undefined if it comes from another server. */
  readonly pushNumber?: number | undefined;
};

export class TableRounds {
  readonly #target: RoundTarget & { readonly store: TableStore };
  readonly #host: ParameterHost;
  readonly #memories: RoundMemories;
  readonly #roundId: number;

  constructor(target: RoundTarget & { readonly store: TableStore }, host: ParameterHost) {
    this.#target = target;
    this.#host = host;
    this.#memories = new RoundMemories(host.arena, target.words);
    this.#roundId = host.nextPacerId();
  }

  /** Throws ARENA_FULL, QUEUE_FULL, and as the pacer if the worker may not push now; nothing is kept then. */
  add(push: RoundPush): void {
    const { pacer } = this.#host;
    const { holder, clock, keys, owners, gradients } = push;
    const roundKey = { ...holder, parameter: this.#roundId, clock };
    const byteCount = keys.byteLength + gradients.byteLength;
    const known = pacer.rounds.find(roundKey);
    if (known === undefined) pacer.rounds.checkRoom(roundKey, byteCount);
    this.#target.store.touch({ keys: keys.byteOffset, keyCount: keys.length, owners }); // TableRounds.R1
    if (known instanceof RowContribution) {
      pacer.rounds.grow(roundKey, byteCount);
      known.add(keys, gradients, push);
      const joinedBytes = known.joinRepeated();
      if (joinedBytes > 0) pacer.rounds.shrink(roundKey, joinedBytes);
      return;
    }
    pacer.rounds.put(roundKey, this.#first(push), byteCount);
  }

  /** Copies a part's share of open rounds. */
  savePart(part: number): readonly OpenRowsPage[] {
    return this.#host.pacer.rounds.openOf(this.#roundId).flatMap(({ clock, worker, incarnation, handle }) => {
      const image = handle instanceof RowContribution ? handle.savePart(part) : undefined;
      return image === undefined ? [] : { kind: "openRows", part, holder: { worker, incarnation }, clock, image };
    });
  }

  /** Marks the parts that have a share in open rounds. */
  markParts(marks: PartMarks): void {
    for (const { handle } of this.#host.pacer.rounds.openOf(this.#roundId)) if (handle instanceof RowContribution) handle.markParts(marks);
  }

  /** TableRounds.R2. Throws ARENA_FULL, STALE_UPDATE for a round that is over here, QUEUE_FULL. */
  load({ part, holder, clock, image }: OpenRowsPage): void {
    const { arena } = this.#host;
    const copy = keepBytes(arena, [image.keys, image.gradients]);
    try {
      const [keysAt = 0, gradientsAt = 0] = copy.addresses;
      const keys = new BigUint64Array(arena.memory.buffer, keysAt, image.keys.length);
      const gradients = new Float32Array(arena.memory.buffer, gradientsAt, image.gradients.length);
      this.#adopt({ holder, clock, keys, gradients, scale: 1, magnitude: image.magnitude }, part);
    } finally {
      copy.release();
    }
  }

  /** Drops a part's share of open rounds. */
  dropPart(part: number): void {
    const { pacer } = this.#host;
    for (const { clock, worker, incarnation, handle } of pacer.rounds.openOf(this.#roundId)) {
      const bytes = handle instanceof RowContribution ? handle.dropPart(part) : 0;
      if (bytes > 0) pacer.rounds.shrink({ worker, incarnation, parameter: this.#roundId, clock }, bytes);
    }
  }

  /** The table is removed. */
  forget(error: WeighbridgeError): void {
    this.#host.pacer.forget(this.#roundId, error);
  }

  #adopt(push: RoundPush, part: number): void {
    const { pacer } = this.#host;
    const { holder, clock, keys, gradients } = push;
    const roundKey = { ...holder, parameter: this.#roundId, clock };
    const byteCount = keys.byteLength + gradients.byteLength;
    const known = pacer.rounds.find(roundKey);
    this.#target.store.touch({ keys: keys.byteOffset, keyCount: keys.length }); // TableRounds.R1
    if (!(known instanceof RowContribution)) {
      pacer.adopt(roundKey, this.#first(push), byteCount);
      return;
    }
    const droppedBytes = known.dropPart(part);
    if (droppedBytes > 0) pacer.rounds.shrink(roundKey, droppedBytes);
    pacer.rounds.grow(roundKey, byteCount);
    known.add(keys, gradients, push);
  }

  #first(push: RoundPush): RowContribution {
    const first = new RowContribution(this.#target, this.#host, { memories: this.#memories, clock: push.clock });
    first.add(push.keys, push.gradients, push);
    return first;
  }
}
