// placement-moves — moves the parts of a running job to other servers, live: a sequence of placements, each of which
// moves a few MiB of parts, so that every pause is short (docs/decisions/0072). Not what one change does
// (placement-changes.ts), nor when and why servers come and go.
//
//   servers A ──► A ∪ B, no part has moved ──► parts below 7, 15, 29 … are where B has them ──► … all are ──► servers B
//                 those that come learn all that is not a part's
//
// Invariants:
//   PlacementMoves.M1. Every placement on the way says how far it is (PlacementOf.D1). So a scheduler that is
//       restarted, or whose move was interrupted, goes on from there, forward or back.
//   PlacementMoves.M2. A step moves at most STEP_BYTES, or one part; and between two steps workers have as much time
//       for themselves as a step takes.
//   PlacementMoves.M3. Servers without room for what they would get refuse a step before anything of it moves.
//   PlacementMoves.M4. One move at a time.

import type { Clock } from "../base/clock.ts";
import { sleep } from "../base/deferred.ts";
import { unsupported, WeighbridgeError } from "../base/errors.ts";
import { movedParts } from "../keys/moved-parts.ts";
import { PART_COUNT } from "../keys/placement.ts";
import type { PlacementMove } from "../keys/placement-description.ts";
import { Placements } from "../keys/placement-of.ts";
import { nameOf } from "../wire/node-id.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { PlacementChanges, PreparedChange } from "./placement-changes.ts";

/** PlacementMoves.M2 */
const STEP_BYTES = 2 * 2 ** 20;
/** Of the first step. */
const FIRST_PARTS = 64;
/** After one that was small the next step has so many times as many parts at most. */
const GROWTH = 4;
/** Of the bytes that a server gets, so many times as much must be free: rows lie in tables that grow, beside others. */
const ROOM = 2;

/** How many parts move in all, and how many of them have. */
export type MoveProgress = { readonly parts: number; readonly moved: number };

export type MoveOptions = {
  /** Called at the beginning, and after every step. Must not throw. */
  readonly onProgress?: ((progress: MoveProgress) => void) | undefined;
  /** Ends the move after the step that is under way, with its reason. */
  readonly signal?: AbortSignal | undefined;
};

export type PlacementMovesOptions = {
  readonly changes: Pick<PlacementChanges, "publish" | "settle">;
  readonly clock: Clock;
  readonly view: () => RosterView;
};

/** A step would move more than STEP_BYTES: it is tried with fewer parts. */
class StepTooLarge extends Error {}

export class PlacementMoves {
  readonly #options: PlacementMovesOptions;
  readonly #placements = new Placements();
  #isMoving = false;

  constructor(options: PlacementMovesOptions) {
    this.#options = options;
  }

  /**
   * All parts go where the policy puts them over these ranks. A move that was interrupted on its way there, or back, is
   * finished; one to other servers goes back first. Throws BAD_ARGUMENT, NODE_DEAD for a server that is not there,
   * ARENA_FULL (PlacementMoves.M3), UNSUPPORTED for state that cannot move, QUEUE_FULL while another one is under way
   * (PlacementMoves.M4), the signal's reason, and what PlacementChanges.publish throws: then the placement is somewhere
   * on the way.
   */
  async moveTo(servers: readonly number[], options: MoveOptions = {}): Promise<void> {
    if (this.#isMoving) throw new WeighbridgeError("QUEUE_FULL", "parts are moving already: one move at a time", { retryable: true });
    this.#isMoving = true;
    try {
      await this.#options.changes.settle();
      const wished = [...servers].sort((a, b) => a - b);
      const { move } = this.#placement;
      if (move !== undefined && String(move.to) !== String(wished)) {
        await this.#run(move, 0, options);
        await this.#leave(move.from);
      }
      if (String(this.#placement.servers) === String(wished) && this.#placement.move === undefined) return;
      await this.#enter(wished, options);
      await this.#run(this.#move, PART_COUNT, options);
      await this.#leave(wished);
    } finally {
      this.#isMoving = false;
    }
  }

  get #placement(): PlacementView {
    const { placement } = this.#options.view();
    if (placement === undefined) throw new WeighbridgeError("NO_ROUTE", "the job has no placement yet", { retryable: true });
    return placement;
  }

  /** That which is under way. */
  get #move(): PlacementMove {
    const { move } = this.#placement;
    if (move === undefined) throw new WeighbridgeError("ABORTED", "the placement was changed by somebody else while parts moved");
    return move;
  }

  /** Servers that come take part from now on, without any part. */
  async #enter(to: readonly number[], { signal }: MoveOptions): Promise<void> {
    const { move, servers: from, moved = [] } = this.#placement;
    if (move !== undefined) return;
    if (moved.length > 0) throw unsupported("parts whose owners were named one by one do not move to other servers");
    signal?.throwIfAborted();
    const servers = [...new Set([...from, ...to])].sort((a, b) => a - b);
    this.#checkAlive(servers);
    await this.#options.changes.publish({ servers, move: { from, to, below: 0 } });
  }

