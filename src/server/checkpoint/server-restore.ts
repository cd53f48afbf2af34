// server-restore — fills a server without parameters from a checkpoint, whichever servers wrote it. spec/consistency.md, D4, D5 and D6.
//
//   values, slots, steps, versions   of what this server owns now, from whoever owned it then
//   learning rate, schedule, bound   as they were at the cut
//   push counts of tables            this server's own when there are as many servers as then, otherwise the highest: a push that names rows of
//                                    several servers counts on each, so no server knows a truer number of all pushes
//   clocks                           the cut's: workers join there
//   vector clocks                    within the run that wrote it, and in no other: lives of workers count from 1 in every run. This server's own
//                                    when there are as many servers as then, otherwise the highest of each worker: never twice comes before all else

import { WeighbridgeError } from "../../base/errors.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { CheckpointManifest, ServerRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import { describeParameter, specOf } from "../../store/snapshot/describe-parameter.ts";
import type { ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import { requireSameModel } from "../../store/snapshot/same-model.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { decodeTraining, type TrainingState } from "../../store/training-state.ts";
import type { ParameterNumber } from "../../wire/catalogue.ts";
import type { JsonObject } from "../../wire/json-value.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { restoreParameter } from "./parameter-restore.ts";
import type { ServerPlace } from "./server-place.ts";

export type ServerRestoreOptions = {
  readonly source: SnapshotSource;
  readonly parameters: Parameters;
  readonly vectorClock: VectorClock;
  readonly place: ServerPlace;
  readonly catalogue: RestoreCatalogue;
};

/** The scheduler's catalogue, as a server asks it: names get their numbers before anything is read, and are made when what was read is to be seen. */
export type RestoreCatalogue = {
  reserve(names: readonly string[], what: string): Promise<readonly ParameterNumber[]>;
  open(specs: readonly string[], what: string): Promise<readonly ParameterNumber[]>;
};

/**
 * Loads the parameters, which nobody may use until the function it returns was called: that makes them in the catalogue, and begins at the checkpoint's clocks;
 * it rejects with SPEC_MISMATCH where somebody made one of them meanwhile, and described it differently. Throws CHECKPOINT_TORN, _FOREIGN or _IO, ARENA_FULL,
 * SCHEDULER_UNREACHABLE, and leaves no parameter behind then.
 */
export async function restoreServer({
  source,
  parameters,
  vectorClock,
  place,
  catalogue,
}: ServerRestoreOptions): Promise<() => Promise<void>> {
  const { manifest, path } = source;
  const { host } = parameters;
  const specs = manifest.parameters.map((record) => specOf(record, path));
  const wanted = specs.map((spec) => describeParameter(spec, host.workerCount));
  requireSameModel(path, manifest.parameters, wanted);
  const states = manifest.parameters.map((record) => trainingOf(record, manifest, place, path));
  const names = specs.map(({ name }) => name);
  const numbers = await catalogue.reserve(names, `number the parameters of ${path}`);
  try {
    for (const [i, record] of manifest.parameters.entries()) {
      const parameter = parameters.add(specs[i]!, numbers[i]!);
      parameter.resume(states[i]!);
      await restoreParameter(parameter, { source, record, host, place, number: numbers[i]!.number });
    }
  } catch (thrown) {
    parameters.clearAll();
    throw thrown;
  }
  return async () => {
    const texts = specs.map((spec) => JSON.stringify(spec));
    const made = await catalogue.open(texts, `make the parameters of ${path}`);
    const other = names.findIndex((_, i) => made[i]?.number !== numbers[i]?.number || made[i]?.edition !== numbers[i]?.edition);
    if (other >= 0)
      throw new WeighbridgeError("ABORTED", `${names[other]} was cleared while ${path} was being restored`, { retryable: true });
    parameters.pacer.startAt(manifest.clock);
    for (const { vectorClock: entries } of clockSources(manifest, place)) {
      for (const { worker, incarnation, stamp } of entries) vectorClock.restore(worker, { incarnation, stamp });
    }
  };
}

function clockSources({ servers, serverCount, state }: CheckpointManifest, place: ServerPlace): readonly ServerRecord[] {
  if (state.run !== place.run) return [];
  return serverCount === place.serverCount ? servers.filter(({ rank }) => rank === place.rank) : servers;
}

/** What training had made of a parameter. Throws CHECKPOINT_FOREIGN. */
export function trainingOf(
  record: ParameterRecord,
  { servers, serverCount }: CheckpointManifest,
  place: ServerPlace,
  path: string,
): TrainingState {
  const common = decodeTraining(record.state, record.name, path);
  const steps = servers
    .filter(({ rank }) => serverCount !== place.serverCount || rank === place.rank)
    .map(({ state }) => decodeTraining((state.training as JsonObject | undefined)?.[record.name], record.name, path).step);
  return { ...common, step: Math.max(0, ...steps) };
}
