// table-client — pushes and pulls of rows of one table, by u64 keys: cut by owner and into frames of about a block. A request without
// repeated keys to one server travels from and into the caller's own arrays.
//
// Invariants:
//   B1. Lengths and keys are checked before anything is sent.
//   B2. A push counts once, however many frames and servers it goes to: all its frames carry its number
//       (worker-clock.ts).
//   B3. What a push and pull asks of one server travels in order, its last pushed and first pulled rows in one frame: if the rest fits
//       there too, nothing comes in between.
//   B5. Where a part leaves its server before the answer of a push and pull is sent, or sent again, the push counts, and the rows are asked for anew: they have seen
//       the push, and maybe what came in between.
//   B4. Keys of a push and pull that takes several frames do not travel by name: a frame whose list is not known would be
//       sent again, behind the others.

import type { WaitOptions } from "../base/deferred.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../contracts/rows.ts";
import type { MergeNumber, RowJoin } from "../kernel/duplicate-kernels.ts";
import type { ResolvedOptimizer } from "../store/updaters/optimizer-spec.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import { BoundedCache, type CacheOptions } from "./cache/bounded-cache.ts";
import { lostArray } from "./caller-array.ts";
import type { FunctionClient } from "./function-client.ts";
import { type KeyList, KeyLists, listLength } from "./key-lists.ts";
import type { LinkCalls } from "./link-calls.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { RawRowsOpener, RawRowsOptions } from "./raw-rows.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import type { RowFrame, RowPlan, RowPlanner } from "./router/row-plan.ts";
import { requestOf } from "./router.ts";
import { admissionOf, type CheckedPush, type ParameterCall } from "./tensor-client.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

/** Some keys, and a row of gradients for each. */
export type KeysAndGradients<A = Float32Array> = { readonly keys: KeyList; readonly gradients: A };

export type TableClientOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly held: ParameterHandle;
  /** Of a row: 32-bit words. Rows of other elements than f32 are moved as such. */
  readonly width: number;
  /** For a table of fixed size: keys are below this. */
  readonly rowCountMax?: number | undefined;
  /** For a table whose link carries less. */
  readonly link?: LinkCalls | undefined;
  /** How several updates for one key are made one; left out: gradients of f32, which add up. */
  readonly merge?: MergeNumber | RowJoin | undefined;
};

/** How the frames of a call are sent. */
type FrameCall = { readonly clock: number; readonly priority: number | undefined };
type PushFrameCall = FrameCall & { readonly pushNumber: number; readonly scale: number };

export class TableClient {
  readonly options: TableClientOptions;
  readonly width: number;
  readonly #functions: FunctionClient;
  readonly #planner: RowPlanner;
  readonly #name: string;
  readonly #subject: ParameterHandle;
  readonly #parameter: number;
  readonly #keys: KeyLists;
  readonly #link: LinkCalls | undefined;

  constructor(options: TableClientOptions) {
    const { functions, planner, held, width, rowCountMax, link } = options;
    this.options = options;
    this.width = width;
    this.#functions = functions;
    this.#planner = planner;
    this.#name = held.name;
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#keys = new KeyLists(held.name, rowCountMax);
    this.#link = link;
  }

