// parts-arrival — a server that gets parts with a new placement fetches them from the servers that had them
// (docs/decisions/0072). Not their side (parts-departure.ts), nor when it serves (parts-exchange.ts).
//
//   fetch from all sources ──► all is here ──► the scheduler hands the parts over: they are this server's
//                          └── a source has died, or there is no room: nothing is this server's
//
// Invariants:
//   PartsArrival.A1. Parts are this server's when the scheduler says so (PlacementChanges.C6), not when they are here.
//   PartsArrival.A2. Loading a page again changes nothing (PartState.P1): what failed is fetched again.

import type { Clock } from "../../base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { freeBuffer } from "../../base/free-buffer.ts";
import type { ClusterNode } from "../../cluster/cluster-node.ts";
import { partsFetch } from "../../contracts/between-servers.ts";
import { PART_COUNT } from "../../keys/part.ts";
import { idOf } from "../../wire/node-id.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { loadMember, PartState } from "../parameters/part-state.ts";
import type { WorkerGroups } from "../parameters/worker-groups.ts";
import { unpackBytes } from "../replication/packed-body.ts";
import type { DepartedParts } from "./parts-departure.ts";

/** A source may hear of the placement a moment later. */
const ASK_AGAIN_MS = 2;

export type PartsArrivalOptions = {
  readonly node: Pick<ClusterNode, "call">;
  readonly clock: Clock;
  /** Loads what has come, and keeps nothing of it. Throws ARENA_FULL. */
  readonly take: (parts: DepartedParts) => void;
};

/** Throws ARENA_FULL. */
export function loadDeparted(
  { member, pages, groups }: DepartedParts,
  to: { readonly parameters: Parameters; readonly groups: WorkerGroups },
): void {
  if (member !== undefined) loadMember(to.parameters, member);
  new PartState(to.parameters).loadPart(pages);
  to.groups.ssp.load(groups);
}

/** What comes with a placement. */
export type Arriving = {
  readonly epoch: number;
  /** The ranks that parts come from. */
  readonly sources: ReadonlySet<number>;
  /** The rank that tells what is not a part's; undefined for a server that knows it. */
  readonly teller: number | undefined;
};

export class PartsArrival {
  readonly #options: PartsArrivalOptions;
  /** Counts placements: what was fetched for an earlier one is dropped. */
  #turn = 0;

  constructor(options: PartsArrivalOptions) {
    this.#options = options;
  }

  /** What was under way ends, and nothing of it is taken. */
  cancel(): void {
    this.#turn++;
  }

  /**
   * Ends when all is here. Throws NODE_DEAD for a source that has died, ARENA_FULL, and ABORTED once it was cancelled.
   */
  async fetch({ epoch, sources, teller }: Arriving): Promise<void> {
    const turn = ++this.#turn;
    // Parts need their parameters.
    if (teller !== undefined) await this.#fetchFrom(teller, { epoch, turn, asMember: true });
    const others = [...sources].filter((rank) => rank !== teller);
    await Promise.all(others.map((rank) => this.#fetchFrom(rank, { epoch, turn, asMember: false })));
  }

  async #fetchFrom(rank: number, { epoch, turn, asMember }: { readonly epoch: number; readonly turn: number; readonly asMember: boolean }) {
    const { node, take } = this.#options;
    for (let from = 0; from < PART_COUNT; ) {
      const request = { epoch, from, asMember: asMember && from === 0 };
      const { body } = await this.#again(turn, () => node.call(idOf("server", rank), partsFetch, request));
      const parts = unpackBytes(body) as DepartedParts;
      take(parts);
      freeBuffer(body);
      from = parts.to;
    }
  }

  /** Until it is answered; a source that has died is not asked again. */
  async #again<T>(turn: number, call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        const answer = await call();
        this.#check(turn);
        return answer;
      } catch (thrown) {
        this.#check(turn);
        if (!isWeighbridgeError(thrown) || (!thrown.retryable && thrown.code !== "LINK_LOST") || thrown.code === "NODE_DEAD") throw thrown;
        await new Promise<void>((resume) => this.#options.clock.after(ASK_AGAIN_MS, resume));
        this.#check(turn);
      }
    }
  }

  #check(turn: number): void {
    if (turn !== this.#turn) throw new WeighbridgeError("ABORTED", "another placement has come before its parts had");
  }
}
