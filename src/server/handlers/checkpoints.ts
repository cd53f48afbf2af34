// checkpoints — hands the operations of checkpoints to this server's checkpoint service (contracts/checkpoints.ts).

import { type CheckpointContract, checkpointFunction, parameterLoad, parameterSave } from "../../contracts/checkpoints.ts";
import { nameOf } from "../../wire/node-id.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const CHECKPOINT_HANDLERS: readonly ServedFunction[] = [checkpointFunction, parameterSave, parameterLoad].map(toService);

function toService(contract: CheckpointContract): ServedFunction {
  return serve(contract, {
    handler: async ({ checkpoints, life }, { op, body }) => ({ body: await checkpoints.handle(op, body, ownerName(life)) }),
  });
}

/** Who asks, as the service tells askers apart. */
export function ownerName({ worker, incarnation }: { readonly worker: number; readonly incarnation: number }): string {
  return `${nameOf(worker)} (life ${incarnation})`;
}
