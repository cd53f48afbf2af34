// ps-function — a PS function of a user's own: its contract and its handler in one, so that a module which servers load
// and workers import says both. Not the dispatch (peer/function-host.ts), not the call (peer/function-call.ts), and not
// the functions that workers serve (worker-function.ts).
//
//   const count = psFunction({
//     name: "count",
//     request: { table: "string" },
//     response: { rows: "u32" },
//     reads: true,
//     handler: (server, { table }) => ({ rows: [...server.rowsOf(table)].length }),
//   });
//
// Invariants:
//   PsFunction.P1. A function that changes state (`reads` not set) runs once for each call of a worker, however often
//       the call travels.
//   PsFunction.P2. One that only reads may run again when its answer was lost.
//   PsFunction.P3. A `deterministic` one does the same wherever it runs for the same requests, in the same order, on
//       the same state: replicated and durable servers repeat it. They refuse others that change state.

import { badArgument } from "../base/errors.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { Contract } from "./contract.ts";
import { checkHandler, describedFunction } from "./described-function.ts";
import type { FunctionContext } from "./function-context.ts";

/** How a function of servers is described. */
export type PsFunctionOptions<Q extends Fields, R extends Fields> = {
  /** Names it on the wire. Unique within a server. */
  readonly name: string;
  /** The fields of its request, by name. */
  readonly request: Q;
  /** The fields of its response, by name. */
  readonly response: R;
  /**
   * Promises that the handler changes nothing: it may then run again, and its calls survive a restart of the server
   * (PsFunction.P2).
   */
  readonly reads?: boolean | undefined;
  /**
   * The handler gets views of the read buffer, which are void when it returns or awaits, instead of arrays of its own;
   * and the arrays of its response may lie in the arena. For functions that move many bytes.
   */
  readonly inPlace?: boolean | undefined;
  /**
   * Answers a call that was applied before and whose answer was lost, instead of `handler`: it must change nothing.
   * With it the answers of an update need not be kept, and leave without a copy.
   */
  again?(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
  /**
   * Promises that the handler, which is not async, depends on its requests and their order, on parameters and on its
   * own state alone; not on time, chance, files, other nodes, or the order of rows (PsFunction.P3).
   */
  readonly deterministic?: boolean | undefined;
  /**
   * Of a deterministic function that keeps state of its own (`own`): all of it, as bytes, for a copy of this server.
   */
  save?(context: FunctionContext): Uint8Array;
  /** Makes the state of its own what `save` has saved, whatever it was. */
  load?(context: FunctionContext, saved: Uint8Array): void;
  /** What it throws comes back to the caller as an error. An array it returns is the response's now. */
  handler(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
};

/** A function that servers run: what psFunction() made. */
export type PsFunction<Q extends Fields = Fields, R extends Fields = Fields> = Contract<Q, R> & {
  /** @internal */
  readonly isInPlace: boolean;
  /** @internal */
  readonly isDeterministic: boolean;
  /** @internal */
  save?(context: FunctionContext): Uint8Array;
  /** @internal */
  load?(context: FunctionContext, saved: Uint8Array): void;
  /** @internal */
  handle(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
  /** @internal */
  handleAgain(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
};

const OPTION_NAMES: readonly string[] = [
  ...["name", "request", "response", "reads", "inPlace", "deterministic", "save", "load", "again", "handler"],
];

/**
 * Makes a function that servers run, which workers call. Throws BAD_ARGUMENT for a name or a field type that cannot be,
 * for an option that there is none of, and for `save` without `load` or `deterministic`.
 *
 * @example
 * ```ts
 * export const rowCount = psFunction({
 *   name: "rowCount",
 *   request: { table: "string" },
 *   response: { rows: "u32" },
 *   reads: true,
 *   handler: (server, { table }) => ({ rows: [...server.rowsOf(table)].length }),
 * });
 * ```
 */
export function psFunction<const Q extends Fields, const R extends Fields>(options: PsFunctionOptions<Q, R>): PsFunction<Q, R> {
  const made = describedFunction(options, { target: "server", optionNames: OPTION_NAMES, answersAgain: options?.again !== undefined });
  const { name, inPlace = false, deterministic = false, save, load, handler, again } = options;
  checkHandler(name, handler);
  if ((save === undefined) !== (load === undefined) || (save !== undefined && !deterministic))
    throw badArgument(`${name}: a function has save and load, both, if it is deterministic and keeps state`);
  return {
    ...{ ...made, isInPlace: inPlace, isDeterministic: deterministic, handle: handler, handleAgain: again ?? handler },
    ...(save === undefined || load === undefined ? {} : { save, load }),
  };
}
