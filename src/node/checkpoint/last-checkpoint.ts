// last-checkpoint — what servers with a checkpoint directory do at the orderly end of a job: when all nodes are done,
// the live server with the lowest rank takes an ordinary checkpoint, and the others stay until it has left. A server
// that is stopped before is another matter (server/replication/planned-stop.ts).
//
//   all nodes have passed the last barrier ──► no server serves clients any more ──► lowest rank: checkpoint, LEAVE
//                                                                                ──► the others: LEAVE
//
// Invariants:
//   LastCheckpoint.L1. The end waits for SAVE_MS at most: a server that dies fails the checkpoint, a full disk does,
//       and servers whose lowest rank is gone do not wait for it.
//   LastCheckpoint.L2. A job that was not saved does not end well: the process that could not save it ends with the
//       reason, and durable servers keep their logs.
//   LastCheckpoint.L3. A job whose script leaves notes in its checkpoints says itself where to go on: no checkpoint
//       without a note takes their place.
//   LastCheckpoint.L4. What a guest was told is in the checkpoint: no server acknowledges anything from the moment on
//       in which the first one may be cut. The clock is the one at which the last worker stood. Where that was killed
//       before all servers heard so, it is the highest that one heard, and no server waits for it.
//   LastCheckpoint.L5. The job is saved, or ends with the reason, if any server holds something: the one that saves may
//       have been restarted with nothing.

import { takeCheckpoint } from "../../api/checkpoint.ts";
import { restOf, sleep, waitFor } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { ServerNode } from "../../server/server-node.ts";
import type { SnapshotFiles } from "../../store/snapshot/snapshot-files.ts";
import { serverRanks } from "../../wire/roster.ts";
import { holdsState, lowestServer, type PeriodicCheckpoints } from "./periodic-checkpoints.ts";

export type LastCheckpointOptions = {
  readonly files: SnapshotFiles;
  /** How many stay; undefined: all. */
  readonly keep?: number | undefined;
  /** What takes checkpoints until then. */
  readonly periodic?: PeriodicCheckpoints | undefined;
  /** LastCheckpoint.L1 */
  readonly saveMs: number;
};

/** How soon a checkpoint is taken again for which another one that was under way left no room. */
const AGAIN_MS = 200;

/** Saves the job, or waits for the server that does. Throws why it was not saved (LastCheckpoint.L2). */
export async function takeLastCheckpoint(node: ServerNode, { files, keep, periodic, saveMs }: LastCheckpointOptions): Promise<void> {
  const { clock } = node;
  const rest = restOf({ timeoutMs: saveMs }, clock);
  await periodic?.close();
  try {
    if (!(await waitFor(holdsState(node), "the other servers to say what they hold", clock, rest()))) return;
    const saver = lowestServer(node);
    await node.closeToClients(rest()); // LastCheckpoint.L4
    if (saver === node.rank) await waitFor(save(node, files, keep), "the checkpoint at the end of the job", clock, rest());
    else if (saver !== undefined) await waitFor(saved(node, files, saver), `server ${saver} to save the job`, clock, rest());
  } catch (thrown) {
    const code = isWeighbridgeError(thrown) ? thrown.code : "CHECKPOINT_IO";
    const error = new WeighbridgeError(code, `the job has ended, and was not saved: ${reasonOf(thrown)}`, { cause: thrown });
    node.log.warn("no checkpoint was taken at the end of the job", { code, reason: reasonOf(thrown) });
    throw error;
  }
}

async function save(node: ServerNode, files: SnapshotFiles, keep: number | undefined): Promise<void> {
  const { log, clock, roster } = node;
  if (await hasNote(files, node.peer.job)) {
    log.info("no checkpoint is taken at the end of the job: its script leaves notes in those that it takes");
    return;
  }
  const servers = { servers: serverRanks(roster), call: node.callServer.bind(node) };
  for (;;)
    try {
      const { clockMin, clockReported } = node.server.parameters.pacer.clocks;
      const standsAt = (cut: number): number => (cut > clockMin ? cut : clockReported); // others heard of a later clock
      const options = { createdAt: new Date().toISOString(), keep, standsAt };
      const { path, clock: at, warning } = await takeCheckpoint(servers, options);
      log.info("took a checkpoint at the end of the job", { path, clock: at });
      if (warning !== undefined) log.warn("after the checkpoint", { reason: warning });
      return;
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown;
      await sleep(clock, AGAIN_MS);
    }
}

/** LastCheckpoint.L3. Whether the newest checkpoint there is of this run, and has a note. */
async function hasNote(files: SnapshotFiles, run: string): Promise<boolean> {
  try {
    const newest = await files.open();
    const { state } = newest.manifest;
    await newest.close();
    return state.run === run && state.note !== undefined;
  } catch {
    return false; // there is none, or one that nobody can go on with
  }
}

/** The server of this rank takes the checkpoint, and leaves then. Throws NODE_DEAD if it dies, CHECKPOINT_MISSING. */
async function saved(node: ServerNode, files: SnapshotFiles, rank: number): Promise<void> {
  if ((await node.whenServerGone(rank)) === "dead")
    throw new WeighbridgeError("NODE_DEAD", `server ${rank}, which was to save it, is dead`);
  const step = node.server.checkpoints.savedStep;
  if (!node.isDurable) return; // that one has said it
  if (step !== undefined) await (await files.open(step)).close();
  else throw new WeighbridgeError("CHECKPOINT_MISSING", `server ${rank} took no checkpoint with all that this server has`);
}
