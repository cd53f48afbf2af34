// tensors — serves pushes and pulls of blocks of a tensor and of rows in them. How values travel is the tensor's business:
// it gives them as they are meant. A list of rows that is empty means the whole block.
//
// Invariants:
//   TensorHandlers.R1. Rows that do not exist and memory that is not there are found out before the push of a push and pull.

import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../../contracts/tensors.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { TensorParameter } from "../parameters/tensor-parameter.ts";
import { type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";

type Reading = { readonly block: number; readonly clock: number; readonly rows: Uint32Array };
type Values = { readonly values: ArrayBufferView };

export const TENSOR_HANDLERS: readonly ServedFunction[] = [
  serve(tensorPush, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, rows, gradients }, call) => {
      const tensor = tensorOf(context, parameter, block);
      const values =
        tensor.link === undefined && gradients instanceof Float32Array ? gradients : tensor.gradientsIn(gradients, block, rows, call);
      tensor.pushes.push({ life: context.life, clock, block, rows, gradients: values, scale, pushNumber });
      return {};
    },
  }),
  serve(tensorPull, {
    inPlace: true,
    handler: (context, { parameter, block, clock, rows }, call) =>
      read(context, tensorOf(context, parameter, block), { block, clock, rows }, call),
  }),
  serve(tensorPushPull, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, pushRows, gradients, pullRows }, call) => {
      const { life } = context;
      const tensor = tensorOf(context, parameter, block);
      const values = tensor.gradientsIn(gradients, block, pushRows, call);
      const push = (): void => tensor.pushes.push({ life, clock, block, rows: pushRows, gradients: values, scale, pushNumber });
      return read(context, tensor, { block, clock, rows: pullRows }, call, push);
    },
    again: (context, { parameter, block, clock, pullRows }, call) =>
      read(context, tensorOf(context, parameter, block), { block, clock, rows: pullRows }, call),
  }),
  serve(tensorStart, {
    inPlace: true,
    handler: (context, { parameter, block, values }) => ({ isTaken: tensorOf(context, parameter, block).start(block, values) }),
  }),
];

/** The tensor that a request about one of its blocks is for. Throws UNKNOWN_PARAMETER, UNSUPPORTED, and WRONG_OWNER unless the block is this server's. */
function tensorOf({ parameters, ownership }: ServerContext, parameter: number, block: number): TensorParameter {
  const tensor = parameters.tensors.get(parameter) ?? parameters.tensor(parameter);
  const known = tensor.store.blocks.get(block);
  if (known?.ownedEpoch === ownership.epoch) return tensor;
  ownership.checkBlock(parameter, block);
  if (known !== undefined) known.ownedEpoch = ownership.epoch;
  return tensor;
}

/** Whether a read at this clock may be answered now (W2). */
function isFresh({ clocks, phases }: TensorParameter, clock: number): boolean {
  return clocks.clockMin >= clock - (phases.constant ?? phases.at(clock)).staleness;
}

/** A block or rows of it, now or as soon as the reader's clock allows it; `push` comes before that, and is not done if they cannot be read (R1). */
function read(
  context: ServerContext,
  tensor: TensorParameter,
  { block, clock, rows }: Reading,
  call: ServedCall,
  push?: () => void,
): Values | Promise<Values> {
  const out = rows.length === 0 && tensor.link === undefined ? 0 : tensor.roomFor(block, rows, call);
  if (isFresh(tensor, clock)) {
    push?.();
    return rows.length === 0 ? readBlock(tensor, block, out, context, call) : tensor.pullRows(block, rows, { out, reader: context });
  }
  const list = rows.length === 0 ? rows : keptRows(tensor, rows, call);
  push?.();
  return tensor.whenFresh({ life: context.life, clock, bytes: rows.byteLength }, () =>
    list.length === 0 ? readBlock(tensor, block, out, context, call) : tensor.pullRows(block, list, { out, reader: context }),
  );
}

/** A copy: the frame is gone when the wait is over. */
function keptRows(tensor: TensorParameter, rows: Uint32Array, call: ServedCall): Uint32Array {
  const kept = tensor.keep(rows);
  call.hold(kept);
  return kept.list;
}

/** A whole block, which is held until it has left, or what carries it, in `out`. */
function readBlock(tensor: TensorParameter, block: number, out: number, context: ServerContext, call: ServedCall): Values {
  tensor.store.notePull(block, context);
  const held = tensor.store.hold(block);
  const values = held.values as Float32Array;
  if (tensor.link === undefined || tensor.link.isPlainPull) {
    call.hold(held);
    return { values };
  }
  try {
    return { values: tensor.link.encoded(values, tensor.blockShape(block), out) };
  } finally {
    held.release();
  }
}
