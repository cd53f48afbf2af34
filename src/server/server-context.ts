// server-context — what a handler of ours knows beside its request: who asks, and all of the state of the server it runs on. Users' own handlers see less
// of it (contracts/function-context.ts).

import type { WorkerLife } from "../consistency/worker-lives.ts";
import type { FunctionContext } from "../contracts/function-context.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { Held } from "../peer/frame-batch.ts";
import type { CheckpointService } from "./checkpoint/checkpoint-service.ts";
import type { Ownership } from "./ownership.ts";
import type { Parameters } from "./parameters/parameters.ts";
import type { WorkerGroups } from "./parameters/worker-groups.ts";

/** What all calls on a server share. */
export type FunctionState = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly parameters: Parameters;
  readonly groups: WorkerGroups;
  readonly checkpoints: CheckpointService;
  readonly ownership: Ownership;
};

export type ServerContext = FunctionState &
  FunctionContext & {
    /** The worker that asks, as clocks count it. */
    readonly life: WorkerLife;
    /** For handlers in place: what they return lies in held memory, to be released when the answer has left. */
    hold(held: Held): void;
  };
