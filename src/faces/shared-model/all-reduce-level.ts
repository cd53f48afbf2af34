// all-reduce-level — level 2 without servers (mshadow-ps: RabitModel): the workers add up, or average, what their
// devices pushed, among themselves. Every worker gets the same bits. BSP for each key, since nobody has a sum before
// all have pushed.
//
// Workers finish rounds in orders of their own, but operations among workers have to be called in the same order by
// all. So they take turns: in a turn every worker tells the others which rounds it has ready; those that all have are
// reduced, in the order of their priorities, a few megabytes in one turn. A worker that has none ready takes no part,
// and the others wait for it.
//
//   turn n      who has what ──> all agree ──> pieces of up to TURN_BYTES in all are reduced
//   turn n + 1                       who has what ──> …        while those of turn n are on their way
//
// Invariants:
//   AllReduceLevel.G1. What is reduced in a turn, and in which order, follows from what all workers told in it, and
//       from what was reduced before: it is the same everywhere.
//   AllReduceLevel.G2. At most the pieces of two turns are on their way: an urgent key waits for those alone.
//   AllReduceLevel.G3. When an operation fails, all rounds that are open fail with its error, and so do later ones.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { Deferred, sleep, type WaitOptions } from "../../base/deferred.ts";
import { unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import type { Collective } from "../../worker/collective.ts";
import type { CompletedRound, LevelTwo } from "../../worker/level-one/level-two.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { DistSession, ModelLevel } from "./model-level.ts";
import { flag } from "./model-params.ts";

/** What is reduced in one turn. */
const TURN_BYTES = 4 * 1024 * 1024;
/** Of one key, so that others have a share of a turn. */
const PIECE_BYTES = 1024 * 1024;
/** How long workers wait that have rounds ready, but none in common. */
const PAUSE_MS = 1;
const DISABLE = "msg:disable_allreduce";
/** A round as it is told: key, priority, length. */
const TOLD_WORDS = 3;

export type AllReduceLevelOptions = {
  readonly session: DistSession;
  readonly clock: Clock;
  readonly reduce: "sum" | "mean";
  /** What the result of the workers is given to, on every one of them: an updater. */
  readonly after?: LevelTwo | undefined;
};

type OpenRound = {
  readonly round: CompletedRound;
  readonly values: RowArray;
  readonly ended: Deferred<void>;
  begun: number;
  reduced: number;
};
type Told = { readonly key: number; readonly priority: number; readonly length: number };
type Piece = { readonly open: OpenRound; readonly values: RowArray };

export class AllReduceLevel implements ModelLevel {
  readonly settingNames: readonly string[] = [DISABLE];
  readonly #options: AllReduceLevelOptions;
  /** In the order in which they became ready. */
  readonly #rounds = new Map<number, OpenRound>();
  #collective: Collective | undefined;
  /** Then what the devices of a machine pushed counts there alone. */
  #isDisabled = false;
  #isTurning = false;
  #closed: WeighbridgeError | undefined;

  constructor(options: AllReduceLevelOptions) {
    this.#options = options;
  }

  get rank(): number {
    return this.#options.session.value.rank;
  }

  setParam(name: string, value: string): void {
    this.#isDisabled = flag(name, value);
  }

  /** Waits for all workers. */
  async open(wait: WaitOptions): Promise<void> {
    const { session } = this.#options;
    await session.open(wait);
    this.#collective = await session.value.collective(wait);
  }

  async openKey(plan: KeyPlan): Promise<RowArray | undefined> {
    return await this.#options.after?.openKey(plan);
  }

  async exchange(round: CompletedRound): Promise<void> {
    if (this.#closed !== undefined) throw this.#closed;
    if (!this.#isDisabled) await this.#reduced(round);
    await this.#options.after?.exchange(round);
  }

  /** Resolves when the workers have added up the round. */
  async #reduced(round: CompletedRound): Promise<void> {
    const { plan, values } = round;
    assert(!this.#rounds.has(plan.key), "one round of a key at a time");
    const open: OpenRound = { round, values, ended: new Deferred<void>(), begun: 0, reduced: 0 };
    this.#rounds.set(plan.key, open);
    if (!this.#isTurning) void this.#turns();
    await open.ended.promise;
  }

  setWeights(plan: KeyPlan, values: RowArray): void | Promise<void> {
    const { after } = this.#options;
    if (after?.setWeights === undefined) throw unsupported(`key ${plan.key} has no weights here: the model has no updater`);
    return after.setWeights(plan, values);
  }

  async close(): Promise<void> {
    this.#closed ??= new WeighbridgeError("CLOSED", "the shared model was closed");
    this.#failAll(this.#closed);
    await this.#collective?.close();
    await this.#options.after?.close();
    await this.#options.session.close();
  }

  async #turns(): Promise<void> {
    this.#isTurning = true;
    try {
      let underWay: Promise<unknown> = Promise.resolve();
      while (this.#rounds.size > 0) {
        const pieces = this.#agreed(await this.#tell());
        const before = underWay;
        // Called here, in this order (AllReduceLevel.G1).
        underWay = Promise.all(pieces.map(async (piece) => await this.#reduce(piece)));
        underWay.catch(() => {}); // it is awaited below
        await before; // AllReduceLevel.G2
        if (pieces.length === 0) await sleep(this.#options.clock, PAUSE_MS);
        if (this.#hasBegunAll()) await underWay; // nothing to tell of until then; others may be ready when it is over
      }
    } catch (thrown) {
      this.#failAll(thrown);
    } finally {
      this.#isTurning = false;
    }
  }

  /** What every worker has ready, in the order of ranks. */
  async #tell(): Promise<readonly (readonly Told[])[]> {
    const collective = this.#joined();
    // Others may be over elsewhere.
    const ready = [...this.#rounds.values()].filter(({ begun, values }) => begun < values.length);
    const words = Int32Array.from(ready.flatMap(({ round, values }) => [round.plan.key, round.priority, values.length]));
    const told = new Uint8Array(words.buffer);
    const lists = await collective.exchange(collective.members.map(() => told));
    return lists.map(toldOf);
  }

  /** The pieces of this turn (AllReduceLevel.G1). */
  #agreed(lists: readonly (readonly Told[])[]): Piece[] {
    const [first = [], ...others] = lists;
    const othersByKey = others.map((list) => new Map(list.map((told) => [told.key, told])));
    const common = first.flatMap((told) => {
      const all = [told, ...othersByKey.flatMap((list) => list.get(told.key) ?? [])];
      if (all.length < lists.length) return [];
      return [{ ...told, priority: Math.max(...all.map(({ priority }) => priority)), lengths: all.map(({ length }) => length) }];
    });
    common.sort((one, other) => other.priority - one.priority); // stable: as the first worker has them when equal
    const pieces: Piece[] = [];
    let restBytes = TURN_BYTES;
    for (const { key, length, lengths } of common) {
      const open = this.#rounds.get(key) as OpenRound;
      if (lengths.some((other) => other !== length)) {
        const message = `key ${key} has ${lengths.join(", ")} elements at workers ${this.#joined().members.join(", ")}`;
        this.#end(open, new WeighbridgeError("SPEC_MISMATCH", message));
        continue;
      }
      while (restBytes > 0 && open.begun < length) {
        const count = Math.min(PIECE_BYTES, restBytes) / open.values.BYTES_PER_ELEMENT;
        const values = open.values.subarray(open.begun, open.begun + count);
        open.begun += values.length;
        restBytes -= values.byteLength;
        pieces.push({ open, values });
      }
    }
    return pieces;
  }

  async #reduce({ open, values }: Piece): Promise<void> {
    const collective = this.#joined();
    await collective.allReduce(values);
    if (this.#options.reduce === "mean") scale(values as Float64Array, 1 / collective.members.length); // of floats
    open.reduced += values.length; // pieces may end in another order than they began
    if (open.reduced === open.values.length) this.#end(open);
  }

  #end(open: OpenRound, failure?: unknown): void {
    this.#rounds.delete(open.round.plan.key);
    if (failure === undefined) open.ended.resolve();
    else open.ended.reject(failure);
  }

  #failAll(failure: unknown): void {
    for (const open of [...this.#rounds.values()]) this.#end(open, failure);
  }

  #joined(): Collective {
    if (this.#collective === undefined) throw new WeighbridgeError("CLOSED", "the shared model is in no cluster");
    return this.#collective;
  }

  #hasBegunAll(): boolean {
    return [...this.#rounds.values()].every(({ begun, values }) => begun === values.length);
  }
}

function toldOf(bytes: Uint8Array): Told[] {
  const words = new Int32Array(bytes.slice().buffer);
  return Array.from({ length: words.length / TOLD_WORDS }, (_, i) => {
    const [key = 0, priority = 0, length = 0] = words.subarray(i * TOLD_WORDS, (i + 1) * TOLD_WORDS);
    return { key, priority, length };
  });
}

function scale(values: Float64Array, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) * factor;
}
