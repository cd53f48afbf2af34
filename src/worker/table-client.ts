// table-client — pushes and pulls of rows of one table, by u64 keys: cut by owner and into frames of about a block. A request without
// repeated keys to one server travels from and into the caller's own arrays.
//
// Invariants:
//   B1. Lengths and keys are checked before anything is sent.
//   B2. A push counts once, however many frames and servers it goes to: all its frames carry its number
//       (push-numbers.ts).
//   B3. What a push and pull asks of one server travels in order, its last pushed and first pulled rows in one frame: if the rest fits
//       there too, nothing comes in between.
//   B4. Where the link carries less, the push and the pull travel as the link says, one after the other: the pull sees the push, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../contracts/rows.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import { CallerArray } from "./caller-array.ts";
import type { EncodedTable, KeyedFrame } from "./encoded-table.ts";
import { allEnded, type FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { type KeyList, KeyLists } from "./key-lists.ts";
import type { RowPart, RowPlan, RowPlanner } from "./row-plan.ts";
import { AS_IT_IS, type ParameterCall, type PushCall } from "./tensor-client.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

/** Some keys, and a row of gradients for each. */
export type KeysAndGradients = { readonly keys: KeyList; readonly gradients: Float32Array };

export type TableClientOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly held: HeldParameter;
  readonly width: number;
  /** For a table of fixed size: keys are below this. */
  readonly rowCountMax?: number | undefined;
  /** For a table whose link carries less. */
  readonly encoded?: EncodedTable | undefined;
  /** How values for one key are made one; left out: gradients, which add up. */
  readonly merge?: MergeNumber | undefined;
};

/** Some rows of a part that travel together: from `from` up to `to` in the plan's order. */
export type RowFrame = KeyedFrame;

export class TableClient {
  readonly options: TableClientOptions;
  readonly width: number;
  readonly #functions: FunctionClient;
  readonly #planner: RowPlanner;
  readonly #name: string;
  readonly #subject: HeldParameter;
  readonly #parameter: number;
  readonly #keys: KeyLists;
  readonly #encoded: EncodedTable | undefined;

  constructor(options: TableClientOptions) {
    const { functions, planner, held, width, rowCountMax, encoded } = options;
    this.options = options;
    this.width = width;
    this.#functions = functions;
    this.#planner = planner;
    this.#name = held.name;
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#keys = new KeyLists(held.name, rowCountMax);
    this.#encoded = encoded;
  }

