// parameter-host — what the parameters of a server share: its memory and kernels, and the pace of the job.

import type { Clock } from "../../base/clock.ts";
import type { Arena } from "../../kernel/arena.ts";
import { type DuplicateKernels, simdDuplicateKernels } from "../../kernel/duplicate-kernels.ts";
import { type InitializerKernels, SimdInitializerKernels } from "../../kernel/initializer-kernels.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { QuantileTable } from "../../kernel/normal-quantiles.ts";
import { type OptimizerKernels, SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { type PartitionKernels, simdPartitionKernels } from "../../kernel/partition-kernels.ts";
import { type RowKernels, simdRowKernels } from "../../kernel/row-kernels.ts";
import { Initializer } from "../../store/initializers/initializer.ts";
import type { ParameterSpec, TableSpec } from "../../store/parameter-spec.ts";
import { type RowInitializer, TableStore } from "../../store/table-store.ts";
import { Updater } from "../../store/updaters/updater.ts";
import { type ServerPacer, serverPacer } from "./server-pacer.ts";

const KEY_BYTES = 8;
const ADDRESS_BYTES = 4;
const ROWS_TOGETHER = 1024;

export type ParameterHostOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly clock: Clock;
  readonly workerCount: number;
  /** Keys the tables' hashes: whoever knows it could choose keys that all fall in one place. */
  readonly secret: bigint;
};

export class ParameterHost {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly optimizers: OptimizerKernels;
  readonly duplicates: DuplicateKernels;
  readonly indexes: PartitionKernels;
  readonly pacer: ServerPacer;
  readonly secret: bigint;
  readonly workerCount: number;
  readonly #initializers: InitializerKernels;
  readonly #quantiles: QuantileTable;
  #units = 0;

  constructor({ arena, kernels, clock, workerCount, secret }: ParameterHostOptions) {
    this.arena = arena;
    this.kernels = kernels;
    this.rowKernels = simdRowKernels(arena);
    this.optimizers = new SimdOptimizerKernels(arena);
    this.duplicates = simdDuplicateKernels(arena);
    this.indexes = simdPartitionKernels(arena);
    this.pacer = serverPacer(clock, workerCount);
    this.#initializers = new SimdInitializerKernels(arena);
    this.#quantiles = new QuantileTable(arena);
    this.secret = secret;
    this.workerCount = workerCount;
  }

  /** A number for something that is reduced as one: below 0, so that it is never a parameter's. */
  nextUnit(): number {
    return --this.#units;
  }

  updater({ kind, optimizer }: ParameterSpec, width: number): Updater {
    return new Updater(this.arena, this.optimizers, optimizer, { kind, width, workerCount: this.workerCount });
  }

  initializer(spec: ParameterSpec): Initializer {
    const shape = spec.kind === "tensor" ? spec.shape : [spec.width];
    return new Initializer(this.arena, this.#initializers, this.#quantiles, spec.initializer, { name: spec.name, shape });
  }

  tableRows(spec: TableSpec): TableRows {
    return new TableRows(this, this.initializer(spec), spec.width);
  }

  tableStore({ width, versions }: TableSpec, updater: Updater, initializer: TableRows): TableStore {
    const { arena, kernels, rowKernels } = this;
    return new TableStore({ arena, kernels, rowKernels, width, updater, initializer, versions });
  }
}

/** Initial values of a table's new rows, whose keys stand in front of them. */
export class TableRows implements RowInitializer {
  readonly #host: ParameterHost;
  readonly #initializer: Initializer;
  readonly #width: number;
  /** Room for the keys of ROWS_TOGETHER rows. */
  readonly #keys: number;

  constructor(host: ParameterHost, initializer: Initializer, width: number) {
    this.#host = host;
    this.#initializer = initializer;
    this.#width = width;
    this.#keys = host.arena.allocate(ROWS_TOGETHER * KEY_BYTES);
  }

  initializeRows(rows: number, rowCount: number): void {
    for (let from = 0; from < rowCount; from += ROWS_TOGETHER) {
      const count = Math.min(ROWS_TOGETHER, rowCount - from);
      const listed = rows + from * ADDRESS_BYTES;
      this.#host.rowKernels.readRows(listed, count, -KEY_BYTES, KEY_BYTES, this.#keys);
      this.#initializer.fillRows(listed, this.#keys, count, this.#width);
    }
  }

  close(): void {
    this.#host.arena.release(this.#keys, ROWS_TOGETHER * KEY_BYTES);
    this.#initializer.close();
  }
}

/** Keys or rows of a request that waits, in the arena. */
export type Kept<T> = { readonly list: T; release(): void };

/** A copy that outlives the frame the list came in. Throws ARENA_FULL. */
export function keepKeys(arena: Arena, keys: BigUint64Array): Kept<BigUint64Array> {
  const { address, release } = keptBytes(arena, keys);
  return { list: new BigUint64Array(arena.memory.buffer, address, keys.length), release };
}

/** As `keepKeys`. */
export function keepRows(arena: Arena, rows: Uint32Array): Kept<Uint32Array> {
  const { address, release } = keptBytes(arena, rows);
  return { list: new Uint32Array(arena.memory.buffer, address, rows.length), release };
}

function keptBytes(arena: Arena, { buffer, byteOffset, byteLength }: ArrayBufferView): { readonly address: number; release(): void } {
  const byteCount = Math.max(1, byteLength);
  const address = arena.allocate(byteCount);
  arena.bytes.set(new Uint8Array(buffer, byteOffset, byteLength), address);
  return { address, release: () => arena.release(address, byteCount) };
}
