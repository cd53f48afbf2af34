// served-function — a contract with its handler. Our functions are made here; those of users (contracts/ps-function.ts)
// have the same shape.

import { assert } from "../base/assert.ts";
import type { Contract } from "../contracts/contract.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { ServedCall } from "./function-host.ts";

/** Answers a request, now or later. `C` is what it knows of the caller. */
type Handler<C, Q extends Fields, R extends Fields> = (
  context: C,
  request: FieldValues<Q>,
  call: ServedCall,
) => FieldValues<R> | Promise<FieldValues<R>>;

export type ServedFunction<C, Q extends Fields = Fields, R extends Fields = Fields> = Contract<Q, R> & {
  /** Whether its handler gets views of the read buffer instead of arrays of its own. */
  readonly isInPlace: boolean;
  handle(context: C, request: FieldValues<Q>, call: ServedCall): FieldValues<R> | Promise<FieldValues<R>>;
  handleAgain(context: C, request: FieldValues<Q>, call: ServedCall): FieldValues<R> | Promise<FieldValues<R>>;
};

export type ServingOptions<C, Q extends Fields, R extends Fields> = {
  /** The handler gets views of the read buffer, valid until it returns or awaits; its response may lie in the arena. */
  readonly inPlace?: boolean;
  readonly handler: Handler<C, Q, R>;
  /** Makes the answer of an applied call anew and changes nothing; for contracts that answer again. */
  readonly again?: Handler<C, Q, R>;
};

/** For lists of functions of any schemas. */
export function servedFunction<C, Q extends Fields, R extends Fields>(
  contract: Contract<Q, R>,
  options: ServingOptions<C, Q, R>,
): ServedFunction<C> {
  const { inPlace = false, handler, again } = options;
  const answersAgain = contract.isUpdate && !contract.keepsAnswers && !contract.response.isEmpty;
  assert(answersAgain === (again !== undefined), `${contract.name} is served as its contract says`);
  const served: ServedFunction<C, Q, R> = { ...contract, isInPlace: inPlace, handle: handler, handleAgain: again ?? handler };
  return served as unknown as ServedFunction<C>;
}
