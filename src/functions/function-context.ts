// function-context — what a PS function's handler knows beside its request: who asks, and the state of the server it runs on.

import type { WorkerLife } from "../consistency/worker-lives.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { Held } from "../peer/frame-batch.ts";
import type { CheckpointService } from "./checkpoint/checkpoint-service.ts";
import type { Parameters } from "./parameters/parameters.ts";
import type { TableRow } from "./parameters/table-parameter.ts";
import type { TensorBlock } from "./parameters/tensor-parameter.ts";
import type { WorkerGroups } from "./parameters/worker-groups.ts";

/** What all calls on a server share. */
export type FunctionState = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly checkpoints: CheckpointService;
};

export type FunctionContext = FunctionState & {
  /** The rank of the worker that asks. */
  readonly worker: number;
  /** The worker that asks, as clocks count it. */
  readonly life: WorkerLife;
  /** The rows of a table that this server holds, in no order. Values are the caller's to keep. Throws UNKNOWN_PARAMETER, UNSUPPORTED. */
  rowsOf(table: string): Iterable<TableRow>;
  /** The blocks of a tensor that are this server's, touched or not, by their first element. As `rowsOf`. Throws ARENA_FULL as well. */
  blocksOf(tensor: string): Iterable<TensorBlock>;
  /** An object of the user's own, made at its first use and kept as long as this server lives. */
  own<T extends object>(name: string, create: () => T): T;
  /** For handlers in place: what they return lies in held memory, to be released when the answer has left. */
  hold(held: Held): void;
};
