// checkpoint-function — the way from a worker to its servers' checkpoint services.

import { nameOf } from "../../wire/node-id.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { op: "string", body: "string" } as const;
const response = { body: "string" } as const;
/** `op` and `body` as checkpoint-messages.ts has them. */
export const checkpointFunction: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/checkpoint",
  request,
  response,
  handler: async ({ checkpoints, life }, { op, body }) => ({ body: await checkpoints.handle(op, body, ownerName(life)) }),
});

/** Who asks, as the service tells askers apart. */
export function ownerName({ worker, incarnation }: { readonly worker: number; readonly incarnation: number }): string {
  return `${nameOf(worker)} (life ${incarnation})`;
}
