// coverage — whether the chunks of all shard files are a whole checkpoint: every row of every tensor once, and as many
// rows of every table as its manifest says. Pure. It does not check that no key is in two chunks: it would have to read
// them.

import type { CheckpointManifest } from "./checkpoint-manifest.ts";
import type { ParameterRecord } from "./parameter-record.ts";
import type { Chunk } from "./shard-header.ts";

/** Chunks by their parameter's name, those of a tensor by their rows. */
export function chunksByParameter(chunks: readonly Chunk[]): Map<string, Chunk[]> {
  const byParameter = new Map<string, Chunk[]>();
  for (const chunk of chunks) {
    const list = byParameter.get(chunk.key.parameter);
    if (list === undefined) byParameter.set(chunk.key.parameter, [chunk]);
    else list.push(chunk);
  }
  for (const list of byParameter.values()) list.sort((one, other) => one.key.from - other.key.from);
  return byParameter;
}

/** A sentence for each parameter that is not whole. */
export function coverageProblems(manifest: CheckpointManifest, chunks: ReadonlyMap<string, readonly Chunk[]>): string[] {
  return manifest.parameters.flatMap((parameter) => {
    const own = chunks.get(parameter.name) ?? [];
    const problem = parameter.kind === "tensor" ? tensorProblem(parameter, own) : tableProblem(parameter, own);
    return problem === undefined ? [] : [`parameter ${JSON.stringify(parameter.name)} ${problem}`];
  });
}

function tensorProblem({ rowCount }: ParameterRecord, chunks: readonly Chunk[]): string | undefined {
  let covered = 0;
  for (const { key, file } of chunks) {
    if (key.from > covered) return `has no rows ${covered} to ${key.from - 1} in any file`;
    if (key.from < covered) return `has row ${key.from} twice, once in ${file}`;
    covered = key.to;
  }
  return covered < rowCount ? `has no rows ${covered} to ${rowCount - 1} in any file` : undefined;
}

function tableProblem({ rowCount }: ParameterRecord, chunks: readonly Chunk[]): string | undefined {
  const found = chunks.reduce((sum, chunk) => sum + chunk.rowCount, 0);
  return found === rowCount ? undefined : `has ${found} rows in the files; the manifest says ${rowCount}`;
}
