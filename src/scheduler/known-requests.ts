// known-requests — which requests for other numbers of servers and workers were carried out already, so that a client
// may repeat one whose answer was lost. Pure.
//
// Invariants:
//   KnownRequests.K1. Of two requests with one id the second changes nothing: it has the answer of the first. The last
//       REQUESTS_MAX ids are known, by every scheduler of the job; those of changes that wait are among them.
//   KnownRequests.K2. Without an id, a request for as many more as a change adds that has not ended is refused: it may
//       be a repetition. Requests for a number in all, or for certain nodes to leave, change nothing when repeated.

import { badRequest, type WeighbridgeError } from "../base/errors.ts";
import type { ScaleRequest } from "../wire/scaling.ts";

/** More than changes that wait, and have ended, are kept. */
const REQUESTS_MAX = 32;

/** What somebody asks of the servers, of the workers, or of both at once. */
export type JobChange = { readonly servers?: ScaleRequest | undefined; readonly workers?: ScaleRequest | undefined };

export type KnownRequest = {
  readonly id: string;
  /** What was asked for, in words. */
  readonly ask: string;
  /** Of the change of the servers, if they were to change. */
  readonly number?: number | undefined;
};

export type RequestRecord = { readonly kind: "request" } & KnownRequest;

export function applyToRequests(requests: readonly KnownRequest[], record: RequestRecord): readonly KnownRequest[] {
  const { kind: _, ...request } = record;
  return [...requests, request].slice(-REQUESTS_MAX);
}

/** The request of this change, if it has an id. `number` is left out. */
export function requestOf({ servers, workers }: JobChange): KnownRequest | undefined {
  const id = servers?.requestId ?? workers?.requestId;
  const asks = [...askOf("servers", servers), ...askOf("workers", workers)];
  return id === undefined ? undefined : { id, ask: asks.join(", ") };
}

/** The one of this id that was carried out (KnownRequests.K1). Throws BAD_REQUEST if it asked for something else. */
export function knownRequest(requests: readonly KnownRequest[], { id, ask }: KnownRequest): KnownRequest | undefined {
  const known = requests.find((request) => request.id === id);
  if (known === undefined || known.ask === ask) return known;
  throw badRequest(`request_id ${JSON.stringify(id)} was given for ${known.ask}, and now for ${ask}: every request has one of its own`);
}

/** KnownRequests.K2 */
export function maybeRepeated(what: string): WeighbridgeError {
  return badRequest(`${what} has not ended; a request that is no repetition of it needs a request_id (requestId) of its own`);
}

function askOf(what: string, request: ScaleRequest | undefined): readonly string[] {
  if (request === undefined) return [];
  const { to, add, leave } = request;
  if (leave !== undefined) return [`${what} without ${leave.toSorted((a, b) => a - b).join(" ")}`];
  return [to === undefined ? `${what} +${add}` : `${what} ${to}`];
}
