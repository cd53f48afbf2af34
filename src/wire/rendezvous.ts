// rendezvous — RENDEZVOUS: a worker comes to a generation of a name with a small value, and is answered when every live worker has come, or after
// `waitMs` with those who have not (cluster/rendezvous.ts).

import { type Check, count, list, object, optional, shortText } from "./json-body.ts";

export const RENDEZVOUS_NAME_LENGTH_MAX = 256;
export const RENDEZVOUS_VALUE_LENGTH_MAX = 1024;

/** A generation of a name, 0, 1, 2 …: no two are the same rendezvous. */
export type RendezvousName = { readonly name: string; readonly generation: number };
const nameFields = { name: shortText(RENDEZVOUS_NAME_LENGTH_MAX), generation: count };

/** What a worker came with. */
export type RendezvousValue = { readonly rank: number; readonly value: string };
const valueShape: Check<RendezvousValue> = object({ rank: count, value: shortText(RENDEZVOUS_VALUE_LENGTH_MAX) });

export type RendezvousRequest = RendezvousName & { readonly value: string; readonly waitMs: number };
export const rendezvousRequestShape: Check<RendezvousRequest> = object({
  ...nameFields,
  value: shortText(RENDEZVOUS_VALUE_LENGTH_MAX),
  waitMs: count,
});

/** `values`, by rank, when it is held; otherwise `missing`, the ranks of the live workers that have not come. */
export type RendezvousReply = {
  readonly values?: readonly RendezvousValue[] | undefined;
  readonly missing?: readonly number[] | undefined;
};
export const rendezvousReplyShape: Check<RendezvousReply> = object({ values: optional(list(valueShape)), missing: optional(list(count)) });

/** What a worker tells a scheduler that was restarted: a generation that it has left, and with which values. */
export type RendezvousHeld = RendezvousName & { readonly values: readonly RendezvousValue[] };
export const rendezvousHeldShape: Check<RendezvousHeld> = object({ ...nameFields, values: list(valueShape) });
