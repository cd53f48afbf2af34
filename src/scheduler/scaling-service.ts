// scaling-service — serves what tools ask of the number of servers and workers, and asks the servers what a change
// comes to (docs/decisions/0073). What happens when is decided in scaling.ts.

import { assert } from "../base/assert.ts";
import { Deferred, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, unsupported, WeighbridgeError } from "../base/errors.ts";
import { waitUntil } from "../base/wait-until.ts";
import {
  scalingAsk,
  scalingEnded,
  scalingReport,
  scalingRollBack,
  scalingSpare,
  scalingSurvey,
  scalingWorkers,
} from "../contracts/scaling.ts";
import { PART_COUNT } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { idOf } from "../wire/node-id.ts";
import type { PlacementView } from "../wire/roster.ts";
import type {
  RollBackReply,
  ScaleReply,
  ScaleRequest,
  ScalingDirection,
  ScalingReport,
  SurveyReply,
  WorkersReport,
  WorkersRequest,
} from "../wire/scaling.ts";
import { type JobChange, type KnownRequest, knownRequest, requestOf } from "./known-requests.ts";
import { Scaling, type ScalingOptions } from "./scaling.ts";
import { namesOf, type ServerSets } from "./scaling-wish.ts";
import { serveDurably } from "./scheduler-services.ts";
import { WorkerScaling, type WorkerScalingOptions } from "./worker-scaling.ts";

const SURVEY_DEADLINE_MS = 5000;

export type ScalingServiceOptions = Omit<ScalingOptions, "refusal" | "survey"> &
  WorkerScalingOptions & {
    readonly peer: Peer;
    /** False behind a gateway to another protocol. */
    readonly mayScale?: boolean | undefined;
  };

export class ScalingService {
  readonly scaling: Scaling;
  readonly workers: WorkerScaling;
  readonly #options: ScalingServiceOptions;
  /** Resolves when the roster has changed, or a node has registered. */
  #news = new Deferred<void>();

  constructor(options: ScalingServiceOptions) {
    this.#options = options;
    this.scaling = new Scaling({
      ...options,
      refusal: () => this.#refusal(),
      survey: (sets, next) => this.#survey(sets, next),
    });
    this.workers = new WorkerScaling(options);
  }

