// tensor-rows — pushes and pulls of some rows of one dense tensor, grouped by their block (block-rows.ts). Of the whole tensor: tensor-client.ts, whose invariants T1
// to T5 hold here.
//
// Invariants:
//   TensorRows.T3. Where pushes by rows are counted, every server hears of one before its rows come there.
//   TensorRows.T4. Rows that are pushed and pulled by one call over a link that carries less travel as the link says, in two frames one behind the other: what is
//       pulled has seen what was pushed, and maybe what came in between.

import type { WaitOptions } from "../base/deferred.ts";
import { tensorPull, tensorPullRows, tensorPushPullRows, tensorPushRows, tensorPushRowsPull } from "../contracts/tensors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows, type RowGroup, type RowList } from "./block-rows.ts";
import { CallerArray } from "./caller-array.ts";
import type { EncodedTensor } from "./encoded-tensor.ts";
import { allEnded, type FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { listLength } from "./key-lists.ts";
import type { Recut } from "./router/function-request.ts";
import { requestOf } from "./router.ts";
import { admissionOf, type CheckedPush, only, type ParameterCall, type TensorClient, type TensorClientOptions } from "./tensor-client.ts";

/** Some rows, and a row of gradients for each. */
export type RowsAndGradients = { readonly rows: RowList; readonly gradients: Float32Array };

export type TensorRowsOptions = TensorClientOptions & {
  /** Where rows are put in order. */
  readonly arena: Arena;
  /** How values for one row are made one; left out: gradients, which add up. */
  readonly merge?: MergeNumber | undefined;
};

/** The part of a request that is a push of rows of one block. */
type RowsRequest = {
  readonly parameter: number;
  readonly block: number;
  readonly clock: number;
  readonly pushNumber: number;
  readonly scale: number;
  readonly rows: Uint32Array;
  readonly gradients: Float32Array;
};

export class TensorRows {
  readonly #tensor: TensorClient;
  readonly #functions: FunctionClient;
  readonly #name: string;
  readonly #subject: HeldParameter;
  readonly #parameter: number;
  readonly #encoded: EncodedTensor | undefined;
  readonly #arena: Arena;
  readonly #merge: MergeNumber | undefined;

  constructor(tensor: TensorClient, { functions, held, arena, encoded, merge }: TensorRowsOptions) {
    this.#tensor = tensor;
    this.#functions = functions;
    this.#name = held.name;
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#encoded = encoded;
    this.#arena = arena;
    this.#merge = merge;
  }

  /** `gradients` has a row for each of `rows`. */
  async pushRows(rows: RowList, gradients: Float32Array, call: CheckedPush): Promise<void> {
    const { priority, clock, check, ...wait } = call;
    this.#tensor.checkLength(gradients, listLength(rows, this.#name) * this.#tensor.shape.width, "gradients");
    await this.#withSpans(wait, async (spans) => {
      const named = new BlockRows(rows, this.#tensor.shape, this.#name, spans);
      const sums = named.gradients(gradients, this.#tensor.shape.width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, gradients);
      if (skips) return;
      if (this.#encoded?.encodesPushOfRows) {
        await this.#encoded.pushRows(named.groups, sums, { priority, clock, scale, subject: this.#subject });
        return;
      }
      const requests = this.#rowsRequests(named, sums, { clock, scale }).map((request) =>
        this.#tensor.about(request.block, { request, priority }),
      );
      await this.#functions.callEach(tensorPushRows, requests, { subject: this.#subject });
    });
  }

  /** Fills `into`, a row for each of `rows`. */
  async pullRows(rows: RowList, into: Float32Array, call: ParameterCall): Promise<void> {
    const { clock, priority, ...wait } = call;
    const { width } = this.#tensor.shape;
    this.#tensor.checkLength(into, listLength(rows, this.#name) * width, "the array to pull into");
    await this.#withSpans(wait, async (spans) => {
      const given = new CallerArray(into);
      const named = new BlockRows(rows, this.#tensor.shape, this.#name, spans);
      const landed = named.landing(into, width);
      const landingOf = ({ from, to }: RowGroup): Float32Array => landed.subarray(from * width, to * width);
      if (this.#encoded?.encodesPull) {
        await this.#encoded.pullRows(named.groups, landed, { clock, priority, subject: this.#subject });
        given.check(this.#name, false);
        for (const group of named.groups) named.deliver(group, landingOf(group), into, width);
        return;
      }
      const requests = named.groups.map((group) => {
        const { block, rows: own } = group;
        return this.#tensor.about(block, {
          request: { parameter: this.#parameter, block, clock, rows: own },
          priority,
          into: landingOf(group),
          passing: !named.isAsGiven,
          // While the others are on their way. A call's `answered` must not throw.
          answered: ({ values }: { readonly values: Float32Array }) => {
            if (given.isIntact) named.deliver(group, values, into, width);
          },
        });
      });
      await this.#functions.callEach(tensorPullRows, requests, { subject: this.#subject });
      given.check(this.#name, false);
    });
  }

  /** Pushes gradients for some rows and fills `into` with the whole tensor: of each block what it is right after the push. */
  async pushRowsPull(rows: RowList, gradients: Float32Array, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    this.#tensor.checkLength(gradients, listLength(rows, this.#name) * this.#tensor.shape.width, "gradients");
    this.#tensor.checkLength(into, this.#tensor.shape.floatCount, "the array to pull into");
    if (this.#encodesRows)
      return await allEnded([this.pushRows(rows, gradients, call), this.#tensor.pull(into, { clock, priority, ...wait })]); // T4
    await this.#withSpans(wait, async (spans) => {
      const named = new BlockRows(rows, this.#tensor.shape, this.#name, spans);
      const sums = named.gradients(gradients, this.#tensor.shape.width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, gradients);
      if (skips) return await this.#tensor.pull(into, { clock, priority });
      const pushes = new Map(this.#rowsRequests(named, sums, { clock, scale }).map((request) => [request.block, request]));
      const blocks = this.#tensor.blocks((block, from, to) => ({ block, priority, into: into.subarray(from, to) }));
      const both = blocks.flatMap(({ block, ...call }) => {
        const request = pushes.get(block);
        const answerLost = (): Recut => this.#tensor.pullAnew(block, call.into, { clock, priority });
        return request === undefined ? [] : [{ ...call, request, answerLost }];
      });
      const pulls = blocks.filter(({ block }) => !pushes.has(block));
      await allEnded([
        this.#functions.callEach(tensorPushRowsPull, both, { subject: this.#subject }),
        this.#functions.callEach(
          tensorPull,
          pulls.map(({ block, ...call }) => ({ ...call, request: { parameter: this.#parameter, block, clock } })),
          { subject: this.#subject },
        ),
      ]);
    });
  }

  /** Pushes gradients for some rows, and fills `into` with other rows: of each block what they are right after the push. */
  async pushPullRows(rows: RowsAndGradients, pullRows: RowList, into: Float32Array, call: CheckedPush): Promise<void> {
    const { clock, priority, check, ...wait } = call;
    const { width } = this.#tensor.shape;
    this.#tensor.checkLength(rows.gradients, listLength(rows.rows, this.#name) * width, "gradients");
    this.#tensor.checkLength(into, listLength(pullRows, this.#name) * width, "the array to pull into");
    if (this.#encodesRows) {
      new BlockRows(pullRows, this.#tensor.shape, this.#name, new ArenaSpans(this.#arena)); // T1: its rows are checked before anything is sent
      return await allEnded([this.pushRows(rows.rows, rows.gradients, call), this.pullRows(pullRows, into, { clock, priority, ...wait })]); // T4
    }
    await this.#withSpans(wait, async (spans) => {
      const pushed = new BlockRows(rows.rows, this.#tensor.shape, this.#name, spans);
      const sums = pushed.gradients(rows.gradients, width, this.#merge);
      const { scale, skips } = admissionOf(check, sums, rows.gradients);
      if (skips) return await this.pullRows(pullRows, into, { clock, priority });
      const given = new CallerArray(into);
      const pulled = new BlockRows(pullRows, this.#tensor.shape, this.#name, spans);
      const landed = pulled.landing(into, width);
      const pushes = new Map(this.#rowsRequests(pushed, sums, { clock, scale }).map((request) => [request.block, request]));
      const landings = new Map(pulled.groups.map((group) => [group.block, group]));
      const landingOf = ({ from, to }: RowGroup): Float32Array => landed.subarray(from * width, to * width);
      const single = [...pushes.values()].filter(({ block }) => !landings.has(block));
      const readOf = (group: RowGroup) => {
        const { block, rows: own } = group;
        return this.#tensor.about(block, {
          request: { parameter: this.#parameter, block, clock, rows: own },
          priority,
          into: landingOf(group),
        });
      };
      const both = pulled.groups.flatMap((group) => {
        const push = pushes.get(group.block);
        if (push === undefined) return [];
        const { rows: pushRows, ...rest } = push;
        const answerLost = (): Recut => only(requestOf(tensorPullRows, readOf(group))); // T5
        return [
          this.#tensor.about(group.block, {
            request: { ...rest, pushRows, pullRows: group.rows },
            priority,
            into: landingOf(group),
            answerLost,
          }),
        ];
      });
      const reads = pulled.groups.filter(({ block }) => !pushes.has(block)).map(readOf);
      await allEnded([
        this.#functions.callEach(
          tensorPushRows,
          single.map((request) => this.#tensor.about(request.block, { request, priority })),
          { subject: this.#subject },
        ),
        this.#functions.callEach(tensorPushPullRows, both, { subject: this.#subject }),
        this.#functions.callEach(tensorPullRows, reads, { subject: this.#subject }),
      ]);
      given.check(this.#name, true);
      for (const group of pulled.groups) pulled.deliver(group, landingOf(group), into, width);
    });
  }

  /** Whether rows travel otherwise than as they are, in one direction at least. */
  get #encodesRows(): boolean {
    return this.#encoded !== undefined && (this.#encoded.encodesPushOfRows || this.#encoded.encodesPull);
  }

  /** Memory that is kept until the last call has ended, even when nobody waits for it any more. */
  async #withSpans(wait: WaitOptions, run: (spans: ArenaSpans) => Promise<void>): Promise<void> {
    const spans = new ArenaSpans(this.#arena);
    const done = run(spans).finally(() => spans.release());
    await this.#functions.wait(done, `rows of ${JSON.stringify(this.#name)}`, { ...wait, subject: this.#subject });
  }

  /** The frames of one push. One of no rows is none. */
  #rowsRequests(named: BlockRows, sums: Float32Array, { clock, scale }: { readonly clock: number; readonly scale: number }): RowsRequest[] {
    const { width } = this.#tensor.shape;
    const pushNumber = named.rowCount === 0 ? 0 : this.#subject.pushes.next(this.#parameter, clock);
    return named.groups.map(({ block, rows, from, to }) => ({
      parameter: this.#parameter,
      block,
      clock,
      pushNumber,
      scale,
      rows,
      gradients: sums.subarray(from * width, to * width),
    }));
  }
}
