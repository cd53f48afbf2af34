// waiting-read — serves a read of a parameter that may have to wait for the slowest worker, with or without a push
// before it. Handlers call it for a push and pull, and for a read that is not fresh; they answer a fresh read at once.
//
// Invariants:
//   WaitingRead.R1. A push and pull pushes only after all that it reads was found and there is memory for the answer
//       and the wait: if it throws before, nothing was pushed. The handler looks for rows and takes the answer's memory
//       before it calls.
//   WaitingRead.R2. A failure after that, or when a push and pull is answered again, is ANSWER_LOST.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { ServerContext } from "../server-context.ts";
import type { Kept } from "./call-memory.ts";
import type { HostedParameter } from "./hosted-parameter.ts";

/** The keys of a table, or the rows of a block. */
type RowList = BigUint64Array | Uint32Array;

/** A table or a tensor. */
type ReadParameter<L extends RowList> = Pick<HostedParameter<never>, "clocks" | "phases" | "whenFresh"> & { keep(list: L): Kept<L> };

type WaitingRead<L extends RowList, T> = {
  readonly clock: number;
  /** Where it lies in the frame. */
  readonly list: L;
  /** Gets the list, or a copy of it when the frame is gone. */
  readonly read: (list: L) => T;
};

/** What `read` returns, once the reader's clock allows it. Calls `push` first, unless it cannot wait for the read. */
export function readWhenFresh<L extends RowList, T>(
  { holder }: ServerContext,
  parameter: ReadParameter<L>,
  { clock, list, read }: WaitingRead<L, T>,
  call: ServedCall,
  push?: () => void,
): T | Promise<T> {
  let answer = (): T | Promise<T> => read(list);
  if (!parameter.clocks.isFresh(clock, parameter.phases, holder)) {
    const kept = list.length === 0 ? list : keptList(parameter, list, call);
    const parked = { holder, clock, bytes: list.byteLength };
    answer = () => parameter.whenFresh(parked, () => read(kept));
  }
  if (push === undefined) return answer();
  push();
  return answerOfApplied(answer);
}

function keptList<L extends RowList>(parameter: ReadParameter<L>, list: L, call: ServedCall): L {
  const kept = parameter.keep(list);
  call.hold(kept);
  return kept.list;
}

/**
 * The answer of an update that counts already (WaitingRead.R2). After an error other than ANSWER_LOST the sender would
 * take the update for a refused one, and apply it twice.
 */
export function answerOfApplied<T>(read: () => T | Promise<T>): T | Promise<T> {
  try {
    const answer = read();
    return answer instanceof Promise ? answer.catch(answerLost) : answer;
  } catch (thrown) {
    return answerLost(thrown);
  }
}

function answerLost(thrown: unknown): never {
  if (isWeighbridgeError(thrown, "ANSWER_LOST")) throw thrown;
  throw new WeighbridgeError("ANSWER_LOST", `it was applied, but what it is to answer cannot be read: ${reasonOf(thrown)}`, {
    cause: thrown,
  });
}
