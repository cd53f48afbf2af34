// worker-groups — the groups of workers that a server keeps beside its parameters, and which of their members are
// alive.

import type { Clock } from "../../base/clock.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import { PartialReduce } from "../../consistency/partial-reduce.ts";
import { SspGroups } from "../../consistency/ssp-group.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";

export class WorkerGroups {
  readonly ssp: SspGroups;
  readonly partialReduce: PartialReduce;
  /** Workers that are gone, by node id, with the incarnation that is over. */
  readonly #gone = new Map<number, number>();
  /** Workers that the roster has listed. */
  readonly #known = new Set<number>();

  /** `workerCount`: how many there are at first. */
  constructor(clock: Clock, workerCount: number) {
    this.ssp = new SspGroups({ clock, aliveCount: () => Math.max(workerCount, this.#known.size) - this.#gone.size });
    this.partialReduce = new PartialReduce(clock);
  }

  /** The roster's entry of a worker. */
  follow(holder: WorkerIncarnation, isAlive: boolean): void {
    this.#known.add(holder.worker);
    const wasGone = this.#gone.get(holder.worker);
    if (isAlive) {
      if (!this.#gone.delete(holder.worker) || wasGone !== holder.incarnation) return;
      this.ssp.revived(holder);
      this.partialReduce.revived(holder);
    } else if (wasGone !== holder.incarnation) {
      this.#gone.set(holder.worker, holder.incarnation);
      this.ssp.gone(holder);
      this.partialReduce.gone(holder);
    }
  }

  /** Groups of these keys are another server's: waiting calls fail with `error`. */
  drop(isMeant: (key: bigint) => boolean, error: WeighbridgeError): void {
    this.ssp.drop(isMeant, error);
    this.partialReduce.drop(isMeant, error);
  }

  close(): void {
    this.ssp.close();
    this.partialReduce.close();
  }
}
