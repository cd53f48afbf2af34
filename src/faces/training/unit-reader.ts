// unit-reader — brings the samples of a unit from a data set to a network's input: values, ids and labels. Ids of the next unit can be read while this one
// is in hand.

import { WeighbridgeError } from "../../base/errors.ts";
import { Batches, type BatchesOptions } from "../../nn/batches.ts";
import type { Dataset } from "./dataset.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import type { Network } from "./network.ts";
import type { Unit } from "./unit-feed.ts";

export type UnitSamples = {
  readonly sampleCount: number;
  /** Of the global batch that the unit is a part of. */
  readonly globalSize: number;
  /** Valid until the next unit is read. */
  readonly labels: Float32Array;
};

export class UnitReader {
  /** Global batches of an epoch. */
  readonly batchCount: number;
  readonly #dataset: Dataset;
  readonly #network: Network;
  /** By part. */
  readonly #parts: readonly Batches[];
  readonly #labels: Float32Array;

  /** Throws BAD_ARGUMENT, also for parts that are larger than the network's batches. */
  constructor(
    dataset: Dataset,
    network: Network,
    options: Omit<BatchesOptions, "sampleCount" | "shard" | "shardCount"> & { partCount: number },
  ) {
    const { partCount, batchSize, seed } = options;
    const { sampleCount } = dataset;
    this.#dataset = dataset;
    this.#network = network;
    this.#parts = Array.from(
      { length: partCount },
      (_, shard) => new Batches({ sampleCount, batchSize, seed, shard, shardCount: partCount }),
    );
    this.batchCount = this.#parts[0]!.batchCount;
    const unitSize = Math.ceil(batchSize / partCount);
    if (unitSize > network.sampleCountMax) {
      const text = `a batch of ${batchSize} cut among ${partCount} workers has parts of ${unitSize} samples`;
      throw new WeighbridgeError("BAD_ARGUMENT", `${text}; the network was built for ${network.sampleCountMax}`);
    }
    this.#labels = new Float32Array(unitSize);
  }

  /** How many samples of the epoch a unit has: none, where a last batch has too few. */
  sizeOf(epoch: number, { batch, part }: Unit): number {
    return this.#parts[part]!.at(epoch, batch).length;
  }

  /** Writes the values into the network's input. */
  read(epoch: number, { batch, part }: Unit): UnitSamples {
    const batches = this.#parts[part]!;
    const indexes = batches.at(epoch, batch);
    const labels = this.#labels.subarray(0, indexes.length);
    const { input } = this.#network;
    if (input !== undefined) {
      input.sampleCount = indexes.length;
      this.#dataset.readValues?.(indexes, input);
    }
    this.#dataset.readLabels(indexes, labels);
    return { sampleCount: indexes.length, globalSize: batches.globalSize(batch), labels };
  }

  /** The ids of a unit, in an array of their own. */
  readIds(epoch: number, { batch, part }: Unit): IdBatch {
    const indexes = this.#parts[part]!.at(epoch, batch);
    const { idsPerSample } = this.#network;
    const ids = new Float64Array(indexes.length * idsPerSample);
    this.#dataset.readIds?.(indexes, ids);
    return { ids, sampleCount: indexes.length, idsPerSample };
  }
}