  /** The servers that no part belongs to any more go. */
  async #leave(servers: readonly number[]): Promise<void> {
    await this.#options.changes.publish({ servers });
  }

  /** Parts go to the next end: to `to` with PART_COUNT, back to `from` with 0. */
  async #run(move: PlacementMove, end: number, options: MoveOptions): Promise<void> {
    const { clock } = this.#options;
    const { policy, servers } = this.#placement;
    const endOf = (ranks: readonly number[]) => this.#placements.of({ epoch: 0, policy, servers: ranks });
    const moving = movedParts(endOf(move.from), endOf(move.to));
    const report = ({ below }: PlacementMove): void => {
      options.onProgress?.({ parts: moving.length, moved: moving.filter((part) => part < below).length });
    };
    report(move);
    let partCount = FIRST_PARTS;
    for (let at = move; at.below !== end; ) {
      options.signal?.throwIfAborted();
      this.#checkAlive(servers);
      const below = end === 0 ? before(moving, at.below, partCount) : after(moving, at.below, partCount);
      const beganMs = clock.nowMs();
      let byteCount = 0;
      try {
        await this.#options.changes.publish({ servers, move: { ...at, below } }, (change) => {
          byteCount = checkRoom(change, partCount);
        });
      } catch (thrown) {
        if (!(thrown instanceof StepTooLarge)) throw thrown;
        partCount = Math.ceil(partCount / 2);
        continue;
      }
      at = this.#move;
      report(at);
      partCount = nextCount(partCount, byteCount);
      // PlacementMoves.M2
      if (byteCount > 0) await sleep(clock, clock.nowMs() - beganMs);
    }
  }

  #checkAlive(ranks: readonly number[]): void {
    const { nodes } = this.#options.view();
    for (const rank of ranks) {
      const entry = nodes.find((node) => node.role === "server" && node.rank === rank);
      if (entry?.state === "alive") continue;
      const what = entry === undefined ? `there is no server ${rank}` : `${nameOf(entry.node)} is ${entry.state}`;
      throw new WeighbridgeError("NODE_DEAD", `parts cannot move: ${what}`);
    }
  }
}

/** How many bytes move; throws StepTooLarge (PlacementMoves.M2), ARENA_FULL (PlacementMoves.M3). */
function checkRoom({ arriving }: PreparedChange, partCount: number): number {
  let total = 0;
  for (const [rank, { byteCount, roomBytes }] of arriving) {
    total += byteCount;
    if (byteCount === 0 || byteCount * ROOM <= roomBytes) continue;
    const what = `server ${rank} would get ${byteCount} bytes more, and has room for ${roomBytes}`;
    throw new WeighbridgeError("ARENA_FULL", `parts cannot move: ${what}; give servers more memory (--arena), or keep more of them`);
  }
  if (total > STEP_BYTES && partCount > 1) throw new StepTooLarge();
  return total;
}

/** As many parts as have STEP_BYTES by what the last ones had. */
function nextCount(partCount: number, byteCount: number): number {
  const wanted = byteCount === 0 ? Infinity : Math.floor((partCount * STEP_BYTES * 0.9) / byteCount);
  return Math.max(1, Math.min(wanted, partCount * GROWTH));
}

/** The end of the next parts that move, from this one on. */
function after(moving: readonly number[], below: number, partCount: number): number {
  const next = moving.filter((part) => part >= below);
  return next.length <= partCount ? PART_COUNT : next[partCount]!;
}

/** The beginning of the last parts that have moved. */
function before(moving: readonly number[], below: number, partCount: number): number {
  const last = moving.filter((part) => part < below);
  return last.length <= partCount ? 0 : last[last.length - partCount]!;
}