  /** `gradients` has a row for each of `keys` (B1). */
  async push(keys: KeyList, gradients: Float32Array, { clock, priority, admit, ...wait }: PushCall): Promise<void> {
    const list = this.#keys.arrayOf(keys);
    this.#keys.checkRows(gradients, { keyCount: list.length, width: this.width }, "gradients");
    const encoded = this.#encoded?.encodesPush ? this.#encoded : undefined;
    await this.#withPlan({ keys: list, isAscending: encoded !== undefined }, wait, async (plan) => {
      const rows = plan.gradients(gradients, this.width, this.options.merge);
      const { scale, skips } = admit?.(rows, gradients) ?? AS_IT_IS;
      if (skips) return;
      if (encoded !== undefined) return await encoded.push(this.#frames(plan), rows, { clock, priority, scale, subject: this.#subject });
      const pushNumber = this.#subject.numberPush(clock);
      const requests = this.#frames(plan).map(({ server, keys: own, from, to }) => ({
        server,
        request: {
          parameter: this.#parameter,
          clock,
          pushNumber,
          scale,
          keys: own,
          gradients: rows.subarray(from * this.width, to * this.width),
        },
        priority,
        scope: this.#parameter,
      }));
      await this.#functions.callEach(rowsPush, requests, { subject: this.#subject });
    });
  }

  /** Fills `into`, a row for each of `keys`. */
  async pull(keys: KeyList, into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    const list = this.#keys.arrayOf(keys);
    this.#keys.checkRows(into, { keyCount: list.length, width: this.width }, "the array to pull into");
    const encoded = this.#encoded?.encodesPull ? this.#encoded : undefined;
    await this.#withPlan({ keys: list, isAscending: encoded !== undefined }, wait, async (plan) => {
      const given = new CallerArray(into);
      const landed = plan.landing(into, this.width);
      if (encoded !== undefined) {
        await encoded.pull(this.#frames(plan), landed, { clock, priority, subject: this.#subject });
        given.check(this.#name, false);
        plan.deliver(landed, into, this.width);
        return;
      }
      const requests = this.#frames(plan).map(({ server, keys: own, from, to }) => ({
        server,
        request: { parameter: this.#parameter, clock, keys: own },
        priority,
        scope: this.#parameter,
        into: landed.subarray(from * this.width, to * this.width),
      }));
      await this.#functions.callEach(rowsPull, requests, { subject: this.#subject });
      given.check(this.#name, false);
      plan.deliver(landed, into, this.width);
    });
  }

  /** Pushes gradients for some rows, and fills `into` with the rows of `pullKeys` as they are right after that (B3). */
  async pushPull(push: KeysAndGradients, pullKeys: KeyList, into: Float32Array, call: PushCall): Promise<void> {
    const { clock, priority, admit, ...wait } = call;
    const pushList = this.#keys.arrayOf(push.keys);
    const pullList = this.#keys.arrayOf(pullKeys);
    this.#keys.checkRows(push.gradients, { keyCount: pushList.length, width: this.width }, "gradients");
    this.#keys.checkRows(into, { keyCount: pullList.length, width: this.width }, "the array to pull into");
    if (pullList.length === 0) return await this.push(pushList, push.gradients, call);
    if (pushList.length === 0) return await this.pull(pullList, into, { clock, priority, ...wait });
    if (this.#encoded?.encodesPush || this.#encoded?.encodesPull)
      return await this.#pushThenPull(pushList, push.gradients, pullList, into, call, this.#encoded);
    const settings = { priority, scope: this.#parameter };
    await this.#withPlan({ keys: pushList }, wait, async (pushPlan) => {
      const rows = pushPlan.gradients(push.gradients, this.width, this.options.merge);
      const { scale, skips } = admit?.(rows, push.gradients) ?? AS_IT_IS;
      if (skips) return await this.pull(pullList, into, { clock, priority });
      await this.#withPlan({ keys: pullList }, {}, async (pullPlan) => {
        const given = new CallerArray(into);
        const landed = pullPlan.landing(into, this.width);
        const { pushes, both, pulls } = pairFrames(this.#frames(pushPlan), this.#frames(pullPlan));
        const gradientsOf = ({ from, to }: RowFrame): Float32Array => rows.subarray(from * this.width, to * this.width);
        const landingOf = ({ from, to }: RowFrame): Float32Array => landed.subarray(from * this.width, to * this.width);
        const common = { parameter: this.#parameter, clock };
        const pushNumber = this.#subject.numberPush(clock);
        await allEnded([
          this.#functions.callEach(
            rowsPush,
            pushes.map((frame) => {
              const { server, keys } = frame;
              return { ...settings, server, request: { ...common, pushNumber, scale, keys, gradients: gradientsOf(frame) } };
            }),
            { subject: this.#subject },
          ),
          this.#functions.callEach(
            rowsPushPull,
            both.map(({ pushed, pulled }) => ({
              ...settings,
              server: pushed.server,
              request: {
                ...common,
                pushNumber,
                scale,
                pushKeys: pushed.keys,
                gradients: gradientsOf(pushed),
                pullKeys: pulled.keys,
              },
              into: landingOf(pulled),
            })),
            { subject: this.#subject },
          ),
          this.#functions.callEach(
            rowsPull,
            pulls.map((frame) => ({ ...settings, server: frame.server, request: { ...common, keys: frame.keys }, into: landingOf(frame) })),
            { subject: this.#subject },
          ),
        ]);
        given.check(this.#name, true);
        pullPlan.deliver(landed, into, this.width);
      });
    });
  }

  /** B4. Reads leave behind the updates of the same parameter, so both are on their way at once, unless a push may have to be sent again. */
  async #pushThenPull(
    pushList: BigUint64Array,
    gradients: Float32Array,
    pullList: BigUint64Array,
    into: Float32Array,
    { admit, ...read }: PushCall,
    { namesKeys }: EncodedTable,
  ): Promise<void> {
    const pushed = this.push(pushList, gradients, { ...read, admit });
    if (namesKeys) await pushed;
    await allEnded([pushed, this.pull(pullList, into, read)]);
  }

  /** The plan lives until its calls have ended, also when their caller waits no longer. */
  async #withPlan(
    { keys, isAscending = false }: { readonly keys: BigUint64Array; readonly isAscending?: boolean },
    wait: WaitOptions,
    run: (plan: RowPlan) => Promise<void>,
  ): Promise<void> {
    if (keys.length === 0) return;
    const plan = this.#planner.plan(keys, isAscending);
    const done = run(plan).finally(() => plan.release());
    await this.#functions.wait(done, `rows of ${JSON.stringify(this.#name)}`, { ...wait, subject: this.#subject });
  }

  /** The parts cut into frames of about a block, values included. */
  #frames(plan: RowPlan): RowFrame[] {
    const rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.width * FLOAT_BYTES)));
    return plan.parts.flatMap((part) => cutPart(part, rowsPerFrame));
  }
}

/** A server's part of a plan, cut into frames of so many rows. */
export function cutPart({ server, from, keys }: RowPart, rowsPerFrame: number): RowFrame[] {
  const frames: RowFrame[] = [];
  for (let at = 0; at < keys.length; at += rowsPerFrame) {
    const end = Math.min(keys.length, at + rowsPerFrame);
    frames.push({ server, keys: keys.subarray(at, end), from: from + at, to: from + end, opens: at === 0 }); // B2
  }
  return frames;
}

/** For each server that is asked for both: its pushes but the last, that one with the first of its pulls, and the other pulls. */
function pairFrames(
  pushed: readonly RowFrame[],
  pulled: readonly RowFrame[],
): {
  readonly pushes: readonly RowFrame[];
  readonly both: readonly { readonly pushed: RowFrame; readonly pulled: RowFrame }[];
  readonly pulls: readonly RowFrame[];
} {
  const lastPushes = new Map(pushed.map((frame) => [frame.server, frame]));
  const both = pulled.flatMap((frame) => {
    const last = lastPushes.get(frame.server);
    return last === undefined || !frame.opens ? [] : [{ pushed: last, pulled: frame }];
  });
  const paired = new Set(both.flatMap((pair) => [pair.pushed, pair.pulled]));
  return { pushes: pushed.filter((frame) => !paired.has(frame)), both, pulls: pulled.filter((frame) => !paired.has(frame)) };
}