  serve(): void {
    const { peer, journal } = this.#options;
    const { scaling } = this;
    peer.serve(serveDurably(journal, scalingAsk, (_, servers) => this.#changeServers(servers)));
    peer.serve(serveDurably(journal, scalingRollBack, (_, { direction }) => this.rollBack(direction)));
    peer.serve(serveDurably(journal, scalingWorkers, (_, workers) => this.#changeWorkers(workers)));
    peer.serve(serveDurably(journal, scalingReport, () => this.report()));
    peer.serve(serveDurably(journal, scalingEnded, (_, { number }) => scaling.ended(number)));
  }

  /**
   * Changes the numbers of servers and workers, both or neither. Returns the number of the change of the servers, if
   * they change; of a request that is repeated that of the first (KnownRequests.K1). Throws BAD_REQUEST, and as
   * Scaling.request and WorkerScaling.check; then nothing has changed.
   */
  async change(change: JobChange): Promise<number | undefined> {
    const { journal } = this.#options;
    const { servers, workers } = change;
    const request = requestOf(change);
    const known = (): KnownRequest | undefined => request && knownRequest(journal.state.scaling.requests, request);
    const before = known();
    if (before !== undefined) return before.number;
    if (workers !== undefined) this.workers.check(workers);
    if (servers !== undefined) await this.scaling.survey(servers);
    // Nothing happens between these checks and what they are for.
    const meanwhile = known();
    if (meanwhile !== undefined) return meanwhile.number;
    if (workers !== undefined) this.workers.check(workers);
    const number = servers && this.scaling.submit(servers);
    if (workers !== undefined) this.workers.request(workers);
    if (request !== undefined) journal.write({ kind: "request", ...request, ...(number === undefined ? {} : { number }) });
    return number;
  }

  async #changeServers(servers: ScaleRequest): Promise<ScaleReply> {
    const number = await this.change({ servers });
    assert(number !== undefined, "a change of the servers has a number");
    return { number };
  }

  async #changeWorkers(workers: WorkersRequest): Promise<WorkersReport> {
    await this.change({ workers });
    return this.workers.report();
  }

  report(): ScalingReport {
    return { ...this.scaling.report(), workers: this.workers.report() };
  }

  /** Takes back what is under way of servers and workers. Throws as Scaling.rollBack if nothing is. */
  async rollBack(direction?: ScalingDirection): Promise<RollBackReply> {
    const { underWay } = this.scaling;
    const areWorkers = direction !== "in" && this.workers.isAwaiting;
    const isServers = underWay !== undefined && (direction ?? underWay) === underWay;
    const [number, workerCount] = await Promise.all([
      isServers || !areWorkers ? this.scaling.rollBack(direction) : undefined,
      areWorkers ? this.workers.rollBack() : undefined,
    ]);
    return { ...(number === undefined ? {} : { number }), ...(workerCount === undefined ? {} : { workerCount }) };
  }

  /** Nothing more happens here; a scheduler that finds the state goes on. */
  close(error: WeighbridgeError): void {
    this.scaling.close(error);
    this.workers.close(error);
  }

  /** The roster has changed. */
  review(): void {
    this.#news.resolve();
    this.#news = new Deferred();
    this.scaling.review();
    this.workers.review();
  }

  /** The server behind this channel waits as a spare. */
  tellSpare(channel: Channel, serverCount: number): void {
    // It waits all the same, or is gone.
    callJson(channel, scalingSpare, { serverCount }, this.#options.clock).catch(() => {});
  }

  #refusal(): WeighbridgeError | undefined {
    const { mayScale = true } = this.#options;
    const why = "it speaks ps-lite's protocol (--van), whose nodes know no other number of servers";
    return mayScale ? undefined : unsupported(`the servers of this job cannot change: ${why}`);
  }

  /** Scaling.S2 */
  async #survey({ from, to }: ServerSets, next: PlacementView): Promise<void> {
    const untilMs = this.#options.clock.nowMs() + SURVEY_DEADLINE_MS;
    const answers = from.map(async (rank) => ({ rank, ...(await this.#surveyOne(rank, to, untilMs)) }));
    checkRoom(await Promise.all(answers), next);
  }

  /** A head that is being replaced is asked again when something has happened since: its standby answers. */
  async #surveyOne(rank: number, servers: readonly number[], untilMs: number): Promise<SurveyReply> {
    const { peer, clock, replicas = 1 } = this.#options;
    for (;;) {
      const news = this.#news.promise;
      try {
        const channel = peer.channel(idOf("server", rank));
        if (channel === undefined) throw new WeighbridgeError("NO_ROUTE", `there is no channel to ${namesOf([rank])}`, { retryable: true });
        return await callJson(channel, scalingSurvey, { servers }, clock, waitUntil(untilMs, clock));
      } catch (thrown) {
        const mayFollow = replicas > 1 && (isWeighbridgeError(thrown, "NODE_DEAD") || isWeighbridgeError(thrown, "NO_ROUTE"));
        if (!mayFollow || clock.nowMs() >= untilMs) throw thrown;
        const takenOver = waitFor(news, `the standby of ${namesOf([rank])} to take over`, clock, waitUntil(untilMs, clock));
        await takenOver.catch(() => Promise.reject(thrown));
      }
    }
  }
}

type Holding = SurveyReply & { readonly rank: number };

/**
 * Whether what these servers hold fits those of the next placement that are there already: parts are of about one size.
 * Throws ARENA_FULL.
 */
export function checkRoom(holdings: readonly Holding[], next: PlacementView): void {
  const placement = placementOf(next);
  const heldBytes = holdings.reduce((sum, { stateBytes }) => sum + stateBytes, 0);
  for (const { rank, stateBytesMax } of holdings) {
    const shareBytes = Math.ceil((heldBytes * placement.partsOf(rank).length) / PART_COUNT);
    if (shareBytes <= stateBytesMax) continue;
    const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
    const message = `${namesOf([rank])} would hold ${mebibytes(shareBytes)} of the job's ${mebibytes(heldBytes)}, and has room for ${mebibytes(stateBytesMax)}`;
    throw new WeighbridgeError("ARENA_FULL", `${message}; keep more servers, or give them more memory (arenaBytesMax)`);
  }
}
