// checkpoint-calls — how a session's checkpoints reach the servers: with which priority, how long a call may take, and
// what is told of a cut that waits long. What they are called for, checkpoint.ts decides.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { type Cut, checkpointSave } from "../contracts/checkpoints.ts";
import { LONG_MS } from "../contracts/long-waits.ts";
import type { FunctionClient } from "../worker/function-client.ts";
import type { LongWaits } from "../worker/long-waits.ts";
import { LAST_PRIORITY } from "../worker/worker-clock.ts";
import type { ServerCalls } from "./checkpoint.ts";

type Functions = Pick<FunctionClient, "call">;

/** The session that calls. */
type Caller = { readonly clocks: number; readonly time: Clock; readonly longWaits: Pick<LongWaits, "tell"> };

type CallsOptions = {
  /** The ranks of all servers, ascending. */
  readonly servers: readonly number[];
  readonly wait: WaitOptions;
  /** What the bytes of these calls are counted as. */
  readonly countedAs?: string | undefined;
};

/** A signal ends the wait for every call but `abandon`: what was aborted is given up on the servers, too. */
export function serverCalls(functions: Functions, caller: Caller, { servers, wait, countedAs }: CallsOptions): ServerCalls {
  const { abandon, cut } = checkpointSave;
  return {
    servers,
    call: (server, fn, request, timeoutMs = wait.timeoutMs) => {
      const signal = fn.name === abandon.name ? undefined : wait.signal;
      const answer = functions.call(fn, { server }, request, { timeoutMs, signal, countedAs, priority: priorityOf(fn.name) });
      const waitsNow = fn.name === cut.name && (request as unknown as Cut).clock <= caller.clocks;
      if (waitsNow) tellIfLong(functions, caller, server, answer);
      return answer;
    },
  };
}

/** Says whom a cut waits for, as of a read (ParkingLot.P5). A cut at a clock to come waits for nobody yet. */
function tellIfLong(functions: Functions, { time, longWaits }: Caller, server: number, cutting: Promise<unknown>): void {
  const ask = async (): Promise<void> => {
    const { waits } = await functions.call(checkpointSave.survey, { server }, {}, { timeoutMs: LONG_MS });
    if (waits !== "") longWaits.tell(waits);
  };
  const cancel = time.after(LONG_MS, () => void ask().catch(() => {})); // the cut fails alike, and says so
  cutting.then(cancel, cancel);
}

/**
 * The cut comes behind everything else that was asked: what was pushed before is in it. What follows it comes first:
 * until then what changes is kept twice.
 */
function priorityOf(name: string): number {
  const { begin, write, commit, abandon } = checkpointSave;
  return [begin, write, commit, abandon].some((fn) => fn.name === name) ? -LAST_PRIORITY - 1 : LAST_PRIORITY;
}
