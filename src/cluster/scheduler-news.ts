// scheduler-news — what the scheduler tells a node unasked: newer rosters, and that the job is over.
//
// Invariants:
//   SchedulerNews.N1. Nobody but the scheduler is believed.

import { type ErrorCode, WeighbridgeError } from "../base/errors.ts";
import { ABORT, ROSTER } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";

export type NewsListener = { roster(roster: RosterView): void; aborted(error: WeighbridgeError): void };

export function serveSchedulerNews(peer: Peer, listener: NewsListener): void {
  peer.serve(
    serveJson(ROSTER, (channel, roster) => {
      checkSender(channel, "ROSTER");
      listener.roster(roster);
      return {};
    }),
  );
  peer.serve(
    serveJson(ABORT, (channel, { code, message }) => {
      checkSender(channel, "ABORT");
      listener.aborted(new WeighbridgeError(code as ErrorCode, message));
      return {};
    }),
  );
}

/** N1. Throws BAD_REQUEST. */
export function checkSender(channel: Channel, what: string): void {
  if (channel.id !== SCHEDULER_ID) throw new WeighbridgeError("BAD_REQUEST", `${what} comes from the scheduler, not from ${channel.name}`);
}
