// missing-nodes — which nodes a cluster that starts or ends waits for, for errors of those who wait.

import type { Clock } from "../base/clock.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { STATUS } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import { missingAtEnd, missingText } from "../wire/missing-nodes.ts";

/** How much later a deadline may be told, to name the nodes that are missing: a round trip where the scheduler answers. */
const STATUS_DEADLINE_MS = 500;

/** As `server 1, worker 0`; "" when the scheduler does not tell, or none is missing. Never throws. */
export async function missingNodes(
  scheduler: Channel | undefined,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  at: "start" | "end" = "start",
): Promise<string> {
  if (scheduler?.link === undefined || scheduler.ended !== undefined) return "";
  try {
    const { phase, waiting, nodes, leaving, ...counts } = await ask(scheduler, STATUS, {}, clock, { deadlineMs: STATUS_DEADLINE_MS });
    if (at === "end") return leaving === undefined ? "" : missingAtEnd(nodes, leaving);
    return phase === "forming" ? missingText(counts, waiting) : "";
  } catch (thrown) {
    log.debug("the scheduler does not tell who is missing", { reason: reasonOf(thrown) });
    return "";
  }
}

/** The same DEADLINE, by name. */
export function incompleteError(error: WeighbridgeError, missing: string): WeighbridgeError {
  if (missing === "" || error.message.includes("missing: ")) return error;
  return new WeighbridgeError(error.code, `${error.message}; missing: ${missing}`, { retryable: error.retryable, cause: error });
}
