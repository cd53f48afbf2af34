// between-servers — serves what other servers call: the new owner of parts that have left this server, and the head
// whose standby it is (contracts/between-servers.ts); and what the scheduler calls when the servers of the job change
// (scaling-part.ts).

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { freeBuffer } from "../../base/free-buffer.ts";
import { partsFetch, replicaLog } from "../../contracts/between-servers.ts";
import type { JsonContract } from "../../contracts/contract.ts";
import { scalingSpare, scalingSurvey } from "../../contracts/scaling.ts";
import { nameOf, rankOf, roleOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { freePages } from "../parameters/part-state.ts";
import { packedBytes } from "../replication/packed-body.ts";
import type { ScalingPart } from "../scaling-part.ts";
import { type ServedFunction, serve } from "../server-context.ts";

export const SERVER_HANDLERS: readonly ServedFunction[] = [
  serve(partsFetch, {
    inPlace: true,
    handler: ({ departure, holder, ownership }, { epoch, from, asMember }, call) => {
      if (ownership.epoch < epoch) throw unheard(ownership.rank, epoch);
      const parts = departure.read(ownerOf(holder.worker), { epoch, from, asMember });
      const body = packedBytes(parts);
      freePages(parts.pages);
      call.hold({ release: () => freeBuffer(body) });
      return { body };
    },
  }),
  serve(replicaLog, {
    inPlace: true,
    handler: ({ replica, holder }, { first, entries }) => {
      if (replica === undefined) throw new WeighbridgeError("UNSUPPORTED", "this server is not replicated: start it with replicas 2");
      return { applied: replica.standbyLog.repeat(holder, first, entries) };
    },
  }),
  forScheduler(scalingSurvey, (scaling) => scaling.survey()),
  forScheduler(scalingSpare, (scaling, notice) => {
    scaling.spare(notice);
    return {};
  }),
];

/** The new owner asks again. */
function unheard(rank: number, epoch: number): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", `server ${rank} has not heard of the placement of epoch ${epoch}`, { retryable: true });
}

/** Throws BAD_REQUEST unless a server calls. */
function ownerOf(node: number): number {
  if (roleOf(node) === "server") return rankOf(node);
  throw badRequest(`parts go from server to server, not to ${nameOf(node)}`);
}

/** Refuses it to others with BAD_REQUEST, and where there is no job to change, with UNSUPPORTED. */
function forScheduler<Q, R>(fn: JsonContract<Q, R>, answer: (scaling: ScalingPart, request: Q) => R): ServedFunction {
  return serve(fn, {
    handler: ({ holder: { worker }, scaling }, { body }) => {
      if (worker !== SCHEDULER_ID) throw badRequest(`${fn.name} comes from the scheduler, not from ${nameOf(worker)}`);
      if (scaling === undefined) throw new WeighbridgeError("UNSUPPORTED", "this server has no job");
      return { body: answer(scaling, body) };
    },
  });
}
