// worker-function — a function that workers serve: what a server tells them, or asks of them, over the connections that
// they have opened. Pushed rows, invalidations and deltas are such functions. Its contract, and its handler where the
// module that describes it has one; the program of a worker gives others (api/session.ts, serve).
//
//   export const refresh = workerFunction({
//     name: "refresh",
//     request: { keys: "u64[]", values: "f32[]" },
//     response: {},
//   });
//
// Invariants (PsFunction.P1 and PsFunction.P2 hold for the calls of a server as for those of a worker):
//   WorkerFunction.W1. Calls of one node that have one priority begin in the order in which they were made; a handler
//       that is async may end later than the next one begins.
//   WorkerFunction.W2. Every call is acknowledged, also one with an empty response: its caller knows what has come, and
//       how much is still open (CallWindow.W1). Nothing is sent that nobody answers for, so nothing is lost in silence:
//       who does not want to wait for a slow worker skips what a later call says better.
//   WorkerFunction.W3. A call belongs to one incarnation of the caller and one of the worker. It ran once, or it
//       failed: with NODE_DEAD or LINK_LOST it may have run, once at most.
//   WorkerFunction.W4. There is no order between a call to a worker and the answers to calls of that worker: who needs
//       one answers when the call has ended.

import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { Contract } from "./contract.ts";
import { checkHandler, describedFunction, type FunctionDescription } from "./described-function.ts";

/** Who calls a function of a worker. */
export type FunctionCaller = {
  /** What the caller is in the job. */
  readonly role: "scheduler" | "server" | "worker";
  /** Its number within its role. */
  readonly rank: number;
};

/**
 * Carries out a function of a worker. What it throws comes back to the caller as an error. An array it returns is the
 * response's now.
 */
export type WorkerHandler<Q extends Fields, R extends Fields> = (
  caller: FunctionCaller,
  request: FieldValues<Q>,
) => FieldValues<R> | Promise<FieldValues<R>>;

/** How a function of workers is described. */
export type WorkerFunctionOptions<Q extends Fields, R extends Fields> = FunctionDescription<Q, R> & {
  /**
   * The handler gets views of the read buffer, which are void when it returns or awaits, instead of arrays of its own.
   * For functions that move many bytes.
   */
  readonly inPlace?: boolean | undefined;
  /** For a module that all workers load (`--functions`); left out where the program of a worker has one. */
  readonly handler?: WorkerHandler<Q, R> | undefined;
};

/** A function that workers serve: what workerFunction() made. */
export type WorkerFunction<Q extends Fields = Fields, R extends Fields = Fields> = Contract<Q, R> & {
  /** @internal */
  readonly isInPlace: boolean;
  /** @internal Left out: the program of a worker has one. */
  handle?(caller: FunctionCaller, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
};

const OPTION_NAMES: readonly string[] = ["name", "request", "response", "reads", "inPlace", "handler"];

/**
 * Makes a function that workers serve, which servers call. Throws BAD_ARGUMENT as `psFunction`.
 *
 * @example
 * ```ts
 * export const progress = workerFunction({ name: "progress", request: {}, response: { step: "u32" } });
 * // In the worker:
 * const stop = session.serve(progress, () => ({ step }));
 * // In the handler of a server's function:
 * const { step } = await context.workers.call(0, progress, {}, { timeoutMs: 1000 });
 * ```
 */
export function workerFunction<const Q extends Fields, const R extends Fields>(options: WorkerFunctionOptions<Q, R>): WorkerFunction<Q, R> {
  const made = describedFunction(options, { target: "worker", optionNames: OPTION_NAMES });
  const { inPlace = false, handler } = options;
  if (handler !== undefined) checkHandler(options.name, handler);
  return { ...made, isInPlace: inPlace, ...(handler === undefined ? {} : { handle: handler }) };
}
