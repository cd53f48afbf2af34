// served-function — a contract and what this server does about it. Built-in functions are made here; users' own (contracts/ps-function.ts) are of the
// same shape.

import { assert } from "../base/assert.ts";
import type { Contract } from "../contracts/contract.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { ServerContext } from "./server-context.ts";

/** What a handler does with a request, now or later. */
type Handler<Q extends Fields, R extends Fields> = (
  context: ServerContext,
  request: FieldValues<Q>,
) => FieldValues<R> | Promise<FieldValues<R>>;

export type ServedFunction<Q extends Fields = Fields, R extends Fields = Fields> = Contract<Q, R> & {
  /** Whether its handler gets views of the read buffer instead of arrays of its own. */
  readonly isInPlace: boolean;
  handle(context: ServerContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
  handleAgain(context: ServerContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
};

export type ServingOptions<Q extends Fields, R extends Fields> = {
  /** The handler gets views of the read buffer, which are void when it returns or awaits; and the arrays of its response may lie in the arena. */
  readonly inPlace?: boolean;
  readonly handler: Handler<Q, R>;
  /** Makes the answer of an applied call anew and changes nothing; for contracts that answer again. */
  readonly again?: Handler<Q, R>;
};

/** For lists of functions of any schemas. */
export function serve<Q extends Fields, R extends Fields>(contract: Contract<Q, R>, options: ServingOptions<Q, R>): ServedFunction {
  const { inPlace = false, handler, again } = options;
  const answersAgain = contract.isUpdate && !contract.keepsAnswers && !contract.response.isEmpty;
  assert(answersAgain === (again !== undefined), `${contract.name} is served as its contract says`);
  const served: ServedFunction<Q, R> = { ...contract, isInPlace: inPlace, handle: handler, handleAgain: again ?? handler };
  return served as unknown as ServedFunction;
}
