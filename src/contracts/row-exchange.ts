// row-exchange — messages of workers that cache rows of a table (training/tiered-rows.ts), in operations among
// themselves (collective.ts), one for each receiver. Their layouts write rows once, to where they leave from.

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
