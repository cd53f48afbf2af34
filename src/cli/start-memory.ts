// start-memory — returns the memory that only the start of a node needed to the system: V8 keeps the young generation
// as large as the start made it, 14 MB, and shrinks it only in a requested collection. For our own commands only,
// because the collector is reached through a flag.
//
// Invariants:
//   StartMemory.M1. It runs once, while next to nothing arrives: it stops the process for about a tenth of a second.
//   StartMemory.M2. A node that stays busy keeps its memory, because it uses it.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const QUIET_MS = 2000;
/** Heartbeats and rosters, with their answers. */
const QUIET_FRAMES_MAX = 10;
const TRIES_MAX = 10;

type Collect = () => void;

/**
 * Collects once the node is quiet (StartMemory.M1), if it becomes quiet soon (StartMemory.M2). Does not keep the
 * process alive.
 */
export function releaseStartMemory(metrics: { readonly framesReceived: number }, collect: Collect = collectAll): void {
  let { framesReceived } = metrics;
  let tries = 0;
  const timer = setInterval(() => {
    const isQuiet = metrics.framesReceived - framesReceived <= QUIET_FRAMES_MAX;
    framesReceived = metrics.framesReceived;
    if (!isQuiet && ++tries < TRIES_MAX) return;
    clearInterval(timer);
    if (isQuiet) collect();
  }, QUIET_MS);
  timer.unref();
}

function collectAll(): void {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options: { readonly type: "major"; readonly flavor: "last-resort" }) => void;
  setFlagsFromString("--no-expose-gc");
  gc({ type: "major", flavor: "last-resort" }); // the only kind that shrinks the young generation
}
