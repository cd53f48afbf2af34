// row-request — one batch on its way through the workers: this worker tells every owner which of its rows it wants, hears from every other one which of its own those want,
// and brings these into its tiers. What happens to it then is tiered-rows.ts's.
//
//   made: keys to the owners ──► answers: what each member wants of this one ──► admit: those rows are in the tiers ──► release

import type { RowPlanner } from "../../worker/router/row-plan.ts";
import { BatchRows } from "./batch-rows.ts";
import type { RowMembers } from "./row-members.ts";
import * as messages from "./row-messages.ts";
import type { RowTiers } from "./row-tiers.ts";
import { ServedRows } from "./served-rows.ts";

export type RowRequestOptions = {
  readonly members: RowMembers;
  /** By owner, as the members have them. */
  readonly planner: RowPlanner;
  /** Left out: this worker does not know yet what it wants. */
  readonly ids: ArrayLike<number> | undefined;
  readonly rowCountMax: number;
  /** What fails is made up for when the batch is taken. */
  readonly isHint: boolean;
};

export class RowRequest {
  /** Left out where this worker did not know what comes next, or where there was no memory for a plan. */
  readonly asked: BatchRows | undefined;
  readonly failure: unknown;
  /** What each member wants of this one, by position. */
  readonly answers: Promise<readonly messages.Ask[]>;
  #served: ServedRows | undefined;
  #isAdmitted = false;

  /** Tells the owners at once. Throws nothing: what fails is told when rows are sent. */
  constructor({ members, planner, ids, rowCountMax, isHint }: RowRequestOptions) {
    try {
      this.asked = ids === undefined ? undefined : new BatchRows(planner, ids, rowCountMax);
    } catch (thrown) {
      if (!isHint) this.failure = thrown;
    }
    const isKnown = this.asked !== undefined || this.failure !== undefined;
    const outgoing = members.ranks.map((_, i) => messages.encodeAsk({ isKnown, keys: this.#keysOf(i) }));
    this.answers = members.exchange(outgoing).then((incoming) => incoming.map(messages.decodeAsk));
    this.answers.catch(() => {}); // whoever takes the batch is told
  }

  /** The rows that this worker owns and somebody uses; undefined before `admit`. */
  get served(): ServedRows | undefined {
    return this.#served;
  }

  /** Brings the rows that are asked for here into the tiers, once. */
  async admit(asks: readonly messages.Ask[], planner: RowPlanner, tiers: RowTiers): Promise<ServedRows> {
    this.#served ??= new ServedRows(
      planner,
      asks.map(({ keys }) => keys),
    );
    const served = this.#served;
    if (!this.#isAdmitted) await tiers.admit(served.keys, served.keyCount);
    this.#isAdmitted = true;
    return served;
  }

  release(): void {
    this.asked?.release();
    this.#served?.release();
    this.#served = undefined;
  }

  #keysOf(position: number): Uint32Array {
    const part = this.asked?.parts[position];
    return this.asked === undefined || part === undefined || part.to === part.from ? new Uint32Array(0) : this.asked.keysOf(part);
  }
}
