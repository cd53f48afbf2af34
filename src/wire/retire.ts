// retire — RETIRE: a server that no part is left to asks its clients whether they still have something open there.

import { type Check, count, object } from "./json-body.ts";
import { type PlacementView, placementShape } from "./roster.ts";

/** RETIRE: the placement without the server that sends this, and how many calls the receiver has open with it. */
export type RetireRequest = { readonly placement: PlacementView };
export const retireRequestShape: Check<RetireRequest> = object({ placement: placementShape });
export type RetireReply = { readonly openCount: number };
export const retireReplyShape: Check<RetireReply> = object({ openCount: count });
