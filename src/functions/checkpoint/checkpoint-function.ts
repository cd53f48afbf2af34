// checkpoint-function — the ways from a worker to its servers' checkpoint services: one function for checkpoints of the job, and one each for saving and loading
// a single parameter (Hetu: ParamSave, ParamLoad), so that what each of them moves is counted under its name.

import { nameOf } from "../../wire/node-id.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { op: "string", body: "string" } as const;
const response = { body: "string" } as const;
/** `op` and `body` as checkpoint-messages.ts has them. */
export type CheckpointFunction = PsFunction<typeof request, typeof response>;

export const checkpointFunction: CheckpointFunction = toService("wb/checkpoint");
export const parameterSave: CheckpointFunction = toService("wb/parameter/save");
export const parameterLoad: CheckpointFunction = toService("wb/parameter/load");

function toService(name: string): CheckpointFunction {
  return psFunction({
    name,
    request,
    response,
    handler: async ({ checkpoints, life }, { op, body }) => ({ body: await checkpoints.handle(op, body, ownerName(life)) }),
  });
}

/** Who asks, as the service tells askers apart. */
export function ownerName({ worker, incarnation }: { readonly worker: number; readonly incarnation: number }): string {
  return `${nameOf(worker)} (life ${incarnation})`;
}
