// served-function — a contract and this server's handler of it.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { type ServedFunction as NodeFunction, type ServingOptions, servedFunction } from "../peer/served-function.ts";
import type { Fields } from "../wire/function-schema.ts";
import type { ServerContext } from "./server-context.ts";

export type ServedFunction<Q extends Fields = Fields, R extends Fields = Fields> = NodeFunction<ServerContext, Q, R>;

/** For lists of functions of any schemas. */
export function serve<Q extends Fields, R extends Fields>(
  contract: Contract<Q, R>,
  options: ServingOptions<ServerContext, Q, R>,
): ServedFunction {
  return servedFunction(contract, options);
}

/**
 * The answer of an update that counts already. Any failure to read it is ANSWER_LOST: after another error the sender
 * would take the update for a refused one, and apply it twice.
 */
export function answerOfApplied<T>(read: () => T | Promise<T>): T | Promise<T> {
  try {
    const answer = read();
    return answer instanceof Promise ? answer.catch(answerLost) : answer;
  } catch (thrown) {
    return answerLost(thrown);
  }
}

function answerLost(thrown: unknown): never {
  if (isWeighbridgeError(thrown, "ANSWER_LOST")) throw thrown;
  throw new WeighbridgeError("ANSWER_LOST", `it was applied, but what it is to answer cannot be read: ${reasonOf(thrown)}`, {
    cause: thrown,
  });
}
