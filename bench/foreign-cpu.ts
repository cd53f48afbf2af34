// foreign-cpu — what share of this machine's cores other processes used while something was measured. Ours are this
// process and its children that have ended: end them before the share is asked for. Linux alone tells.

import { readFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";

/** Of /proc: Linux counts in hundredths of a second, whatever its own tick. */
const TICK_MS = 10;
/** Fields of /proc/self/stat behind the name: user and system time, of this process and of its ended children. */
const TIME_FIELDS = { from: 11, to: 15 } as const;

export class ForeignCpu {
  readonly #sinceMs = performance.now();
  readonly #busyMs = busyMs();
  readonly #ownMs = ownMs();

  /** Between 0 and 1, since this was made; undefined where nobody tells. */
  share(): number | undefined {
    const ownMsNow = ownMs();
    if (ownMsNow === undefined || this.#ownMs === undefined) return undefined;
    const foreignMs = busyMs() - this.#busyMs - (ownMsNow - this.#ownMs);
    return Math.max(0, foreignMs / ((performance.now() - this.#sinceMs) * availableParallelism()));
  }
}

function busyMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}

function ownMs(): number | undefined {
  if (process.platform !== "linux") return undefined;
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(TIME_FIELDS.from, TIME_FIELDS.to).reduce((sum, field) => sum + Number(field) * TICK_MS, 0);
}
