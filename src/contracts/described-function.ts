// described-function — what all functions of users' own are described by: those of servers (ps-function.ts) and
// those of workers (worker-function.ts). Makes them; known-function.ts recognises them.

import { badArgument, showValue } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import type { Fields } from "../wire/function-schema.ts";
import { type Contract, contract } from "./contract.ts";

/** How a function is described: its name, and the fields of its request and response. */
export type FunctionDescription<Q extends Fields, R extends Fields> = {
  /** Names it on the wire. Unique within a node. */
  readonly name: string;
  /** The fields of its request, by name. */
  readonly request: Q;
  /** The fields of its response, by name. */
  readonly response: R;
  /** Promises that the handler changes nothing: it may then run again. */
  readonly reads?: boolean | undefined;
};

/**
 * The contract of a function of a user's own. Throws BAD_ARGUMENT for what is no description, and for an option that is
 * none of `optionNames`.
 */
export function describedFunction<const Q extends Fields, const R extends Fields>(
  options: FunctionDescription<Q, R>,
  {
    target,
    optionNames,
    answersAgain = false,
  }: { readonly target: "server" | "worker"; readonly optionNames: readonly string[]; readonly answersAgain?: boolean },
): Contract<Q, R> {
  if (typeof options !== "object" || options === null)
    throw badArgument(`a function is described by an object with ${optionNames.join(", ")}, not ${showValue(options)}`);
  const { name, request, response, reads = false } = options;
  const made = contract({ name, request, response, target, effect: reads ? "read" : "update", answersAgain });
  // "read" would be no promise at all.
  const unknown = Object.keys(options).find((option) => !optionNames.includes(option));
  if (unknown !== undefined)
    throw badArgument(
      `${name}: a function has no ${JSON.stringify(unknown)}; there are ${optionNames.join(", ")}${didYouMean(unknown, optionNames)}`,
    );
  return made;
}

/** Throws BAD_ARGUMENT for what is no function. */
export function checkHandler(name: string, handler: unknown): void {
  if (typeof handler === "function") return;
  throw badArgument(`${name}: a handler is a function, not ${showValue(handler)}`);
}
