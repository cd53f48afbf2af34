// request-queue — requests of functions that cannot leave at once: a server has no room, the placement changes, or a
// server was started again and is asked first where its parameter is from (parameter-handle.ts). They leave in the
// order in which they came, and what comes later waits behind them.
//
// Invariants:
//   RequestQueue.Q1. When WAITING_MAX requests wait, more are refused with QUEUE_FULL, but for the ends of clocks:
//       other workers wait for those, and a worker has few.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { namedFailure } from "../call-failures.ts";
import type { ParameterHandle } from "../parameter-handle.ts";
import type { RequestGroup, RoutedRequest, Router } from "../router.ts";
import { cutAgain, failRequests } from "./function-recut.ts";
import type { Recut } from "./function-request.ts";

/** As many as may queue for one server. */
const WAITING_MAX = 65_536;

export class RequestQueue {
  /** The last of those who wait; undefined while nobody does. */
  last: Promise<void> | undefined;
  readonly #router: Router;
  readonly #waitingMax: number;
  #waitingCount = 0;

  constructor(router: Router, waitingMax: number = WAITING_MAX) {
    this.#router = router;
    this.#waitingMax = waitingMax;
  }

  /**
   * Ends when these have left, behind all that wait already. Rejects when they cannot be sent, with QUEUE_FULL by
   * RequestQueue.Q1.
   */
  async add(requests: RoutedRequest[]): Promise<void> {
    if (this.#waitingCount >= this.#waitingMax && !requests.some(({ fn }) => fn.followsUpdates))
      throw new WeighbridgeError("QUEUE_FULL", `${this.#waitingCount} requests wait to leave: await some of them`, { retryable: true });
    this.#waitingCount += requests.length;
    const turn = (this.last ?? Promise.resolve()).then(() => this.#sendInTurn(requests));
    const queue: Promise<void> = turn
      .catch(() => {}) // its caller gets it; those behind it go on
      .then(() => {
        this.#waitingCount -= requests.length;
        if (this.last === queue) this.last = undefined;
      });
    this.last = queue;
    await turn;
  }

  /** Sends what was refused anew, by the placement as it is now; ends when it has left. */
  sendAgain(request: RoutedRequest): Promise<void> | undefined {
    const requests = cutAgain(request);
    if (this.#strangerAmong(requests) === undefined) return void this.#router.trySend(requests, true);
    return this.#sendInTurn(requests, true).catch(() => {}); // each caller got its own
  }

  /** It was applied, and its answer is not known: what asks for the answer takes its place. */
  askAnew(request: RoutedRequest, answerLost: () => Recut): void {
    this.#sendInTurn(cutAgain(request, answerLost, true), true).catch(() => {}); // each caller got its own
  }

  /**
   * ParameterHandle.L1: whom it asks is looked at and asked in one step. What was cut by an older placement is cut
   * again before it leaves. When it throws, requests that were sent before or took the place of others have failed with
   * that; those that never left are their caller's to fail.
   */
  async #sendInTurn(given: RoutedRequest[], isForced = false): Promise<void> {
    let requests = given;
    try {
      for (;;) {
        const released = isForced ? undefined : this.#router.releaseOf(requests);
        if (released !== undefined) {
          await released;
          continue;
        }
        requests = requests.flatMap((request) => (this.#router.isCurrent(request.epoch) ? [request] : cutAgain(request)));
        const stranger = this.#strangerAmong(requests);
        if (stranger?.subject !== undefined) await this.#askOrigin(stranger.subject, stranger.server, isForced);
        else if (this.#router.trySend(requests, isForced)) return;
        else await this.#router.room();
      }
    } catch (thrown) {
      failRequests(isForced ? requests : requests.filter((request) => !given.includes(request)), thrown);
      throw thrown;
    }
  }

  /** Asks a new incarnation where its parameter is from. Throws UNKNOWN_PARAMETER, and what the server throws. */
  async #askOrigin(handle: ParameterHandle, server: number, isForced: boolean): Promise<void> {
    let lost: WeighbridgeError | undefined;
    const answered = ({ isRestored }: { readonly isRestored: boolean }): void => {
      const incarnation = this.#router.incarnationOf(server); // of whom this is the answer
      if (isRestored) handle.found(server, incarnation);
      else lost = handle.lost(server, incarnation);
    };
    const request = { parameter: handle.parameter, name: handle.name };
    const { requests, done }: RequestGroup = this.#router.groupOf(handle.originFunction, [{ to: { server }, request, answered }]);
    done.catch(() => {}); // nobody waits for it where sending fails
    while (!this.#router.trySend(requests, isForced)) await this.#router.room();
    await done.catch((thrown: unknown) => {
      throw isWeighbridgeError(thrown) ? namedFailure(thrown, handle.originFunction, handle) : thrown;
    });
    if (lost !== undefined) throw lost;
  }

  /** The first of these for a server whose incarnation its handle does not know. */
  #strangerAmong(requests: readonly RoutedRequest[]): RoutedRequest | undefined {
    return requests.find(({ subject, server }) => this.#router.isUnknownIncarnation(subject, server));
  }
}
