// encoded-tensor — pushes and pulls of a tensor whose link carries less. What calls are sent from lies in the worker's arena until they have
// ended. Not the lengths and rows: tensor-client.ts has checked them.
//
// Invariants:
//   E1. A push that is refused for its values sends nothing, and leaves the residuals as they were.
//   E2. With top-k, what was sent and acknowledged + the residuals = the sum of the gradients of all pushes that did not fail. A push that
//       fails is taken back; `flush` sends what is left, exactly.
//   E3. What failed and may have been applied (LINK_LOST, also as the cause of NODE_DEAD) is never sent again, neither as a residual nor by `flush`.

import type { WaitOptions } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import {
  tensorPullEncoded,
  tensorPullRowsEncoded,
  tensorPush,
  tensorPushEncoded,
  tensorPushPullEncoded,
  tensorPushRowsEncoded,
} from "../contracts/tensors.ts";
import { mayBeApplied } from "../peer/gone-error.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import { encodesValues, type LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { Residuals } from "../wire/codecs/residuals.ts";
import type { CodecContext, ValueShape } from "../wire/codecs/value-codec.ts";
import { ArenaSpans } from "./arena-spans.ts";
import type { RowGroup } from "./block-rows.ts";
import type { CallWait, FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { Landings } from "./landings.ts";
import type { KeptPayload, LinkPayloads } from "./link-payloads.ts";
import type { Route } from "./router/server-directory.ts";
import { BlockRoute } from "./router/server-directory.ts";
import { requestOf } from "./router.ts";

const FLOAT_BYTES = 4;

/** How a call is sent; as ParameterCall and PushCall of tensor-client.ts. */
type EncodedCall = WaitOptions & {
  readonly clock: number;
  readonly priority?: number | undefined;
  /** What the handle holds that calls: handles of one parameter share this. */
  readonly subject: HeldParameter;
};
type EncodedPushCall = EncodedCall & { readonly scale?: number | undefined };

export type EncodedTensorOptions = {
  readonly functions: FunctionClient;
  readonly codecs: CodecContext;
  readonly payloads: LinkPayloads;
  readonly name: string;
  readonly parameter: number;
  readonly shape: TensorShape;
  readonly link: LinkEncoding;
};

/** A block of a push on its way. */
type SentBlock = {
  /** It failed, and may have been applied (E3). */
  isLost: boolean;
  readonly block: number;
  readonly shape: ValueShape;
  readonly payload: Uint8Array;
  readonly kept: KeptPayload | undefined;
};

export class EncodedTensor {
  readonly encodesPush: boolean;
  readonly encodesPull: boolean;
  /** False for top-k, which keeps what it does not send for whole tensors alone. */
  readonly encodesPushOfRows: boolean;
  readonly #options: EncodedTensorOptions;
  readonly #residuals: Residuals;

  constructor(options: EncodedTensorOptions) {
    const { link, payloads, codecs } = options;
    this.#options = options;
    this.encodesPush = encodesValues(link, "push");
    this.encodesPull = encodesValues(link, "pull");
    this.encodesPushOfRows = this.encodesPush && !payloads.hasResidual;
    this.#residuals = new Residuals(codecs);
  }

  async push(gradients: Float32Array, { clock, priority, scale = 1, subject, ...wait }: EncodedPushCall): Promise<void> {
    const { functions, parameter, payloads } = this.#options;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const blocks = this.#encode(gradients, scale, spans);
    const open = new Set(blocks);
    const pushNumber = subject.numberPush(clock);
    const requests = blocks.map((sent) => ({
      ...this.#to(sent.block, priority),
      request: { parameter, block: sent.block, clock, pushNumber, scale: payloads.hasResidual ? 1 : scale, gradients: sent.payload },
      answered: () => void open.delete(sent),
      failed: (error: WeighbridgeError) => noteLost(sent, error),
    }));
    await this.#run(functions.callEach(tensorPushEncoded, requests, { subject }), open, spans, { ...wait, subject });
  }

  /** Fills `into`. */
  async pull(into: Float32Array, { clock, priority, subject, ...wait }: EncodedCall): Promise<void> {
    const { functions, parameter } = this.#options;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const landings = new Landings(this.#options.payloads, spans);
    const requests = spans.guard(() =>
      this.#blocks().map(({ block, shape, from, to }) => ({
        ...this.#to(block, priority),
        request: { parameter, block, clock },
        ...landings.open(into.subarray(from, to), shape),
      })),
    );
    const pulled = functions.callEach(tensorPullEncoded, requests, { subject }).then(() => landings.check());
    await this.#run(pulled, new Set(), spans, { ...wait, subject });
  }

  async pushPull(gradients: Float32Array, into: Float32Array, call: EncodedPushCall): Promise<void> {
    const { clock, priority, scale = 1, subject, ...wait } = call;
    const { functions, parameter, payloads } = this.#options;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const landings = new Landings(payloads, spans);
    const opened = spans.guard(() => this.#blocks().map(({ shape, from, to }) => landings.open(into.subarray(from, to), shape)));
    const blocks = this.#encode(gradients, scale, spans);
    const open = new Set(blocks);
    const pushNumber = subject.numberPush(clock);
    const requests = blocks.map((sent) => ({
      ...this.#to(sent.block, priority),
      request: { parameter, block: sent.block, clock, pushNumber, scale: payloads.hasResidual ? 1 : scale, gradients: sent.payload },
      into: opened[sent.block]?.into,
      answered: (answer: { readonly values: Uint8Array }) => {
        open.delete(sent);
        opened[sent.block]?.answered(answer);
      },
      failed: (error: WeighbridgeError) => noteLost(sent, error),
      answerLost: () => {
        open.delete(sent); // it was applied
        const read = { ...this.#to(sent.block, priority), request: { parameter, block: sent.block, clock }, ...opened[sent.block] };
        return { requests: [requestOf(tensorPullEncoded, read)], release: () => {} };
      },
    }));
    const done = functions.callEach(tensorPushPullEncoded, requests, { subject }).then(() => landings.check());
    await this.#run(done, open, spans, { ...wait, subject });
  }

  /** `sums` has a row for each row of the groups. */
  async pushRows(
    groups: readonly RowGroup[],
    sums: Float32Array,
    { clock, priority, scale = 1, subject, ...wait }: EncodedPushCall,
  ): Promise<void> {
    const { functions, parameter, payloads, shape } = this.#options;
    const { width } = shape;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const encoded = spans.guard(() =>
      groups.map(({ from, to }) => payloads.encode(sums.subarray(from * width, to * width), { rowCount: to - from, width }, spans)),
    );
    const pushNumber = groups.length === 0 ? 0 : subject.numberPush(clock);
    const requests = groups.map(({ block, rows }, i) => ({
      ...this.#to(block, priority),
      request: { parameter, block, clock, pushNumber, scale, rows, gradients: encoded[i] as Uint8Array },
    }));
    await this.#run(functions.callEach(tensorPushRowsEncoded, requests, { subject }), new Set(), spans, { ...wait, subject });
  }

  /** Fills `landed`, a row for each row of the groups. */
  async pullRows(groups: readonly RowGroup[], landed: Float32Array, { clock, priority, subject, ...wait }: EncodedCall): Promise<void> {
    const { functions, parameter, payloads, shape } = this.#options;
    const { width } = shape;
    const spans = new ArenaSpans(this.#options.codecs.arena);
    const landings = new Landings(payloads, spans);
    const requests = spans.guard(() =>
      groups.map(({ block, rows, from, to }) => ({
        ...this.#to(block, priority),
        request: { parameter, block, clock, rows },
        ...landings.open(landed.subarray(from * width, to * width), { rowCount: to - from, width }),
      })),
    );
    const pulled = functions.callEach(tensorPullRowsEncoded, requests, { subject }).then(() => landings.check());
    await this.#run(pulled, new Set(), spans, { ...wait, subject });
  }

  /** Sends what the residuals hold, as it is (E2). What fails stays in them. */
  async flush({ clock, priority, subject, ...wait }: EncodedCall): Promise<void> {
    const { functions, parameter, codecs } = this.#options;
    const { arena, kernels } = codecs;
    const spans = new ArenaSpans(arena);
    const open = new Set<{ readonly block: number; readonly floatCount: number; readonly copy: number; isLost: boolean }>();
    for (const { block, address, floatCount } of this.#residuals.entries()) {
      if (isZero(arena.floats.subarray(address >>> 2, (address >>> 2) + floatCount))) continue;
      const copy = spans.take(floatCount * FLOAT_BYTES);
      kernels.copy(copy, address, floatCount * FLOAT_BYTES);
      kernels.zero(address, floatCount * FLOAT_BYTES);
      open.add({ block, floatCount, copy, isLost: false });
    }
    const pushNumber = open.size === 0 ? 0 : subject.numberPush(clock);
    const requests = [...open].map((left) => ({
      ...this.#to(left.block, priority),
      request: { parameter, block: left.block, clock, pushNumber, scale: 1, gradients: floatsAt(codecs, left.copy, left.floatCount) },
      answered: () => void open.delete(left),
      failed: (error: WeighbridgeError) => noteLost(left, error),
    }));
    const done = functions
      .callEach(tensorPush, requests, { subject })
      .catch((thrown: unknown) => {
        for (const { block, floatCount, copy, isLost } of open)
          if (!isLost) kernels.add(this.#residuals.spanOf(block, floatCount), copy, floatCount); // E3
        throw thrown;
      })
      .finally(() => spans.release());
    await functions.wait(done, `what is left of ${this.#options.name}`, { ...wait, subject });
  }

  /** Forgets what was not sent: the parameter is gone. */
  dropResiduals(): void {
    this.#residuals.close();
  }

  close(): void {
    this.#residuals.close();
    this.#options.payloads.close();
  }

  /** E1 */
  #encode(gradients: Float32Array, scale: number, spans: ArenaSpans): SentBlock[] {
    const { payloads } = this.#options;
    const sent: SentBlock[] = [];
    try {
      for (const { block, shape, from, to } of this.#blocks()) {
        const values = gradients.subarray(from, to);
        if (payloads.hasResidual) {
          const kept = payloads.encodeKeeping(values, shape, scale, this.#residuals.spanOf(block, to - from), spans);
          sent.push({ block, shape, payload: kept.payload, kept, isLost: false });
        } else sent.push({ block, shape, payload: payloads.encode(values, shape, spans), kept: undefined, isLost: false });
      }
      return sent;
    } catch (thrown) {
      this.#takeBack(sent);
      spans.release();
      throw thrown;
    }
  }

  /** E2, E3 */
  #takeBack(blocks: Iterable<SentBlock>): void {
    const { payloads, shape: tensor } = this.#options;
    for (const { block, shape, kept, isLost } of blocks) {
      if (kept === undefined) continue;
      const residual = this.#residuals.spanOf(block, tensor.floatsOf(block));
      if (isLost) payloads.giveUp(kept, shape, residual);
      else payloads.takeBack(kept, shape, residual);
    }
  }

  /** The spans live until the calls have ended, also when their caller waits no longer. */
  async #run(calls: Promise<void>, open: ReadonlySet<SentBlock>, spans: ArenaSpans, wait: CallWait): Promise<void> {
    const done = calls
      .catch((thrown: unknown) => {
        this.#takeBack(open);
        throw thrown;
      })
      .finally(() => spans.release());
    await this.#options.functions.wait(done, `values of ${this.#options.name}`, wait);
  }

  #blocks(): { readonly block: number; readonly shape: ValueShape; readonly from: number; readonly to: number }[] {
    const { shape } = this.#options;
    return Array.from({ length: shape.blockCount }, (_, block) => {
      const from = shape.firstFloat(block);
      const floatCount = shape.floatsOf(block);
      const width = shape.codedWidth(block);
      return { block, shape: { rowCount: floatCount / width, width }, from, to: from + floatCount };
    });
  }

  #to(block: number, priority = 0): { readonly to: Route; readonly scope: number; readonly priority: number } {
    const { parameter } = this.#options;
    return { to: new BlockRoute(parameter, block), scope: parameter, priority };
  }
}

/** E3 */
function noteLost(sent: { isLost: boolean }, error: WeighbridgeError): void {
  sent.isLost = mayBeApplied(error);
}

function isZero(floats: Float32Array): boolean {
  for (let i = 0; i < floats.length; i++) if (floats[i] !== 0) return false;
  return true;
}

function floatsAt({ arena }: CodecContext, address: number, count: number): Float32Array {
  return arena.floats.subarray(address >>> 2, (address >>> 2) + count) as Float32Array;
}