  /** `gradients` has a row for each of `keys` (B1). */
  async push(keys: KeyList, gradients: Float32Array, { clock, priority, check, ...wait }: CheckedPush): Promise<void> {
    const list = this.#listOf(keys);
    this.#checkRows(gradients, list.length, "gradients");
    await this.#withPlan(list, wait, async (plan) => {
      const rows = plan.gradients(gradients, this.width, this.options.merge);
      const { scale, skips } = admissionOf(check, rows, gradients);
      if (skips) return;
      const pushNumber = this.#subject.pushes.last(this.#parameter) + 1;
      await this.#send(this.#pushes(this.#frames(plan), rows, { clock, priority, pushNumber, scale }), clock);
    });
  }

  /** Fills `into`, a row for each of `keys`. */
  async pull(keys: KeyList, into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    const list = this.#listOf(keys);
    this.#checkRows(into, list.length, "the array to pull into");
    await this.#withPlan(list, wait, async (plan) => {
      const intoLength = into.length;
      const landed = plan.landing(into, this.width);
      await this.#send(this.#pulls(this.#frames(plan), landed, { clock, priority }));
      if (into.length < intoLength) throw lostArray(this.#name, false);
      plan.deliver(landed, into, this.width);
    });
  }

  /** Pushes gradients for some rows, and fills `into` with the rows of `pullKeys` as they are right after that (B3). */
  async pushPull(push: KeysAndGradients, pullKeys: KeyList, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    const pushList = this.#listOf(push.keys);
    const pullList = this.#listOf(pullKeys);
    this.#checkRows(push.gradients, pushList.length, "gradients");
    this.#checkRows(into, pullList.length, "the array to pull into");
    if (pullList.length === 0) return await this.push(pushList, push.gradients, call);
    if (pushList.length === 0) return await this.pull(pullList, into, { clock, priority, ...wait });
    await this.#withPlan(pushList, wait, async (pushPlan) => {
      const rows = pushPlan.gradients(push.gradients, this.width, this.options.merge);
      const { scale, skips } = admissionOf(check, rows, push.gradients);
      if (skips) return await this.pull(pullList, into, { clock, priority });
      await this.#withPlan(pullList, {}, async (pullPlan) => {
        const intoLength = into.length;
        const landed = pullPlan.landing(into, this.width);
        const pairs = pairFrames(this.#frames(pushPlan), this.#frames(pullPlan));
        const pushNumber = this.#subject.pushes.last(this.#parameter) + 1;
        await this.#sendPairs(pairs, { rows, landed }, { clock, priority, pushNumber, scale });
        if (into.length < intoLength) throw lostArray(this.#name, true);
        pullPlan.deliver(landed, into, this.width);
      });
    });
  }

  /** A cache of some of the rows. Throws BAD_ARGUMENT, ARENA_FULL. */
  cache(optimizer: ResolvedOptimizer, cache: CacheOptions): BoundedCache {
    return new BoundedCache({ ...this.options, optimizer, cache });
  }

  /** The rows with their optimizer's slots, by whatever opens them (`openRawRows`). */
  raw<T>(open: RawRowsOpener<T>, options: Omit<RawRowsOptions, keyof TableClientOptions>): T {
    return open({ ...this.options, ...options });
  }

  /** A new array for the rows of these keys. Throws BAD_ARGUMENT. */
  roomFor(keys: KeyList): Float32Array {
    return new Float32Array((keys instanceof BigUint64Array ? keys.length : listLength(keys, this.#name)) * this.width);
  }

  /** Throws BAD_ARGUMENT for what is no key, OUT_OF_RANGE. Every u64 is a key of a table without bounds. */
  #listOf(keys: KeyList): BigUint64Array {
    return keys instanceof BigUint64Array && this.options.rowCountMax === undefined ? keys : this.#keys.arrayOf(keys);
  }

  /** B1 */
  #checkRows(values: Float32Array, keyCount: number, what: string): void {
    if (values instanceof Float32Array && values.length === keyCount * this.width) return;
    this.#keys.checkRows(values, { keyCount, width: this.width }, what);
  }

  /** The plan lives until its calls have ended, also when their caller waits no longer. */
  async #withPlan(keys: BigUint64Array, wait: WaitOptions, run: (plan: RowPlan) => Promise<void>): Promise<void> {
    if (keys.length === 0) return;
    const plan = this.#planner.plan(keys, this.#link !== undefined);
    const done = run(plan).finally(() => plan.release());
    if (wait.deadlineMs === undefined && wait.signal === undefined) return await done;
    await this.#functions.wait(done, `rows of ${JSON.stringify(this.#name)}`, { ...wait, subject: this.#subject });
  }

  /** The parts cut into frames of about a block, values included. */
  #frames(plan: RowPlan): RowFrame[] {
    return plan.frames(Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.width * FLOAT_BYTES))));
  }

  /** `pushClock`: that of the push that these are. `isNaming`: whether keys may travel by name (B4). */
  async #send(requests: readonly AnyRequest[], pushClock?: number, isNaming = true): Promise<void> {
    const leaving = (): void => void (pushClock === undefined || this.#subject.pushes.next(this.#parameter, pushClock));
    try {
      if (this.#link !== undefined) return await this.#link.call(requests, this.#subject, { leaving, isNaming });
      leaving();
      await this.#functions.router.call(requests, this.#subject);
    } catch (thrown) {
      throw await this.#functions.explained(thrown, this.#subject, {});
    }
  }

  async #sendPairs({ pushes, both, pulls }: PairedFrames, { rows, landed }: RowArrays, call: PushFrameCall): Promise<void> {
    const paired = this.#pushPulls(both, { rows, landed }, call);
    if (pushes.length === 0 && pulls.length === 0) return await this.#send(paired, call.clock);
    const requests = [...this.#pushes(pushes, rows, call), ...paired, ...this.#pulls(pulls, landed, call)];
    await this.#send(requests, call.clock, false); // B4
  }

  /** Plans keys of a frame that is cut again, as its own were. */
  #again<T extends object>(
    keys: BigUint64Array,
    make: (plan: RowPlan, other: RowPlan) => T,
    others?: BigUint64Array,
  ): T & { readonly release: () => void } {
    return this.#planner.again(keys, make, { others, isAscending: this.#link !== undefined });
  }

  /** `rows` has the gradients of all frames. A frame that is cut again is a plan of its own keys, and its gradients are that plan's. */
  #pushes(frames: readonly RowFrame[], rows: Float32Array, call: PushFrameCall): AnyRequest[] {
    const { clock, pushNumber, scale, priority } = call;
    const [parameter, scope] = [this.#parameter, this.#parameter];
    return frames.map((frame) => {
      const gradients = this.#rowsOf(rows, frame);
      const cutAgain = (): Recut =>
        this.#again(frame.keys, (plan) => ({
          requests: this.#pushes(this.#frames(plan), plan.gradients(gradients, this.width), call),
        }));
      const request = { parameter, clock, pushNumber, scale, keys: frame.keys, gradients };
      return requestOf(rowsPush, { to: frame, request, priority, scope, cutAgain });
    });
  }

  /** The rows of all frames land in `landed`. */
  #pulls(frames: readonly RowFrame[], landed: Float32Array, call: FrameCall): AnyRequest[] {
    const { clock, priority } = call;
    const [parameter, scope] = [this.#parameter, this.#parameter];
    return frames.map((frame) => {
      const into = this.#rowsOf(landed, frame);
      const cutAgain = (): Recut => this.#pullAgain(frame, into, call);
      return requestOf(rowsPull, { to: frame, request: { parameter, clock, keys: frame.keys }, priority, scope, into, cutAgain });
    });
  }

  /** The rows of a frame, as the placement is now. */
  #pullAgain(frame: RowFrame, into: Float32Array, call: FrameCall): Recut {
    return this.#again(frame.keys, (plan) => {
      const landing = plan.landing(into, this.width);
      const requests = this.#pulls(this.#frames(plan), landing, call);
      return { requests, answered: () => plan.deliver(landing, into, this.width) };
    });
  }

  #pushPulls(pairs: readonly FramePair[], { rows, landed }: RowArrays, call: PushFrameCall): AnyRequest[] {
    const { clock, pushNumber, scale, priority } = call;
    const [parameter, scope] = [this.#parameter, this.#parameter];
    return pairs.map(({ pushed, pulled }) => {
      const [gradients, into] = [this.#rowsOf(rows, pushed), this.#rowsOf(landed, pulled)];
      const cutAgain = (): Recut =>
        this.#again(
          pushed.keys,
          (pushPlan, pullPlan) => {
            const landing = pullPlan.landing(into, this.width);
            const [sums, next] = [pushPlan.gradients(gradients, this.width), pairFrames(this.#frames(pushPlan), this.#frames(pullPlan))];
            const both = this.#pushPulls(next.both, { rows: sums, landed: landing }, call);
            const requests = [...this.#pushes(next.pushes, sums, call), ...both, ...this.#pulls(next.pulls, landing, call)];
            return { requests, answered: () => pullPlan.deliver(landing, into, this.width) };
          },
          pulled.keys,
        );
      const request = { parameter, clock, pushNumber, scale, pushKeys: pushed.keys, gradients, pullKeys: pulled.keys };
      const answerLost = (): Recut => this.#pullAgain(pulled, into, call); // B5
      return requestOf(rowsPushPull, { to: pushed, request, priority, scope, into, cutAgain, answerLost });
    });
  }

  #rowsOf(rows: Float32Array, { from, to }: RowFrame): Float32Array {
    return rows.subarray(from * this.width, to * this.width);
  }
}

/** The rows of all frames of a call, pushed and pulled. */
type RowArrays = { readonly rows: Float32Array; readonly landed: Float32Array };

type FramePair = { readonly pushed: RowFrame; readonly pulled: RowFrame };

type PairedFrames = {
  readonly pushes: readonly RowFrame[];
  readonly both: readonly FramePair[];
  readonly pulls: readonly RowFrame[];
};

/** For each server that is asked for both: its pushes but the last, that one with the first of its pulls, and the other pulls. */
function pairFrames(pushed: readonly RowFrame[], pulled: readonly RowFrame[]): PairedFrames {
  const lastPushes = new Map(pushed.map((frame) => [frame.server, frame]));
  const both = pulled.flatMap((frame) => {
    const last = lastPushes.get(frame.server);
    return last === undefined || !frame.opens ? [] : [{ pushed: last, pulled: frame }];
  });
  const paired = new Set(both.flatMap((pair) => [pair.pushed, pair.pulled]));
  return { pushes: pushed.filter((frame) => !paired.has(frame)), both, pulls: pulled.filter((frame) => !paired.has(frame)) };
}
