// clock-messages — holds back this worker's clock messages while the placement is about to change (Router.R7): a
// prepared worker sends none, and all living servers know the same clock of it. The router sends them.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { PlacementHold } from "../../cluster/placement-hold.ts";
import type { PrepareRequest } from "../../wire/control.ts";
import type { ServerDirectory } from "./server-directory.ts";

export class ClockMessages {
  // Plain fields, because every clock message counts there.
  /** Those that have left and have not ended; also those that were refused. */
  openCount = 0;
  /** Undefined while no placement is about to come. */
  hold: PlacementHold | undefined;
  /** By rank, the incarnation of a server that did not get the last clock message: it failed. */
  readonly unheard: (number | undefined)[] = [];
  readonly #directory: ServerDirectory;
  readonly #clock: Clock;
  /** Joins of clock sets that have begun and not ended; settles when none is left. */
  #joinCount = 0;
  #joinsEnded = new Deferred<void>();
  /** The placement of the last PREPARE; 0 once that was withdrawn. */
  #wantedEpoch = 0;

  constructor(directory: ServerDirectory, clock: Clock) {
    this.#directory = directory;
    this.#clock = clock;
  }

  /** One failed for good at the server of this rank, or ended while a placement is about to come. */
  ended(rank: number, error: WeighbridgeError | undefined): void {
    this.unheard[rank] = error === undefined ? undefined : this.#directory.incarnationOf(rank);
    if (this.openCount === 0) this.hold?.allAnswered();
  }

  /**
   * This worker is about to join a clock set, and to tell its clock there; the caller says when it has, or has failed.
   */
  joining(): () => void {
    this.#joinCount++;
    return () => {
      if (--this.#joinCount > 0) return;
      this.#joinsEnded.resolve();
      this.#joinsEnded = new Deferred();
    };
  }

  /** The placement of this epoch has come. */
  adopted(epoch: number): void {
    if (this.hold !== undefined && epoch >= this.hold.epoch) this.hold.end();
  }

  /**
   * Resolves when this worker is prepared for the placement of that epoch, or has it, or hears that it does not come.
   * Throws QUEUE_FULL, nothing held, when servers that live have not heard the same of it: it is joining a clock set,
   * or tells one of them its clock again.
   */
  async prepare(request: PrepareRequest): Promise<void> {
    const { epoch, holdMs } = request;
    if (epoch <= this.#directory.epoch) return;
    this.#wantedEpoch = holdMs === 0 ? 0 : epoch;
    if (holdMs === 0) {
      if (this.hold?.epoch === epoch) this.hold.end();
      return;
    }
    while (this.#joinCount > 0 && this.hold === undefined) await this.#joinsEnded.promise;
    if (this.#wantedEpoch !== epoch || epoch <= this.#directory.epoch) return;
    this.#checkHeard();
    this.hold ??= new PlacementHold(this.#clock, () => {
      this.hold = undefined;
    });
    this.hold.renew(request);
    if (this.openCount === 0) this.hold.allAnswered();
    await this.hold.prepared;
    this.#checkHeard();
  }

  #checkHeard(): void {
    const { servers, gone } = this.#directory;
    const rank = servers.find((server) => gone[server] === undefined && this.unheard[server] === this.#directory.incarnationOf(server));
    if (rank === undefined && this.#joinCount === 0) return;
    this.hold?.end();
    const why = rank === undefined ? "is joining the clock set" : `could not tell server ${rank} of the end of a clock, and tells it again`;
    throw new WeighbridgeError("QUEUE_FULL", `this worker ${why}`, { retryable: true });
  }
}
