// row-exchange — what workers that cache rows of a table tell each other (training/tiered-rows.ts). They do not call
// each other: every step of theirs is one exchange among all (collective.ts), whose bytes are one of these messages for
// each receiver. The layouts are their own, so that rows are written once, to where they leave from.

import type { Effect, Target } from "./contract.ts";

/** A message of an exchange; `kind` is its first word. */
export type ExchangeContract = {
  readonly kind: number;
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly layout: string;
};

const layout = "training/row-messages.ts";
const common = { target: "worker", layout } as const;

/** The rows that the sender wants of the receiver. */
export const rowsAsk: ExchangeContract = { ...common, kind: 1, name: "wb/row-exchange/ask", effect: "read" };
/** Those rows, or why there are none. */
export const rowsGive: ExchangeContract = { ...common, kind: 2, name: "wb/row-exchange/give", effect: "read" };
/** What the sender's batch gives for rows of the receiver. */
export const rowsGradients: ExchangeContract = { ...common, kind: 3, name: "wb/row-exchange/gradients", effect: "update" };
/** What the workers agree on: anything in JSON. */
export const rowsDeal: ExchangeContract = { ...common, kind: 4, name: "wb/row-exchange/deal", effect: "update" };
