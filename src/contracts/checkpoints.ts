// checkpoints — the ways from a worker to its servers' checkpoint services: one function for checkpoints of the job, and one each for saving and loading
// a single parameter (Hetu: ParamSave, ParamLoad), so that what each of them moves is counted under its name. `op` and `body` as
// store/snapshot/checkpoint-messages has them.

import { type Contract, contract } from "./contract.ts";

const operation = { op: "string", body: "string" } as const;
const outcome = { body: "string" } as const;
export type CheckpointContract = Contract<typeof operation, typeof outcome>;

export const checkpointFunction: CheckpointContract = toService("wb/checkpoint");
export const parameterSave: CheckpointContract = toService("wb/parameter/save");
export const parameterLoad: CheckpointContract = toService("wb/parameter/load");

function toService(name: string): CheckpointContract {
  return contract({ name, target: "server", effect: "update", request: operation, response: outcome });
}
