// function-context — what the handler of a user's own function knows beside its request: its caller, the parameters of
// the server it runs on, and the workers, whose functions it may call.

import type { WaitOptions } from "../base/deferred.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import type { WorkerFunction } from "./worker-function.ts";

/** A row of a table; its values are in the array of the table's row type. */
export type TableRow<A = Float32Array> = {
  /** The row's key. */
  readonly key: bigint;
  /** Its elements. */
  readonly values: A;
};

/** A block of a tensor: the position of its first value in the tensor, and its values. */
export type TensorBlock = {
  /** The position of its first value in the tensor. */
  readonly first: number;
  /** The caller's copy of its values. */
  readonly values: Float32Array;
};

/** How a function of a worker is called, and waited for. */
export type WorkerCallOptions = WaitOptions & {
  /** Calls this incarnation of the worker alone, not one that never asked. Left out: the one that is there. */
  readonly incarnation?: number | undefined;
  /**
   * Of what leaves for that worker, answers to its own calls among them, higher ones leave first; those of one priority
   * in order. Defaults to 0.
   */
  readonly priority?: number | undefined;
};

/** The workers of the job, and the functions that they serve with `session.serve`. */
export type WorkerCalls = {
  /** The ranks of those that are alive now, as far as this server knows, ascending. */
  readonly ranks: readonly number[];
  /**
   * Calls a function of a worker, over the connection that the worker has opened. Arrays of the request stay unchanged
   * until the call ended. Rejects with what the handler threw; NO_ROUTE for a worker that there is not; NODE_DEAD when
   * it is gone, or is gone before it answers; UNKNOWN_FUNCTION when it does not serve it; QUEUE_FULL, nothing sent,
   * while too many calls or bytes to it are unanswered; LINK_LOST; DEADLINE and ABORTED (the call then continues). A
   * signal that has fired already sends nothing. The failure of a function without `reads` has an `outcome`, and
   * `settled` where the call continues.
   */
  call<Q extends Fields, R extends Fields>(
    worker: number,
    fn: WorkerFunction<Q, R>,
    request: FieldValues<Q>,
    options?: WorkerCallOptions,
  ): Promise<FieldValues<R>>;
  /** Waits until calls of a worker are not refused with QUEUE_FULL. Rejects as `call`. */
  whenRoom(worker: number, options?: WaitOptions): Promise<void>;
};

/** What the handler of a function of servers gets with its request. */
export type FunctionContext = {
  /** The rank of the worker that asks. */
  readonly worker: number;
  /** Which incarnation of that worker asks: the next one begins with nothing. */
  readonly incarnation: number;
  /** The workers, whose functions a handler may call. */
  readonly workers: WorkerCalls;
  /** The table's rows on this server, unordered; values are the caller's. Throws UNKNOWN_PARAMETER, UNSUPPORTED. */
  rowsOf<A = Float32Array>(table: string): Iterable<TableRow<A>>;
  /** The tensor's blocks on this server, by first element. Throws as `rowsOf`, and ARENA_FULL. */
  blocksOf(tensor: string): Iterable<TensorBlock>;
  /** An object of the user's own, made at its first use and kept as long as this server lives. */
  own<T extends object>(name: string, create: () => T): T;
};
