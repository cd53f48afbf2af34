// sums-snapshot — the sums of a server as they were at the cut, until they are written: tables are frozen like those of
// parameters, blocks of large values are held as by sockets (SumStore.V5).

import type { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { partOf } from "../../keys/part.ts";
import { describeSums } from "../../store/snapshot/describe-sums.ts";
import { KEYS_COLUMN, type ParameterRecord, VALUES_COLUMN } from "../../store/snapshot/parameter-record.ts";
import type { ShardSink } from "../../store/snapshot/snapshot-files.ts";
import { BLOCK_BYTES, type BlockHold, blockBytesOf } from "../../store/sums/large-value.ts";
import type { ValueSnapshot } from "../../store/sums/sum-state.ts";
import type { SumStore } from "../../store/sums/sum-store.ts";
import type { ServerSums } from "../parameters/server-sums.ts";
import type { ParameterSnapshot } from "./parameter-snapshot.ts";
import { inLanes, STAGE_BYTES, TableSnapshot } from "./table-snapshot.ts";

const TWO_32 = 2n ** 32n;
const ZEROS = new Uint8Array(BLOCK_BYTES);

/** One snapshot for each owner and width. Throws ARENA_FULL, nothing held. */
export function snapshotsOfSums(sums: ServerSums, arena: Arena): readonly ParameterSnapshot[] {
  const snapshots: ParameterSnapshot[] = [];
  try {
    for (const [owner, store] of sums.all) {
      for (const frozen of store.freeze()) {
        const record = describeSums({ owner, type: frozen.type, width: frozen.width });
        if ("rows" in frozen) snapshots.push(new TableSnapshot({ record, arena, stored: record.columns, freeze: frozen.rows }));
        else snapshots.push(new LargeSnapshot(record, arena, store, frozen.values));
      }
    }
  } catch (thrown) {
    for (const snapshot of snapshots) snapshot.close();
    throw thrown;
  }
  return snapshots;
}

/** Large values of one width. */
class LargeSnapshot implements ParameterSnapshot {
  readonly record: ParameterRecord;
  readonly #arena: Arena;
  readonly #store: SumStore;
  readonly #values: readonly ValueSnapshot[];
  readonly #held: Set<BlockHold>;
  #loss: WeighbridgeError | undefined;

  constructor(record: ParameterRecord, arena: Arena, store: SumStore, values: readonly ValueSnapshot[]) {
    this.record = { ...record, rowCount: values.length };
    this.#arena = arena;
    this.#store = store;
    this.#values = [...values].sort((one, other) => partOfKey(one.key) - partOfKey(other.key)); // few parts to a chunk
    this.#held = new Set(values.flatMap(({ blocks }) => blocks.filter((block) => block !== undefined)));
  }

  /** Of all large values of the store: a little too much where they have several widths. */
  get keptBytes(): number {
    return this.#held.size === 0 ? 0 : this.#store.retiredBytes;
  }

  async write(sink: ShardSink): Promise<void> {
    const perChunk = Math.max(1, Math.floor(STAGE_BYTES / (this.#values[0]?.byteCount ?? 1)));
    let next = 0;
    await inLanes(async () => {
      while (next < this.#values.length) {
        const values = this.#values.slice(next, next + perChunk);
        next += values.length;
        await this.#writeChunk(sink, values);
      }
    });
    this.close();
  }

  lose(error: WeighbridgeError): void {
    this.#loss ??= error;
    this.close();
  }

  close(): void {
    for (const block of [...this.#held]) this.#release(block);
  }

  async #writeChunk(sink: ShardSink, values: readonly ValueSnapshot[]): Promise<void> {
    const [from, to] = [partOfKey(values[0]!.key), partOfKey(values.at(-1)!.key) + 1];
    const chunk = await sink.openParts(this.record.name, { from, to, rowCount: values.length });
    const keys = BigUint64Array.from(values, ({ key }) => key);
    await chunk.write(KEYS_COLUMN, new Uint8Array(keys.buffer));
    for (const { byteCount, blocks } of values) {
      for (const [index, block] of blocks.entries()) {
        if (this.#loss !== undefined) throw this.#loss;
        const bytes = block === undefined ? ZEROS : this.#arena.bytes.subarray(block.address);
        await chunk.write(VALUES_COLUMN, bytes.subarray(0, blockBytesOf(byteCount, index)));
        if (block !== undefined) this.#release(block);
      }
    }
  }

  #release(block: BlockHold): void {
    if (this.#held.delete(block)) block.release();
  }
}

function partOfKey(key: bigint): number {
  return partOf(Number(key % TWO_32), Number(key / TWO_32));
}
