// server-restore — fills a server without parameters from a checkpoint, whichever servers wrote it
// (spec/consistency.md, D4, D5 and D6).
//
//   values, slots, steps, versions   of what this server owns now, also if another owned it then
//   sums                             the same (sums-restore.ts)
//   learning rate, schedule, bound   as they were at the cut
//   push counts of tables            this server's own if there are as many servers as then, otherwise the highest: a
//                                    push that names rows of several servers counts on each
//   clocks                           those of the cut: workers join there
//   vector clocks                    only within the run that wrote it, since incarnations count from 1 in every run.
//                                    This server's own if there are as many servers as then, otherwise the highest of
//                                    each worker: no update may count twice

import { unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { CheckpointManifest, ServerRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import { specOf } from "../../store/snapshot/describe-parameter.ts";
import type { ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import { requireSameModel } from "../../store/snapshot/same-model.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { decodeTraining, type TrainingState } from "../../store/training-state.ts";
import type { ParameterNumber } from "../../wire/catalogue.ts";
import type { JsonObject } from "../../wire/json-value.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { explainedRoom, isAppCut, sourcesOf } from "./expected-rows.ts";
import { restoreParameter } from "./parameter-restore.ts";
import { restoreSums } from "./sums-restore.ts";

type ServerRestoreOptions = {
  readonly source: SnapshotSource;
  readonly parameters: Parameters;
  readonly vectorClock: VectorClock;
  readonly ownership: Ownership;
  /** The run of the job: incarnations of workers are comparable within one run only. */
  readonly run: string;
  readonly catalogue: RestoreCatalogue;
};

/** The scheduler's catalogue: it numbers names before a read, and creates them when the parameters become visible. */
export type RestoreCatalogue = {
  reserve(names: readonly string[], what: string): Promise<readonly ParameterNumber[]>;
  open(specs: readonly string[], what: string): Promise<readonly ParameterNumber[]>;
};

/**
 * Loads the parameters, which nobody may use until the returned function has created them in the catalogue; it also
 * sets the checkpoint's clocks, and rejects with SPEC_MISMATCH if somebody created one of them with another spec
 * meanwhile. Throws CHECKPOINT_TORN, _FOREIGN or _IO, ARENA_FULL, SCHEDULER_UNREACHABLE, and then leaves no parameter
 * behind.
 */
export async function restoreServer({
  source,
  parameters,
  vectorClock,
  ownership,
  run,
  catalogue,
}: ServerRestoreOptions): Promise<() => Promise<void>> {
  const { manifest, path } = source;
  const { host } = parameters;
  if (isAppCut(manifest)) requireSameServers(manifest, ownership, path);
  const records = manifest.parameters.filter(({ kind }) => kind !== "sums");
  const specs = records.map((record) => host.plugIns.current(specOf(record, path)));
  const wanted = specs.map((spec) => host.plugIns.describe(spec));
  const loaded = specs.filter((spec, i) => host.plugIns.loaderOf(spec, records[i]!, path) !== undefined);
  requireSameModel(path, records, wanted, new Set(loaded.map(({ name }) => name)));
  const states = records.map((record) => trainingOf(record, manifest, ownership, path));
  const names = specs.map(({ name }) => name);
  const numbers = await catalogue.reserve(names, `number the parameters of ${path}`);
  try {
    // Tensors reserve their room first: rows of tables may lie elsewhere.
    const made = specs.map((spec, i) => parameters.add(spec, numbers[i]!));
    for (const [i, record] of records.entries()) {
      made[i]!.resume(states[i]!);
      await restoreParameter(made[i]!, { source, record, host, ownership, number: numbers[i]!.number });
    }
    await restoreSums(parameters.sums, source, ownership);
  } catch (thrown) {
    parameters.clearAll();
    throw explainedRoom(thrown, { source, numbers: numbers.map(({ number }) => number), ownership, arena: host.arena });
  }
  return async () => {
    const texts = specs.map((spec) => JSON.stringify(spec));
    const made = await catalogue.open(texts, `make the parameters of ${path}`);
    const other = names.findIndex((_, i) => made[i]?.number !== numbers[i]?.number || made[i]?.edition !== numbers[i]?.edition);
    if (other >= 0)
      throw new WeighbridgeError("ABORTED", `${names[other]} was cleared while ${path} was being restored`, { retryable: true });
    if (isAppCut(manifest)) ownership.noteAppCut();
    parameters.pacer.startAt(manifest.clock);
    for (const { vectorClock: entries } of clockSources(manifest, ownership, run)) {
      for (const { worker, incarnation, stamp } of entries) vectorClock.restore(worker, { incarnation, stamp });
    }
  };
}

function clockSources(manifest: CheckpointManifest, ownership: Ownership, run: string): readonly ServerRecord[] {
  return manifest.state.run === run ? sourcesOf(manifest, ownership) : [];
}

/** Throws UNSUPPORTED. */
function requireSameServers({ servers }: CheckpointManifest, { serverCount }: Ownership, path: string): void {
  if (servers.length === serverCount) return;
  const why = "an application of this job chose the servers of its requests itself (setSlicer, or a C++ worker)";
  throw unsupported(`${path} is of ${servers.length} servers and cannot be restored on ${serverCount}: ${why}`);
}

/** The training state of a parameter. Throws CHECKPOINT_FOREIGN. */
export function trainingOf(record: ParameterRecord, manifest: CheckpointManifest, ownership: Ownership, path: string): TrainingState {
  const common = decodeTraining(record.state, record.name, path);
  const steps = sourcesOf(manifest, ownership).map(
    ({ state }) => decodeTraining((state.training as JsonObject | undefined)?.[record.name], record.name, path).step,
  );
  return { ...common, step: Math.max(0, ...steps) };
}
