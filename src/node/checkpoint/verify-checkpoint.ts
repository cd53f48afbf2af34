// verify-checkpoint — reads all of a checkpoint and reports every problem, where a reader stops at the first.

import { join } from "node:path";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { type CheckpointManifest, MANIFEST_FILE } from "../../store/snapshot/checkpoint-manifest.ts";
import { chunksByParameter, coverageProblems } from "../../store/snapshot/coverage.ts";
import type { Chunk } from "../../store/snapshot/shard-header.ts";
import { type OpenShard, readManifest, readSection, readShardHeader, requireChecksum } from "./checkpoint-reader.ts";
import { type FileLayer, realFiles, withFile } from "./file-layer.ts";

const READ_BYTES = 1 << 20;

export type Verification = {
  /** Undefined if not even the manifest can be read. */
  readonly manifest: CheckpointManifest | undefined;
  readonly fileCount: number;
  /** Bytes that were read and are correct. */
  readonly bytes: number;
  /** A sentence for each problem; it names the file. */
  readonly problems: readonly string[];
};

/** `path` is the checkpoint's own directory. */
export async function verifyCheckpoint(path: string, layer: FileLayer = realFiles): Promise<Verification> {
  let manifest: CheckpointManifest;
  try {
    manifest = await readManifest(path, layer);
  } catch (thrown) {
    return { manifest: undefined, fileCount: 0, bytes: 0, problems: [problemOf(thrown)] };
  }
  const problems: string[] = [];
  const chunks: Chunk[] = [];
  let [bytes, fileCount] = [0, 0];
  for (const { rank, files } of manifest.servers) {
    for (const record of files) {
      fileCount++;
      const shardPath = join(path, record.file);
      try {
        await withFile(
          shardPath,
          () => layer.open(shardPath),
          async (file) => {
            const shard = { file, path: shardPath };
            const own = await readShardHeader(shard, { record, manifest, server: rank });
            const wrong = await verifySections(shard, own);
            for (const chunk of own) chunks.push(chunk);
            problems.push(...wrong);
            if (wrong.length === 0) bytes += record.bytes;
          },
        );
      } catch (thrown) {
        problems.push(problemOf(thrown));
      }
    }
  }
  // If a file is missing, its missing rows are not reported again.
  if (problems.length === 0) {
    problems.push(...coverageProblems(manifest, chunksByParameter(chunks)).map((problem) => `${join(path, MANIFEST_FILE)}: ${problem}`));
  }
  return { manifest, fileCount, bytes, problems };
}

async function verifySections(shard: OpenShard, chunks: readonly Chunk[]): Promise<string[]> {
  const problems: string[] = [];
  const buffer = new Uint8Array(READ_BYTES);
  for (const chunk of chunks) {
    for (const section of chunk.sections.values()) {
      const counted = await readSection(shard, section, (from) => buffer.subarray(0, section.bytes - from));
      try {
        requireChecksum(counted, { chunk, section, path: shard.path });
      } catch (thrown) {
        problems.push(problemOf(thrown));
      }
    }
  }
  return problems;
}

/** Only errors that the files cause; a bug of ours is thrown. */
function problemOf(thrown: unknown): string {
  if (thrown instanceof WeighbridgeError) return `${thrown.code}: ${reasonOf(thrown)}`;
  throw thrown;
}
