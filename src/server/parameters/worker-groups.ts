// worker-groups — the groups of workers that a server keeps beside its parameters, and who of their members is there.

import type { Clock } from "../../base/clock.ts";
import { PartialReduce } from "../../consistency/partial-reduce.ts";
import { SspGroups } from "../../consistency/ssp-group.ts";
import type { WorkerLife } from "../../consistency/worker-lives.ts";

export class WorkerGroups {
  readonly ssp: SspGroups;
  readonly partialReduce: PartialReduce;
  /** Workers that are gone, by node id, with the life that is over. */
  readonly #gone = new Map<number, number>();
  /** Workers that the roster has told of. */
  readonly #known = new Set<number>();

  /** `workerCount`: how many there are in the beginning. */
  constructor(clock: Clock, workerCount: number) {
    this.ssp = new SspGroups({ clock, aliveCount: () => Math.max(workerCount, this.#known.size) - this.#gone.size });
    this.partialReduce = new PartialReduce(clock);
  }

  /** What the roster says of a worker. */
  follow(life: WorkerLife, isAlive: boolean): void {
    this.#known.add(life.worker);
    const wasGone = this.#gone.get(life.worker);
    if (isAlive) {
      if (!this.#gone.delete(life.worker) || wasGone !== life.incarnation) return;
      this.ssp.revived(life);
      this.partialReduce.revived(life);
    } else if (wasGone !== life.incarnation) {
      this.#gone.set(life.worker, life.incarnation);
      this.ssp.gone(life);
      this.partialReduce.gone(life);
    }
  }

  close(): void {
    this.ssp.close();
    this.partialReduce.close();
  }
}
