// generation — the workers that reduce among themselves, as messages name them. What they send each other is in
// collective-frame.ts.

import { type Check, count, list, object } from "./json-body.ts";

/** One incarnation of a worker. */
export type Member = { readonly node: number; readonly incarnation: number };

/** Who takes part in operations, by rank. It never changes: when one of them is gone, the others form the next one. */
export type Generation = { readonly generation: number; readonly members: readonly Member[] };

export const generationShape: Check<Generation> = object({ generation: count, members: list(object({ node: count, incarnation: count })) });
