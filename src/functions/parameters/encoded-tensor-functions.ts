// encoded-tensor-functions — pushes and pulls of a tensor whose link carries less: as tensor-push, tensor-pull, tensor-push-pull,
// tensor-push-rows and tensor-pull-rows, with values as the parameter's link encodes them (spec/codecs.md).

import type { FunctionContext } from "../function-context.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";
import type { TensorParameter } from "./tensor-parameter.ts";

type BlockRequest = { readonly parameter: number; readonly block: number; readonly clock: number };
type EncodedPush = BlockRequest & { readonly scale: number; readonly gradients: Uint8Array };
type EncodedValues = { readonly values: Uint8Array };

const pushFields = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", gradients: "u8[]" } as const;
const pullFields = { parameter: "u32", block: "u32", clock: "u32" } as const;
const pushRowsFields = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", rows: "u32[]", gradients: "u8[]" } as const;
const pullRowsFields = { parameter: "u32", block: "u32", clock: "u32", rows: "u32[]" } as const;
const nothing = {} as const;
const encodedValues = { values: "u8[]" } as const;

export const tensorPushEncoded: PsFunction<typeof pushFields, typeof nothing> = psFunction({
  name: "wb/tensor/push-encoded",
  request: pushFields,
  response: nothing,
  inPlace: true,
  handler: (context, request) => {
    pushBlock(context, request);
    return {};
  },
});

export const tensorPullEncoded: PsFunction<typeof pullFields, typeof encodedValues> = psFunction({
  name: "wb/tensor/pull-encoded",
  request: pullFields,
  response: encodedValues,
  reads: true,
  inPlace: true,
  handler: (context, request) => readBlock(context, request),
});

export const tensorPushPullEncoded: PsFunction<typeof pushFields, typeof encodedValues> = psFunction({
  name: "wb/tensor/push-pull-encoded",
  request: pushFields,
  response: encodedValues,
  inPlace: true,
  handler: (context, request) => readBlock(context, request, () => pushBlock(context, request)),
  again: (context, request) => readBlock(context, request),
});

export const tensorPushRowsEncoded: PsFunction<typeof pushRowsFields, typeof nothing> = psFunction({
  name: "wb/tensor/push-rows-encoded",
  request: pushRowsFields,
  response: nothing,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, block, clock, scale, rows, gradients }) => {
    const tensor = parameters.tensor(parameter);
    const shape = tensor.rowsShape(block, rows);
    tensor.link.decoded(gradients, shape, (values) => tensor.pushRows({ life, clock, block, rows, gradients: values, scale }));
    return {};
  },
});

export const tensorPullRowsEncoded: PsFunction<typeof pullRowsFields, typeof encodedValues> = psFunction({
  name: "wb/tensor/pull-rows-encoded",
  request: pullRowsFields,
  response: encodedValues,
  reads: true,
  inPlace: true,
  handler: (context, { parameter, block, clock, rows }) => {
    const tensor = context.parameters.tensor(parameter);
    const shape = tensor.rowsShape(block, rows);
    const source = tensor.roomFor(block, rows, context);
    const room = tensor.link.roomFor(shape, context);
    const read = (list: Uint32Array): EncodedValues =>
      tensor.link.encoded(tensor.pullRows(block, list, { out: source, worker: context.worker }).values, shape, room);
    if (tensor.isFresh(clock)) return read(rows);
    const kept = tensor.keep(rows); // the frame is gone when the wait is over
    context.hold(kept);
    return tensor.whenFresh({ life: context.life, clock, bytes: rows.byteLength }, () => read(kept.list));
  },
});

function pushBlock({ parameters, life }: FunctionContext, { parameter, block, clock, scale, gradients }: EncodedPush): void {
  const tensor = parameters.tensor(parameter);
  tensor.link.decoded(gradients, tensor.blockShape(block), (values) => tensor.push({ life, clock, block, gradients: values, scale }));
}

/** The block's values, now or as soon as the reader's clock allows it; `push` comes before them, and is not done if there is no room for them. */
function readBlock(
  context: FunctionContext,
  { parameter, block, clock }: BlockRequest,
  push?: () => void,
): EncodedValues | Promise<EncodedValues> {
  const tensor = context.parameters.tensor(parameter);
  const shape = tensor.blockShape(block);
  const room = tensor.link.isPlainPull ? 0 : tensor.link.roomFor(shape, context);
  push?.();
  return tensor.whenFresh({ life: context.life, clock, bytes: 0 }, () => {
    tensor.store.notePull(block, context.worker);
    return tensor.link.isPlainPull ? heldBytes(context, tensor, block) : encodedBlock(tensor, block, room);
  });
}

function encodedBlock(tensor: TensorParameter, block: number, room: number): EncodedValues {
  const held = tensor.store.hold(block);
  try {
    return tensor.link.encoded(held.values as Float32Array, tensor.blockShape(block), room);
  } finally {
    held.release();
  }
}

/** The block where it lies, held until it has left. */
function heldBytes(context: FunctionContext, tensor: TensorParameter, block: number): EncodedValues {
  const held = tensor.store.hold(block);
  context.hold(held);
  const { buffer, byteOffset, byteLength } = held.values;
  return { values: new Uint8Array(buffer, byteOffset, byteLength) };
}
