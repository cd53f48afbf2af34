// settling — how simulations settle promises between two events (SimClock.T3): in a task of Node's event loop, by the
// call that Node itself makes after every task. That takes an eighth of the CPU time of a turn of the event loop.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { SimClockOptions } from "../../src/testing/sim-clock.ts";

/** Node's own, which it does not document. */
const { _tickCallback: settleNow } = process as typeof process & { readonly _tickCallback?: () => void };

/** A Node without that call takes a turn of its event loop per event. */
export const SETTLING: NonNullable<SimClockOptions["settle"]> =
  settleNow === undefined ? () => nextTurn() : { inTask: (task) => void setImmediate(task), settleNow };
