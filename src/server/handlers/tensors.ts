// tensors — serves pushes and pulls of blocks of a tensor and of rows in them, plain ones and those whose link carries less (spec/codecs.md).
//
// Invariants:
//   TensorHandlers.R1. Rows that do not exist and memory that is not there are found out before the push of a push and pull.

import { WeighbridgeError } from "../../base/errors.ts";
import {
  tensorPull,
  tensorPullEncoded,
  tensorPullRows,
  tensorPullRowsEncoded,
  tensorPush,
  tensorPushEncoded,
  tensorPushPull,
  tensorPushPullEncoded,
  tensorPushPullRows,
  tensorPushRows,
  tensorPushRowsEncoded,
  tensorPushRowsPull,
  tensorStart,
} from "../../contracts/tensors.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import { roomFor } from "../parameters/parameter-host.ts";
import type { ParameterLink } from "../parameters/parameter-link.ts";
import type { TensorParameter } from "../parameters/tensor-parameter.ts";
import { type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";

type BlockRequest = { readonly parameter: number; readonly block: number; readonly clock: number };
type RowsRequest = BlockRequest & { readonly rows: Uint32Array };
type EncodedPush = BlockRequest & { readonly pushNumber: number; readonly scale: number; readonly gradients: Uint8Array };
type Values = { readonly values: Float32Array };
type EncodedValues = { readonly values: Uint8Array };

const PLAIN_HANDLERS: readonly ServedFunction[] = [
  serve(tensorPush, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, gradients }) => {
      tensorOf(context, parameter, block).pushes.push({ life: context.life, clock, block, gradients, scale, pushNumber });
      return {};
    },
  }),
  serve(tensorPull, { inPlace: true, handler: readBlock }),
  serve(tensorPushPull, {
    inPlace: true,
    handler: (context, request, call) => {
      const { parameter, block, clock, pushNumber, scale, gradients } = request;
      tensorOf(context, parameter, block).pushes.push({ life: context.life, clock, block, gradients, scale, pushNumber });
      return readBlock(context, request, call);
    },
    again: readBlock,
  }),
  serve(tensorPushRows, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, rows, gradients }) => {
      tensorOf(context, parameter, block).pushes.pushRows({ life: context.life, clock, block, rows, gradients, scale, pushNumber });
      return {};
    },
  }),
  serve(tensorPullRows, { inPlace: true, handler: (context, request, call) => readRows(context, request, call) }),
  serve(tensorPushRowsPull, {
    inPlace: true,
    handler: (context, request, call) => {
      const { parameter, block, clock, pushNumber, scale, rows, gradients } = request;
      tensorOf(context, parameter, block).pushes.pushRows({ life: context.life, clock, block, rows, gradients, scale, pushNumber });
      return readBlock(context, request, call);
    },
    again: readBlock,
  }),
  serve(tensorPushPullRows, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, pushRows, gradients, pullRows }, call) => {
      const push = (): void =>
        tensorOf(context, parameter, block).pushes.pushRows({
          life: context.life,
          clock,
          block,
          rows: pushRows,
          gradients,
          scale,
          pushNumber,
        });
      return readRows(context, { parameter, block, clock, rows: pullRows }, call, push);
    },
    again: (context, { parameter, block, clock, pullRows }, call) => readRows(context, { parameter, block, clock, rows: pullRows }, call),
  }),
  serve(tensorStart, {
    inPlace: true,
    handler: (context, { parameter, block, values }) => ({ isTaken: tensorOf(context, parameter, block).start(block, values) }),
  }),
];

const ENCODED_HANDLERS: readonly ServedFunction[] = [
  serve(tensorPushEncoded, {
    inPlace: true,
    handler: (context, request, call) => {
      pushEncodedBlock(context, request, call);
      return {};
    },
  }),
  serve(tensorPullEncoded, {
    inPlace: true,
    handler: (context, request, call) => readEncodedBlock(context, request, call),
  }),
  serve(tensorPushPullEncoded, {
    inPlace: true,
    handler: (context, request, call) => readEncodedBlock(context, request, call, () => pushEncodedBlock(context, request, call)),
    again: (context, request, call) => readEncodedBlock(context, request, call),
  }),
  serve(tensorPushRowsEncoded, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, rows, gradients }, call) => {
      const { life } = context;
      const tensor = tensorOf(context, parameter, block);
      const values = linkOf(tensor).decoded(gradients, tensor.rowsShape(block, rows), call);
      tensor.pushes.pushRows({ life, clock, block, rows, gradients: values, scale, pushNumber });
      return {};
    },
  }),
  serve(tensorPullRowsEncoded, { inPlace: true, handler: readEncodedRows }),
];

