// server-seat — what a server does once it knows its place: it learns what it owns, and is what it is to begin with before anybody can ask for it.

import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { ServerPlace } from "../functions/checkpoint/server-place.ts";
import type { Channel } from "../peer/channel.ts";
import { CHECKPOINT } from "../peer/control-messages.ts";
import { serveControl } from "../peer/json-call.ts";
import type { Peer } from "../peer/peer.ts";
import type { Server } from "../server/server.ts";
import type { SnapshotSource } from "../store/snapshot/snapshot-files.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";

/** Who takes a checkpoint that the scheduler hands on. */
const COMMAND_LINE = "the command line";

export type ServerSeat = {
  readonly rank: number;
  readonly serverCount: number;
  /** The job's name. */
  readonly run: string;
  readonly restoreFrom: (() => Promise<SnapshotSource>) | undefined;
  readonly log: Log;
};

/** Seats a server, and restores the checkpoint that it is to begin with. Throws what is wrong with that. */
export async function seatServer({ checkpoints }: Server, { rank, serverCount, run, restoreFrom, log }: ServerSeat): Promise<void> {
  checkpoints.seat(new ServerPlace({ rank, serverCount, run }));
  if (restoreFrom === undefined) return;
  const { path, step, clock, parameters } = await checkpoints.load(restoreFrom, { owner: "the start" });
  checkpoints.activate(step);
  log.info("restored a checkpoint", { path, clock, parameters: parameters.length });
}

/** What the command line asks comes through the scheduler. */
export function serveCheckpoints(peer: Peer, { checkpoints }: Server): void {
  const serve = async (channel: Channel, op: string, body: string): Promise<{ readonly body: string }> => {
    if (channel.id === SCHEDULER_ID) return { body: await checkpoints.handle(op, body, COMMAND_LINE) };
    throw new WeighbridgeError("BAD_REQUEST", `CHECKPOINT comes from the scheduler, not from ${channel.name}`);
  };
  peer.serve(
    CHECKPOINT.functionId,
    serveControl(CHECKPOINT, (channel, { op, body }) => serve(channel, op, body)),
  );
}
