// server-seat — what a server does once it knows its place: it learns what it owns, and is what it is to begin with before anybody can ask for it.

import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { CHECKPOINT } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { CommandLineDesk } from "../server/checkpoint/command-line-desk.ts";
import { ServerPlace } from "../server/checkpoint/server-place.ts";
import type { Server } from "../server/server.ts";
import type { SnapshotSource } from "../store/snapshot/snapshot-files.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";

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

/** What the command line asks comes through the scheduler, which says who of several asks, and when it is gone. */
export function serveCheckpoints(peer: Peer, { checkpoints }: Server): void {
  const desk = new CommandLineDesk(checkpoints);
  peer.serve(
    serveJson(CHECKPOINT, async (channel, request) => {
      if (channel.id === SCHEDULER_ID) return await desk.serve(request);
      throw new WeighbridgeError("BAD_REQUEST", `CHECKPOINT comes from the scheduler, not from ${channel.name}`);
    }),
  );
}