export const TENSOR_HANDLERS: readonly ServedFunction[] = [...PLAIN_HANDLERS, ...ENCODED_HANDLERS];

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

/** A block, now or as soon as the reader's clock allows it; it is held until it has left. */
function readBlock(context: ServerContext, { parameter, block, clock }: BlockRequest, call: ServedCall): Values | Promise<Values> {
  const tensor = tensorOf(context, parameter, block);
  const read = (): Values => {
    tensor.store.notePull(block, context);
    const held = tensor.store.hold(block);
    call.hold(held);
    return { values: held.values as Float32Array };
  };
  return isFresh(tensor, clock) ? read() : tensor.whenFresh({ life: context.life, clock, bytes: 0 }, read);
}

/** Rows of a block, now or as soon as the reader's clock allows it; `push` comes before them, and is not done if they cannot be read (R1). */
function readRows(
  context: ServerContext,
  { parameter, block, clock, rows }: RowsRequest,
  call: ServedCall,
  push?: () => void,
): Values | Promise<Values> {
  const tensor = tensorOf(context, parameter, block);
  const reading = { out: tensor.roomFor(block, rows, call), reader: context };
  if (isFresh(tensor, clock)) {
    push?.();
    return tensor.pullRows(block, rows, reading);
  }
  const kept = tensor.keep(rows); // the frame is gone when the wait is over
  call.hold(kept);
  push?.();
  return tensor.whenFresh({ life: context.life, clock, bytes: rows.byteLength }, () => tensor.pullRows(block, kept.list, reading));
}

function pushEncodedBlock(
  context: ServerContext,
  { parameter, block, clock, pushNumber, scale, gradients }: EncodedPush,
  call: ServedCall,
): void {
  const { life } = context;
  const tensor = tensorOf(context, parameter, block);
  const values = linkOf(tensor).decoded(gradients, tensor.blockShape(block), call);
  tensor.pushes.push({ life, clock, block, gradients: values, scale, pushNumber });
}

/** As `readBlock`; `push` comes before the values, and is not done if there is no room for them (R1). */
function readEncodedBlock(
  context: ServerContext,
  { parameter, block, clock }: BlockRequest,
  call: ServedCall,
  push?: () => void,
): EncodedValues | Promise<EncodedValues> {
  const tensor = tensorOf(context, parameter, block);
  const link = linkOf(tensor);
  const shape = tensor.blockShape(block);
  const room = roomFor(tensor.host.arena, link.roomBytes(shape), call);
  push?.();
  return tensor.whenFresh({ life: context.life, clock, bytes: 0 }, () => {
    tensor.store.notePull(block, context);
    const held = tensor.store.hold(block);
    call.hold(held);
    return { values: bytesOf(link.encoded(held.values as Float32Array, shape, room)) };
  });
}

function readEncodedRows(
  context: ServerContext,
  { parameter, block, clock, rows }: RowsRequest,
  call: ServedCall,
): EncodedValues | Promise<EncodedValues> {
  const tensor = tensorOf(context, parameter, block);
  const link = linkOf(tensor);
  const shape = tensor.rowsShape(block, rows);
  const source = tensor.roomFor(block, rows, call);
  const room = roomFor(tensor.host.arena, link.roomBytes(shape), call);
  const read = (list: Uint32Array): EncodedValues => ({
    values: bytesOf(link.encoded(tensor.pullRows(block, list, { out: source, reader: context }).values, shape, room)),
  });
  if (isFresh(tensor, clock)) return read(rows);
  const kept = tensor.keep(rows); // the frame is gone when the wait is over
  call.hold(kept);
  return tensor.whenFresh({ life: context.life, clock, bytes: rows.byteLength }, () => read(kept.list));
}

function linkOf({ link, spec }: TensorParameter): ParameterLink {
  if (link !== undefined) return link;
  throw new WeighbridgeError("UNSUPPORTED", `${spec.name} has no link encoding: its values travel as they are`);
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
