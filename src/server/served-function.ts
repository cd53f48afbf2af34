// served-function — a contract and what this server does about it: its handlers know the server's state.

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
